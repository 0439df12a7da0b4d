//! Names, files and lines of a process's functions.
//!
//! The process knows addresses, and says what its closures' functions are for; of others, files'
//! symbol tables and debug information have names. Files are read when the first function in them
//! is asked for. A function whose file is gone, or has no name for it, is shown by file and offset.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::rc::Rc;

use cmwq::foreign::harmless;
use cmwq_observe::inspect::Target;

use super::code::Code;
use super::files::Budget;
use super::maps::{self, Mapping};

/// LIMIT: bytes of what a process has mapped, as a text.
const MAX_MAPS: u64 = 64 << 20;
/// LIMIT: addresses whose names are remembered.
const MAX_KNOWN: usize = 1 << 16;

/// A function, and where in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// As the language writes it; an address where no name is known.
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// The file that holds the code.
    pub(crate) module: String,
}

impl Place {
    /// Whether the function's name tells where it belongs: short debug information has none that
    /// do.
    pub(crate) fn has_path(&self) -> bool {
        let name = &self.function;
        name.starts_with('<') || name.split('<').next().is_some_and(|front| front.contains("::"))
    }

    /// Whether the source is the standard library's, or cmwq's: `cmwq/src/wq.rs`,
    /// `cmwq-0.1.0/src/wq.rs`.
    pub(crate) fn is_in_library_file(&self) -> bool {
        let Some(file) = &self.file else { return false };
        if file.starts_with("library/")
            || file.starts_with("/rustc/")
            || file.contains("/rustlib/src/")
        {
            return true;
        }
        let mut parts = file.split('/').rev();
        let is_ours = |folder: &str| {
            let version = folder.strip_prefix("cmwq").map(|rest| rest.trim_start_matches("-core"));
            version.is_some_and(|version| {
                version.trim_start_matches('-').chars().all(|c| c.is_ascii_digit() || c == '.')
            })
        };
        parts.any(|part| part == "src") && parts.next().is_some_and(is_ours)
    }

    /// A name without a path has all that the function was made for instead.
    fn shorten(&mut self) {
        if !self.has_path()
            && let Some(front) = self.function.find('<')
        {
            self.function.truncate(front);
        }
    }
}

/// See the module header.
pub(crate) struct Symbols {
    /// `None`: it has left a trace, and its files are where they were.
    pid: Option<u32>,
    maps: Vec<Mapping>,
    /// By path.
    files: HashMap<String, Option<Code>>,
    /// What the process says.
    told: HashMap<u64, Rc<str>>,
    known: HashMap<u64, Rc<str>>,
    budget: Budget,
}

impl Symbols {
    /// Of a process that has left a trace.
    pub(crate) fn of_file() -> Self {
        Self {
            pid: None,
            maps: Vec::new(),
            files: HashMap::new(),
            told: HashMap::new(),
            known: HashMap::new(),
            budget: Budget::new(),
        }
    }

    /// Of a running process, whose files may be in another mount namespace, or deleted.
    pub(crate) fn of_process(pid: u32) -> Self {
        let mut symbols = Self { pid: Some(pid), ..Self::of_file() };
        // One that shows nothing tells nothing.
        let told = Target::open(pid).ok().and_then(|target| target.functions().ok());
        for (address, name) in told.unwrap_or_default() {
            symbols.is_told(address, &name);
        }
        symbols.look_again();
        symbols
    }

    /// What the process has mapped, as `/proc/PID/maps` says it.
    pub(crate) fn set_maps(&mut self, maps: &str) {
        self.maps = maps::read(maps);
        // What had no name may have one now.
        self.known.retain(|_, name| !name.starts_with("0x"));
    }

    /// The process says what a function is for.
    pub(crate) fn is_told(&mut self, address: u64, name: &str) {
        self.told.insert(address, harmless(name).into());
    }

    /// A process may have loaded more code.
    pub(crate) fn look_again(&mut self) {
        let Some(pid) = self.pid else { return };
        let mut maps = Vec::new();
        if let Ok(file) = File::open(format!("/proc/{pid}/maps")) {
            // What could not be read is not there.
            let _ = file.take(MAX_MAPS).read_to_end(&mut maps);
        }
        let maps = String::from_utf8_lossy(&maps);
        // One that has ended has none.
        if !maps.is_empty() {
            self.set_maps(&maps);
        }
    }

    /// What it has mapped.
    pub(super) fn maps(&self) -> &[Mapping] {
        &self.maps
    }

    /// The function at this address.
    pub(crate) fn name(&mut self, address: u64) -> Rc<str> {
        if let Some(name) = self.told.get(&address).or_else(|| self.known.get(&address)) {
            return Rc::clone(name);
        }
        let name: Rc<str> = self.find(address).into();
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(address, Rc::clone(&name));
        name
    }

    fn find(&mut self, address: u64) -> String {
        let Some((map, code, _)) = self.code(address) else { return format!("{address:#x}") };
        let at = (address - map.range.start).wrapping_add(map.offset);
        let name = code.and_then(|code| code.symbol(code.address(at)?));
        name.unwrap_or_else(|| format!("{}+{at:#x}", map.name()))
    }

    /// What is at an address, the innermost of inlined functions first. `is_return`: it is where a
    /// call returns to.
    pub(crate) fn places(&mut self, address: u64, is_return: bool) -> Vec<Place> {
        let probe = if is_return { address.saturating_sub(1) } else { address };
        let nameless = |module: &str| {
            let (function, module) = (format!("{address:#x}"), module.to_owned());
            vec![Place { function, module, ..Place::default() }]
        };
        let Some((map, code, budget)) = self.code(probe) else { return nameless("?") };
        let at = (probe - map.range.start).wrapping_add(map.offset);
        let Some((code, at)) = code.and_then(|code| Some((code, code.address(at)?))) else {
            return nameless(&map.name());
        };
        let mut places = code.inlined(at, &map.name(), budget);
        if places.is_empty() {
            places = nameless(&map.name());
        }
        // The outermost one has the code, and thus a symbol, which has a path where short debug
        // information has none.
        if let Some(last) = places.last_mut()
            && !last.has_path()
            && let Some(symbol) = code.symbol(at)
        {
            last.function = symbol;
        }
        places.iter_mut().for_each(Place::shorten);
        places
    }

    /// What is mapped there, its file, and what may still be read.
    fn code(&mut self, address: u64) -> Option<(&Mapping, Option<&Code>, &mut Budget)> {
        let map = self.maps.iter().find(|map| map.range.contains(&address))?;
        if !self.files.contains_key(&map.path) {
            let code = map.file(self.pid).and_then(|path| Code::load(&path, &mut self.budget));
            self.files.insert(map.path.clone(), code);
        }
        Some((map, self.files.get(&map.path)?.as_ref(), &mut self.budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_and_of_libraries_have_names() {
        let mut symbols = Symbols::of_process(std::process::id());
        let this = functions_of_this_program_and_of_libraries_have_names as *const () as u64;
        let is_it =
            |name: &str| name.ends_with("functions_of_this_program_and_of_libraries_have_names");
        let name = symbols.name(this);
        assert!(is_it(&name), "{name}");
        let places = symbols.places(this, false);
        assert!(is_it(&places.last().unwrap().function), "{places:?}");
        let getpid = symbols.name(libc::getpid as *const () as u64);
        assert!(getpid.contains("getpid"), "{getpid}");
        assert_eq!(&*symbols.name(0x10), "0x10");
        assert_eq!(symbols.places(0x10, false)[0].function, "0x10");
    }

    #[test]
    fn what_the_process_says_comes_first() {
        let mut symbols = Symbols::of_file();
        assert_eq!(&*symbols.name(0x10), "0x10");
        symbols.is_told(0x10, "prog::main::{{closure}}");
        symbols.set_maps("");
        assert_eq!(&*symbols.name(0x10), "prog::main::{{closure}}");
    }

    #[test]
    fn short_debug_information_does_not_make_the_library_the_program() {
        let at = |function: &str, file: &str| {
            let mut place =
                Place { function: function.into(), file: Some(file.into()), ..Place::default() };
            place.shorten();
            place
        };
        let made_for = at("blocking<bool, main::sync>", "/x/registry/cmwq-0.1.0/src/current.rs");
        assert_eq!((made_for.function.as_str(), made_for.has_path()), ("blocking", false));
        assert!(made_for.is_in_library_file());
        for library in [
            "/x/crates/cmwq/src/wq.rs",
            "/x/cmwq-core/src/a/b.rs",
            "/rustc/0/library/a.rs",
            "library/std/src/sync/mpmc/context.rs",
        ] {
            assert!(at("flush", library).is_in_library_file(), "{library}");
        }
        for own in ["/x/cmwqueue/src/main.rs", "src/main.rs", "/cmwq/main.rs"] {
            assert!(!at("main", own).is_in_library_file(), "{own}");
        }
        let whole = "<core::panic::X<F> as FnOnce<()>>::call_once";
        assert_eq!(at(whole, "").function, whole);
    }
}
