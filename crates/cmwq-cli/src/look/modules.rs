//! The files that a process's code comes from: how to unwind through them, and what their functions are called.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use addr2line::Loader;
use framehop::{ExplicitModuleSectionInfo, Module};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags};

/// LIMIT: no file of code is read that is longer: 2 GiB.
const MAX_FILE: u64 = 2 << 30;

/// A function, and where in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// As the language writes it; an address where no name is known.
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// The file that holds the code.
    pub(crate) module: String,
}

/// One file, or the vDSO, where it is mapped.
struct Mapped {
    name: String,
    range: Range<u64>,
    /// What is to be added to the file's own addresses.
    bias: u64,
    path: Option<PathBuf>,
}

/// See the module header.
pub(crate) struct Modules {
    mapped: Vec<Mapped>,
    loaders: HashMap<PathBuf, Option<Loader>>,
}

/// A line of `maps` with code in it.
struct Line {
    range: Range<u64>,
    offset: u64,
    path: String,
}

impl Modules {
    /// Those of process `pid`, and what unwinding needs of them. `read` reads its memory.
    pub(crate) fn read(
        pid: u32,
        read: impl Fn(Range<u64>) -> Option<Vec<u8>>,
    ) -> (Self, Vec<Module<Vec<u8>>>) {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let (mut mapped, mut unwinding) = (Vec::new(), Vec::new());
        for line in maps.lines().filter_map(code) {
            let is_vdso = line.path == "[vdso]";
            let path = (!is_vdso).then(|| PathBuf::from(format!("/proc/{pid}/root{}", line.path)));
            let path = path
                .map(|path| if path.exists() { path } else { format!("/proc/{pid}/exe").into() });
            let bytes = match &path {
                Some(path)
                    if fs::metadata(path)
                        .is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_FILE) =>
                {
                    fs::read(path).ok()
                }
                Some(_) => None,
                None => read(line.range.clone()),
            };
            let Some(file) = bytes.as_deref().and_then(|bytes| object::File::parse(bytes).ok())
            else {
                continue;
            };
            let Some(bias) = bias_of(&file, &line) else { continue };
            let name = line.path.rsplit('/').next().unwrap_or_default().to_owned();
            unwinding.push(Module::new(name.clone(), line.range.clone(), bias, sections(&file)));
            mapped.push(Mapped { name, range: line.range, bias, path });
        }
        (Self { mapped, loaders: HashMap::new() }, unwinding)
    }

    /// What is at an address, the innermost of inlined functions first. `is_return`: it is where a call returns to.
    pub(crate) fn places(&mut self, address: u64, is_return: bool) -> Vec<Place> {
        let probe = if is_return { address.saturating_sub(1) } else { address };
        let nameless = |module: &str| Place {
            function: format!("{address:#x}"),
            file: None,
            line: None,
            module: module.to_owned(),
        };
        let Some(mapped) = self.mapped.iter().find(|mapped| mapped.range.contains(&probe)) else {
            return vec![nameless("?")];
        };
        let (name, relative) = (mapped.name.clone(), probe.wrapping_sub(mapped.bias));
        let Some(path) = mapped.path.clone() else { return vec![nameless(&name)] };
        let loader = self.loaders.entry(path.clone()).or_insert_with(|| Loader::new(&path).ok());
        let Some(loader) = loader else { return vec![nameless(&name)] };
        let mut places = inlined(loader, relative, &name);
        // The outermost has the code; without a name in the debug information it has one in the symbols.
        if places.is_empty() {
            places.push(nameless(&name));
        }
        if let Some(last) = places.last_mut().filter(|last| last.function.starts_with("0x"))
            && let Some(symbol) = loader.find_symbol(relative)
        {
            last.function = plain(&addr2line::demangle_auto(symbol.into(), None));
        }
        places
    }
}

fn inlined(loader: &Loader, relative: u64, module: &str) -> Vec<Place> {
    let Ok(mut frames) = loader.find_frames(relative) else { return Vec::new() };
    let mut places = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame
            .function
            .as_ref()
            .and_then(|function| function.demangle().ok().map(|name| plain(&name)));
        let location = frame.location.as_ref();
        places.push(Place {
            function: name.unwrap_or_else(|| "0x?".to_owned()),
            file: location.and_then(|at| at.file).map(str::to_owned),
            line: location.and_then(|at| at.line),
            module: module.to_owned(),
        });
    }
    places
}

/// Without the hash that ends Rust's names.
fn plain(name: &str) -> String {
    match name.rsplit_once("::h") {
        Some((name, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name.to_owned()
        }
        _ => name.to_owned(),
    }
}

/// A line of `maps`, if it is of a file's code.
fn code(line: &str) -> Option<Line> {
    let mut fields = line.splitn(6, ' ');
    let (range, access, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.nth(2)?.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    if !access.contains('x') || !(path.starts_with('/') || path == "[vdso]") {
        return None;
    }
    let (begin, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let range = number(begin)?..number(end)?;
    Some(Line { range, offset: number(offset)?, path: path.to_owned() })
}

/// The segment that the line maps tells.
fn bias_of(file: &object::File<'_>, line: &Line) -> Option<u64> {
    let offset = if line.path == "[vdso]" { 0 } else { line.offset };
    let mut segments = file.segments();
    let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
    let segment = segments.find(|segment| {
        if !is_code(segment.flags()) {
            return false;
        }
        let (begin, len) = segment.file_range();
        begin & !0xfff <= offset && offset < begin + len
    })?;
    let (begin, _) = segment.file_range();
    // Of the first byte of the line, in the file's own addresses.
    let address = segment.address().wrapping_add(offset).wrapping_sub(begin);
    Some(line.range.start.wrapping_sub(address))
}

fn sections(file: &object::File<'_>) -> ExplicitModuleSectionInfo<Vec<u8>> {
    let range = |name| {
        file.section_by_name(name)
            .map(|section| section.address()..section.address() + section.size())
    };
    let data = |name| {
        file.section_by_name(name)
            .and_then(|section| section.uncompressed_data().ok())
            .map(Into::into)
    };
    ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    }
}
