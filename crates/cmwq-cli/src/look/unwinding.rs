//! How to unwind through the files that a process's code comes from.

use std::fs;
use std::ops::Range;

use framehop::{ExplicitModuleSectionInfo, Module};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags};

use super::maps::Mapping;

/// What unwinding needs of process `pid`, whose memory `read` reads.
pub(super) fn modules(
    pid: u32,
    maps: &[Mapping],
    read: impl Fn(Range<u64>) -> Option<Vec<u8>>,
) -> Vec<Module<Vec<u8>>> {
    let module = |map: &Mapping| {
        let bytes = match map.is_vdso() {
            true => read(map.range.clone())?,
            false => fs::read(map.file(Some(pid))?).ok()?,
        };
        let file = object::File::parse(&*bytes).ok()?;
        let bias = bias(&file, map)?;
        Some(Module::new(map.name().to_owned(), map.range.clone(), bias, sections(&file)))
    };
    maps.iter().filter_map(module).collect()
}

/// What is to be added to the file's own addresses: the segment that is mapped tells.
fn bias(file: &object::File<'_>, map: &Mapping) -> Option<u64> {
    let offset = if map.is_vdso() { 0 } else { map.offset };
    let mut segments = file.segments();
    let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
    let segment = segments.find(|segment| {
        if !is_code(segment.flags()) {
            return false;
        }
        let (begin, len) = segment.file_range();
        begin & !0xfff <= offset && offset < begin.saturating_add(len)
    })?;
    let (begin, _) = segment.file_range();
    // Of the first mapped byte, in the file's own addresses.
    let address = segment.address().wrapping_add(offset).wrapping_sub(begin);
    Some(map.range.start.wrapping_sub(address))
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
