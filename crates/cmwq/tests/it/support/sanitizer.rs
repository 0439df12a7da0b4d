//! Whether ThreadSanitizer watches this program, and what it does that a test would take for the
//! library's doing.
//!
//! It has a thread of its own, which wakes up ten times a second (see [`procfs`](super::procfs)).
//! And it keeps a signal back until the thread calls something that it knows to be safe: one that
//! sleeps in the kernel does not answer.

/// Whether ThreadSanitizer watches this program.
pub(crate) fn is_thread_sanitizer() -> bool {
    address() != 0
}

// The address of a function that only programs with ThreadSanitizer have, and else 0.
#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
std::arch::global_asm!(
    ".weak __tsan_init",
    ".pushsection .data",
    ".balign 8",
    ".hidden cmwq_it_thread_sanitizer",
    ".globl cmwq_it_thread_sanitizer",
    "cmwq_it_thread_sanitizer:",
    ".quad __tsan_init",
    ".popsection",
);

#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
fn address() -> usize {
    // SAFETY: defined above, as a word that nobody writes after the program was loaded.
    unsafe extern "C" {
        #[link_name = "cmwq_it_thread_sanitizer"]
        safe static INIT: usize;
    }
    INIT
}

/// It is not made for such machines.
#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
fn address() -> usize {
    0
}
