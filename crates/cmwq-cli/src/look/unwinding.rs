//! How to unwind through the files that a process's code comes from.

use std::ops::Range;

use framehop::{ExplicitModuleSectionInfo, Module};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags};

use super::files::Budget;
use super::maps::Mapping;

/// What unwinding needs of process `pid`, whose memory `read` reads.
pub(super) fn modules(
    pid: u32,
    maps: &[Mapping],
    read: impl Fn(Range<u64>) -> Option<Vec<u8>>,
) -> Vec<Module<Vec<u8>>> {
    let mut budget = Budget::new();
    let module = |map: &Mapping| {
        let bytes = match map.is_vdso() {
            true => read(map.range.clone())?.into(),
            false => budget.read(&map.file(Some(pid))?)?,
        };
        let file = object::File::parse(&*bytes).ok()?;
        let bias = bias(&file, map)?;
        let sections = sections(&file, &mut budget);
        Some(Module::new(map.name().into_owned(), map.range.clone(), bias, sections))
    };
    maps.iter().filter_map(module).collect()
}

/// What is to be added to the file's own addresses: the segment that is mapped tells.
fn bias(file: &object::File<'_>, map: &Mapping) -> Option<u64> {
    let offset = if map.is_vdso() { 0 } else { map.offset };
    let mut segments = file.segments();
    let executable = object::elf::PF_X.0;
    let is_code =
        |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & executable != 0);
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

fn sections(file: &object::File<'_>, budget: &mut Budget) -> ExplicitModuleSectionInfo<Vec<u8>> {
    let range = |name| {
        file.section_by_name(name)
            .map(|section| section.address()..section.address().saturating_add(section.size()))
    };
    let mut data = |name| {
        let data = file.section_by_name(name)?.compressed_data().ok()?;
        // The length is what the file says.
        budget.take(data.uncompressed_size)?;
        data.decompress().ok().map(Into::into)
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
