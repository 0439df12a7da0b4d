//! The names of the functions that run closures.
//!
//! There is one such function for each closure, and symbol tables, where a program has them, call
//! all of them the same. The compiler knows better: [`tell`] has it leave two addresses in a
//! section of the program, the function's and that of another one, which returns the closure's
//! name. Nothing of that is executed when an item runs. Whoever wants a name looks through the
//! section, and the mapping of [`inspect`](crate::observe::inspect) has all of them for other
//! processes.
//!
//! Why: docs/decisions/closure-names.md

use std::arch::asm;

/// What [`tell`] leaves. Both are distances from where they lie, so that nothing has to be
/// relocated.
///
/// All copies of this crate that are linked into one program, of whatever version and compiler,
/// have one section, and read what the others have left. So the number in its name goes with this
/// type and with [`name_of`]: who changes one of them takes the next number.
#[repr(C)]
struct Told {
    run: i64,
    /// Leads to a [`name_of`].
    name: i64,
}

/// A string as C has it, for compilers that do not know each other.
#[repr(C)]
pub(crate) struct Text {
    at: *const u8,
    len: usize,
}

/// The name of what a function for `N` runs.
pub(crate) extern "C" fn name_of<N>() -> Text {
    let name = super::name_of_type::<N>();
    Text { at: name.as_ptr(), len: name.len() }
}

/// Says in the program that function `$run` is for type `$of`. Takes no time.
macro_rules! tell {
    ($run:path, $of:ty) => {
        // SAFETY: nothing is executed; the section is only read, by `closures::told`. It is kept
        // (`R`) though nobody refers to it.
        unsafe {
            std::arch::asm!(
                ".pushsection cmwq_closures_1, \"aR\", @progbits",
                ".balign 8",
                ".8byte {run} - .",
                ".8byte {name} - .",
                ".popsection",
                run = sym $run,
                name = sym $crate::record::symbol::closures::name_of::<$of>,
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}
pub(crate) use tell;

unsafe extern "C" {
    // The linker's names for the ends of the section.
    #[link_name = "__start_cmwq_closures_1"]
    static BEGIN: [Told; 0];
    #[link_name = "__stop_cmwq_closures_1"]
    static END: [Told; 0];
}

/// The section.
fn told() -> &'static [Told] {
    // SAFETY: nothing is executed: sees to it that there is a section, if an empty one, and that
    // its ends are those of this program or library, and not of another one in the process that has
    // such a section, too.
    unsafe {
        asm!(
            ".pushsection cmwq_closures_1, \"aR\", @progbits",
            ".balign 8",
            ".popsection",
            ".hidden __start_cmwq_closures_1",
            ".hidden __stop_cmwq_closures_1",
            options(nomem, nostack, preserves_flags)
        );
    }
    let (begin, end) = ((&raw const BEGIN).cast::<Told>(), (&raw const END).cast::<Told>());
    let len = (end.addr() - begin.addr()) / size_of::<Told>();
    // SAFETY: what is between the two was left by `tell`, and is never written.
    unsafe { std::slice::from_raw_parts(begin, len) }
}

/// What a distance leads to.
fn place(distance: &i64) -> usize {
    std::ptr::from_ref(distance).addr().wrapping_add_signed(*distance as isize)
}

impl Told {
    fn name(&self) -> &'static str {
        // SAFETY: by `tell`, it is the place of a `name_of`.
        let name =
            unsafe { std::mem::transmute::<usize, extern "C" fn() -> Text>(place(&self.name)) };
        let Text { at, len } = name();
        // SAFETY: it is made of a string that lives for ever.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, len)) }
    }
}

/// The closure that the function runs, if it is one for closures.
pub(crate) fn name(func: usize) -> Option<&'static str> {
    told().iter().find(|told| place(&told.run) == func).map(Told::name)
}

/// All of them, by their functions' addresses.
pub(crate) fn all() -> Vec<(usize, &'static str)> {
    let mut all: Vec<_> = told().iter().map(|told| (place(&told.run), told.name())).collect();
    all.sort_unstable();
    // A function may have been compiled into several places.
    all.dedup_by_key(|(run, _)| *run);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn run<F>() {
        tell!(run::<F>, F);
    }

    #[test]
    fn instances_are_told_apart() {
        let [byte, text] = [run::<u8>, run::<String>].map(|run| run as *const () as usize);
        assert_eq!((name(byte), name(text)), (Some("u8"), Some("alloc::string::String")));
        assert_eq!((name(byte + 1), name(0)), (None, None));
        let all = all();
        assert!(all.contains(&(byte, "u8")) && all.is_sorted(), "{all:?}");
    }
}
