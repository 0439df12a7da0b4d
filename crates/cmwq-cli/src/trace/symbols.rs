//! Names of functions, from what the process has mapped and the files behind that.
//!
//! The process knows addresses; files' symbol tables and debug information have names. Files are read when the first
//! function in them is asked for. A function whose file is gone, or has no names, is shown by file and offset.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use addr2line::Loader;
use object::{Object as _, ObjectSegment as _};

/// How far into a closure's function one looks for the closure itself.
const LOOK_INTO: u64 = 2048;

/// See the module header.
pub(crate) struct Symbols {
    maps: Vec<Mapping>,
    /// Where the process's files are found, if not where it says.
    root: Option<PathBuf>,
    exe: Option<PathBuf>,
    files: HashMap<String, Option<Code>>,
    known: HashMap<u64, Rc<str>>,
}

/// A mapped piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    path: String,
}

/// A file with code.
struct Code {
    loader: Loader,
    /// `(file offset, size, address)` of what is loaded.
    segments: Vec<(u64, u64, u64)>,
}

impl Symbols {
    /// Of a process that has left a trace: its files are where they were.
    pub(crate) fn of_file() -> Self {
        Self {
            maps: Vec::new(),
            root: None,
            exe: None,
            files: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// Of a running process, whose files may be in another mount namespace, or deleted.
    pub(crate) fn of_process(pid: u32) -> Self {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let maps = std::fs::read_to_string(proc.join("maps")).unwrap_or_default();
        let exe = std::fs::read_link(proc.join("exe")).ok();
        let mut symbols = Self { root: Some(proc), exe, ..Self::of_file() };
        symbols.set_maps(&maps);
        symbols
    }

    /// What the process has mapped, as `/proc/PID/maps` says it.
    pub(crate) fn set_maps(&mut self, maps: &str) {
        self.maps = maps.lines().filter_map(parse).collect();
        // What had no name may have one now.
        self.known.retain(|_, name| !name.starts_with("0x"));
    }

    /// The process says what a function is for.
    pub(crate) fn is_told(&mut self, address: u64, name: &str) {
        self.known.insert(address, name.into());
    }

    /// A process may have loaded more code.
    pub(crate) fn look_again(&mut self, pid: u32) {
        if let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) {
            // One that has ended has none.
            if !maps.is_empty() {
                self.set_maps(&maps);
            }
        }
    }

    /// The function at this address.
    pub(crate) fn name(&mut self, address: u64) -> Rc<str> {
        if let Some(name) = self.known.get(&address) {
            return Rc::clone(name);
        }
        let name: Rc<str> = self.find(address).into();
        self.known.insert(address, Rc::clone(&name));
        name
    }

    fn find(&mut self, address: u64) -> String {
        let Some(map) = self.maps.iter().find(|map| (map.from..map.to).contains(&address)) else {
            return format!("{address:#x}");
        };
        let (path, at) = (map.path.clone(), address - map.from + map.offset);
        let (root, exe) = (self.root.as_deref(), self.exe.as_deref());
        let code = self.files.entry(path.clone()).or_insert_with(|| open(root, exe, &path));
        let name = code.as_ref().and_then(|code| code.name(at));
        name.unwrap_or_else(|| {
            let file = path.rsplit('/').next().unwrap_or_default();
            format!("{file}+{at:#x}")
        })
    }
}

/// A line of `maps` about code of a file.
fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (from, to) = fields.next()?.split_once('-')?;
    let (permissions, offset) = (fields.next()?, fields.next()?);
    let path = fields.nth(2)?.trim_start();
    if !permissions.contains('x') || !path.starts_with('/') {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { from: hex(from)?, to: hex(to)?, offset: hex(offset)?, path: path.to_owned() })
}

fn open(root: Option<&Path>, exe: Option<&Path>, path: &str) -> Option<Code> {
    let candidates = [
        // The program itself can be had even if its file is not there any more.
        root.filter(|_| exe == Some(Path::new(path))).map(|root| root.join("exe")),
        root.map(|root| root.join("root").join(path.trim_start_matches('/'))),
        Some(PathBuf::from(path)),
    ];
    candidates.into_iter().flatten().find_map(|path| Code::load(&path))
}

impl Code {
    fn load(path: &Path) -> Option<Self> {
        let loader = Loader::new(path).ok()?;
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Some(Self { segments: segments.collect(), loader })
    }

    /// The function at this place of the file.
    fn name(&self, at: u64) -> Option<String> {
        let holds = |&&(offset, size, _): &&(u64, u64, u64)| (offset..offset + size).contains(&at);
        let (offset, _, address) = self.segments.iter().find(holds)?;
        let address = at - offset + address;
        let symbol = self.loader.find_symbol_info(address)?;
        let name = demangle(symbol.name());
        if name.starts_with("cmwq::closure::run") || name.starts_with("cmwq::work::run") {
            return Some(self.closure(address).or_else(|| generic(&name)).unwrap_or(name));
        }
        Some(name)
    }

    /// A function that runs a closure: what the compiler put into it.
    fn closure(&self, address: u64) -> Option<String> {
        let own = self.loader.find_symbol_info(address)?.address();
        for probe in (address..address + LOOK_INTO).step_by(4) {
            if self.loader.find_symbol_info(probe)?.address() != own {
                return None;
            }
            let Ok(mut frames) = self.loader.find_frames(probe) else { continue };
            let mut outermost = None;
            while let Ok(Some(frame)) = frames.next() {
                let Some(name) =
                    frame.function.and_then(|name| name.demangle().ok().map(String::from))
                else {
                    continue;
                };
                if is_users(&name) {
                    outermost = Some(strip_hash(&name));
                }
            }
            if outermost.is_some() {
                return outermost;
            }
        }
        None
    }
}

/// Not of this library, or of the language's.
fn is_users(name: &str) -> bool {
    let name = name.trim_start_matches('<');
    !["cmwq::", "cmwq_core::", "core::", "std::", "alloc::", "__rust"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The closure among the parameters of a function's name, where names have those.
fn generic(name: &str) -> Option<String> {
    let (_, parameters) = name.split_once('<')?;
    let closure = parameters.split(", ").find(|parameter| parameter.contains("{closure"))?;
    Some(closure.trim_end_matches('>').to_owned())
}

fn demangle(name: &str) -> String {
    strip_hash(&addr2line::demangle_auto(name.into(), None))
}

/// Rust's older names end with a hash.
fn strip_hash(name: &str) -> String {
    match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            front.to_owned()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = "55c02617f000-55c026716000 r-xp 00206000 fe:01 123  /a b/prog (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!((mapping.from, mapping.offset), (0x55c0_2617_f000, 0x20_6000));
        assert_eq!(mapping.path, "/a b/prog (deleted)");
        for other in [
            "7f-80 r--p 00000000 fe:01 5 /lib/libc.so",
            "7f-80 r-xp 00000000 00:00 0 [vdso]",
            "7f-80 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn functions_of_this_program_and_of_libraries_have_names() {
        let mut symbols = Symbols::of_process(std::process::id());
        let this = functions_of_this_program_and_of_libraries_have_names as *const () as u64;
        let name = symbols.name(this);
        assert!(name.ends_with("functions_of_this_program_and_of_libraries_have_names"), "{name}");
        let getpid = symbols.name(libc::getpid as *const () as u64);
        assert!(getpid.contains("getpid"), "{getpid}");
        assert_eq!(&*symbols.name(0x10), "0x10");
    }

    #[test]
    fn names_are_shown_without_their_hash() {
        assert_eq!(
            demangle("_ZN3std2io5stdio6_print17h0123456789abcdefE"),
            "std::io::stdio::_print"
        );
        assert_eq!(demangle("main"), "main");
        assert!(is_users("prog::main::{{closure}}") && !is_users("<alloc::boxed::Box<F>>::call"));
        let name = "cmwq::closure::run::<cmwq_core::work::WorkItem, prog::main::{closure#0}, ()>";
        assert_eq!(generic(name).as_deref(), Some("prog::main::{closure#0}"));
    }
}
