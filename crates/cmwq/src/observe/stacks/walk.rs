//! From a copied stack to the addresses on it, by the unwind tables of what is loaded.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use known::Modules;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use unknown::Modules;

/// LIMIT: frames of a stack.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const MOST_FRAMES: usize = 128;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod known {
    use std::ops::Range;
    use std::slice;

    use framehop::{
        CacheNative, ExplicitModuleSectionInfo, Module, UnwindRegsNative, Unwinder, UnwinderNative,
    };

    use super::MOST_FRAMES;
    use crate::observe::stacks::request::Answer;

    /// The program and its libraries, as far as they have unwind tables.
    pub(in crate::observe::stacks) struct Modules {
        unwinder: UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
        cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    }

    impl Modules {
        /// What is loaded now. The tables are copied: a library may be unloaded meanwhile.
        pub(in crate::observe::stacks) fn loaded() -> Self {
            let mut this = Self { unwinder: UnwinderNative::new(), cache: CacheNative::new() };
            // SAFETY: the callback gets what was passed, and lives through the call.
            unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut this.unwinder).cast()) };
            this
        }

        /// The addresses on the stack, innermost first, those of calls as the call and not as what
        /// follows it.
        pub(in crate::observe::stacks) fn walk(&mut self, answer: &Answer) -> Vec<u64> {
            let [pc, sp, fp, lr] = answer.registers();
            #[cfg(target_arch = "x86_64")]
            let registers = {
                let _ = lr;
                UnwindRegsNative::new(pc, sp, fp)
            };
            #[cfg(target_arch = "aarch64")]
            let registers = UnwindRegsNative::new(lr, sp, fp);
            let mut read = |address| answer.word(address).ok_or(());
            let mut frames = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read);
            let mut addresses = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                addresses.push(frame.address_for_lookup());
                if addresses.len() == MOST_FRAMES {
                    break;
                }
            }
            addresses
        }
    }

    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        unwinder: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: the linker's own record, for the time of this call.
        let info = unsafe { &*info };
        // SAFETY: as passed in `loaded`.
        let unwinder = unsafe {
            &mut *unwinder.cast::<UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>>()
        };
        if let Some(module) = module(info) {
            unwinder.add_module(module);
        }
        0
    }

    fn module(info: &libc::dl_phdr_info) -> Option<Module<Vec<u8>>> {
        // SAFETY: so many headers are there.
        let headers =
            unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let base = info.dlpi_addr;
        let range = |header: &libc::Elf64_Phdr| header.p_vaddr..header.p_vaddr + header.p_memsz;
        let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(range);
        let header = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        let eh_frame_hdr = range(header);
        let table = start_of_table(base, eh_frame_hdr.start)?;
        let eh_frame = table..loaded().find(|segment| segment.contains(&table))?.end;
        let all = loaded().map(|r| r.start).min()?..loaded().map(|r| r.end).max()?;
        let copy = |range: &Range<u64>| {
            let len = (range.end - range.start) as usize;
            // SAFETY: part of a loaded segment, which stays during the linker's call.
            unsafe { slice::from_raw_parts((base + range.start) as *const u8, len) }.to_vec()
        };
        let text = headers.iter().find(|header| header.p_flags & libc::PF_X != 0).map(range);
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: text,
            eh_frame: Some(copy(&eh_frame)),
            eh_frame_svma: Some(eh_frame),
            eh_frame_hdr: Some(copy(&eh_frame_hdr)),
            eh_frame_hdr_svma: Some(eh_frame_hdr),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(String::new(), base + all.start..base + all.end, base, sections))
    }

    /// Where `.eh_frame` begins, by the header that leads to it: four bytes of encodings, and its
    /// distance from there, as every linker writes it.
    fn start_of_table(base: u64, header: u64) -> Option<u64> {
        const PCREL_SDATA4: u8 = 0x1b;
        // SAFETY: a header of a loaded segment has eight bytes at least.
        let start: [u8; 8] = unsafe { ((base + header) as *const [u8; 8]).read() };
        let distance = i32::from_ne_bytes([start[4], start[5], start[6], start[7]]);
        (start[0] == 1 && start[1] == PCREL_SDATA4)
            .then(|| (header + 4).wrapping_add_signed(distance.into()))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unknown {
    use crate::observe::stacks::request::Answer;

    /// Nothing is known of this architecture's stacks.
    pub(in crate::observe::stacks) struct Modules;

    impl Modules {
        pub(in crate::observe::stacks) fn loaded() -> Self {
            Self
        }

        pub(in crate::observe::stacks) fn walk(&mut self, _: &Answer) -> Vec<u64> {
            Vec::new()
        }
    }
}
