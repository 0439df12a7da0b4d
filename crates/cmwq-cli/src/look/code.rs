//! The names, files and lines that a file with code has for its functions.
//!
//! The file is another process's, who may have made it to do harm: it is read once and whole
//! ([`Budget`]), and what it says is bounded where it could be repeated or unpacked without end.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation as _, LookupResult, SplitDwarfLoad};
use cmwq::foreign::harmless;
use gimli::{EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use super::files::Budget;
use super::symbols::Place;

type Reader = EndianArcSlice<RunTimeEndian>;

/// LIMIT: characters of a name.
const MAX_NAME: usize = 2048;
/// LIMIT: functions that are inlined into each other at one place.
const MAX_INLINED: usize = 64;

/// A file with code.
pub(super) struct Code {
    context: Context<Reader>,
    names: Names,
    /// `(file offset, size, address)` of what is loaded.
    segments: Vec<(u64, u64, u64)>,
}

impl Code {
    pub(super) fn load(path: &Path, budget: &mut Budget) -> Option<Self> {
        let bytes = budget.read(path)?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        let segments = segments.collect();
        let names = Names::of(&file);
        let mut dwarf =
            gimli::Dwarf::load(|id| section(&file, &bytes, Some(id.name()), budget)).ok()?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Some(Self { context: Context::from_dwarf(dwarf).ok()?, names, segments })
    }

    /// The file's own address of a place in it.
    pub(super) fn address(&self, at: u64) -> Option<u64> {
        let holds = |&&(offset, size, _): &&(u64, u64, u64)| at >= offset && at - offset < size;
        let (offset, _, address) = self.segments.iter().find(holds)?;
        Some(address.wrapping_add(at - offset))
    }

    /// The symbol of what is there.
    pub(super) fn symbol(&self, address: u64) -> Option<String> {
        self.names.at(address).map(readable)
    }

    /// The functions at an address, the innermost first.
    pub(super) fn inlined(&self, address: u64, module: &str, budget: &mut Budget) -> Vec<Place> {
        let mut frames = self.context.find_frames(address);
        let frames = loop {
            match frames {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    frames = continuation.resume(split(&load, budget));
                }
            }
        };
        let Ok(mut frames) = frames else { return Vec::new() };
        let mut places = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name =
                frame.function.as_ref().and_then(|name| Some(readable(&name.raw_name().ok()?)));
            let location = frame.location.as_ref();
            places.push(Place {
                function: name.unwrap_or_else(|| "0x?".to_owned()),
                file: location.and_then(|at| at.file).map(|file| cut(&harmless(file))),
                line: location.and_then(|at| at.line),
                module: module.to_owned(),
            });
            if places.len() == MAX_INLINED {
                break;
            }
        }
        places
    }
}

/// A file's symbols, by address.
struct Names(Vec<Named>);

struct Named {
    begin: u64,
    /// Of one that does not say it: up to the next one, or to the end of its section.
    size: u64,
    name: Box<str>,
}

impl Names {
    fn of(file: &object::File<'_>) -> Self {
        let map = file.symbol_map();
        let symbols = map.symbols().iter().map(|symbol| Named {
            begin: symbol.address(),
            size: symbol.size(),
            name: symbol.name().into(),
        });
        Self(symbols.collect())
    }

    /// The name of what is there. Not of what lies before it: where only exported functions have
    /// symbols, as in libraries that are stripped, others lie between them.
    fn at(&self, address: u64) -> Option<&str> {
        let behind = self.0.partition_point(|symbol| symbol.begin <= address);
        let symbol = self.0.get(behind.checked_sub(1)?)?;
        (address - symbol.begin < symbol.size).then_some(&*symbol.name)
    }
}

/// A section of the file: a part of `bytes`, or what is unpacked of it.
fn section(
    file: &object::File<'_>,
    bytes: &Arc<[u8]>,
    name: Option<&str>,
    budget: &mut Budget,
) -> gimli::Result<Reader> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let empty = || Reader::new(Arc::from([]), endian);
    let Some(section) = name.and_then(|name| file.section_by_name(name)) else {
        return Ok(empty());
    };
    let Ok(data) = section.compressed_data() else { return Ok(empty()) };
    if data.format == object::CompressionFormat::None {
        let range = section.file_range().and_then(|(begin, len)| {
            let begin = usize::try_from(begin).ok()?;
            let end = begin.checked_add(usize::try_from(len).ok()?)?;
            (end <= bytes.len()).then_some(begin..end)
        });
        let whole = Reader::new(Arc::clone(bytes), endian);
        return Ok(range.map_or_else(empty, |range| whole.range(range)));
    }
    // The length is what the file says.
    let unpacked = budget.take(data.uncompressed_size).and_then(|()| data.decompress().ok());
    Ok(unpacked.map_or_else(empty, |unpacked| Reader::new(Arc::from(&*unpacked), endian)))
}

/// Debug information that lies in a file of its own.
fn split(load: &SplitDwarfLoad<Reader>, budget: &mut Budget) -> Option<Arc<gimli::Dwarf<Reader>>> {
    let text = |reader: &Option<Reader>| {
        reader.as_ref().and_then(|bytes| std::str::from_utf8(bytes.bytes()).ok()).map(str::to_owned)
    };
    let mut path = PathBuf::from(text(&load.comp_dir).unwrap_or_default());
    path.push(text(&load.path)?);
    let bytes = budget.read(&path)?;
    let file = object::File::parse(&*bytes).ok()?;
    let name = |id: SectionId| id.dwo_name();
    let mut dwarf = gimli::Dwarf::load(|id| section(&file, &bytes, name(id), budget)).ok()?;
    let header = dwarf.units().next().ok()??;
    if dwarf.unit(header).ok()?.dwo_id != Some(load.dwo_id) {
        return None;
    }
    dwarf.make_dwo(&load.parent);
    Some(Arc::new(dwarf))
}

/// As the language writes it, harmless, and without the hash that ends Rust's older names.
fn readable(name: &str) -> String {
    plain(&harmless(&demangled(name))).to_owned()
}

fn demangled(name: &str) -> String {
    if name.len() > MAX_NAME {
        return cut(name);
    }
    let mut text = Cut(String::new());
    // A name can say that a part of it is repeated; what is too long ends the writing.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let _ = write!(text, "{rust:#}");
    } else if let Ok(other) = cpp_demangle::Symbol::new(name) {
        let _ = other.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::default());
    }
    if text.0.is_empty() { name.to_owned() } else { text.0 }
}

/// Takes no more than a name may have.
struct Cut(String);

impl std::fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

fn plain(name: &str) -> &str {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let front = name.rsplit_once("::h").filter(|(_, hash)| is_hash(hash));
    front.map_or(name, |(front, _)| front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_symbol_is_not_called_by_the_one_before() {
        let named = |begin, size, name: &str| Named { begin, size, name: name.into() };
        let names = Names(vec![named(0x10, 1, "short"), named(0x20, 8, "long")]);
        let names = [0x0f, 0x10, 0x11, 0x1f, 0x20, 0x27, 0x28].map(|at| names.at(at));
        let (short, long) = (Some("short"), Some("long"));
        assert_eq!(names, [None, short, None, None, long, long, None]);
    }

    #[test]
    fn names_are_shown_without_their_hash() {
        assert_eq!(plain("std::io::stdio::_print::h0123456789abcdef"), "std::io::stdio::_print");
        assert_eq!((plain("main"), plain("a::have")), ("main", "a::have"));
    }

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(
            readable("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(readable("\u{1b}[31mmain\u{9b}"), "?[31mmain?");
    }

    #[test]
    fn a_name_that_repeats_itself_is_cut() {
        // Each parameter is a function of the one before, twice.
        let mut name = "_Z1fPFvvE".to_owned();
        for number in 0..30_u32 {
            let digit = char::from_digit(number, 36).unwrap().to_ascii_uppercase();
            name += &format!("PFvS{digit}_S{digit}_E");
        }
        assert!(readable(&name).len() <= MAX_NAME, "{}", readable(&name).len());
        assert_eq!(readable(&"n".repeat(1 << 20)).len(), MAX_NAME);
    }
}
