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
#[repr(C)]
struct Told {
    run: i64,
    name: i64,
}

/// Says in the program that function `$run` is for what `$name` returns the name of. Takes no time.
macro_rules! tell {
    ($run:path, $name:path) => {
        // SAFETY: nothing is executed; the section is only read, by `closures::told`. It is kept
        // (`R`) though nobody refers to it.
        unsafe {
            std::arch::asm!(
                ".pushsection cmwq_closures, \"aR\", @progbits",
                ".balign 8",
                ".8byte {run} - .",
                ".8byte {name} - .",
                ".popsection",
                run = sym $run,
                name = sym $name,
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}
pub(crate) use tell;

unsafe extern "C" {
    // The linker's names for the ends of the section.
    #[link_name = "__start_cmwq_closures"]
    static BEGIN: [Told; 0];
    #[link_name = "__stop_cmwq_closures"]
    static END: [Told; 0];
}

/// The section.
fn told() -> &'static [Told] {
    // SAFETY: nothing is executed: sees to it that there is a section, if an empty one, and that
    // its ends are those of this program or library, and not of another one in the process that has
    // such a section, too.
    unsafe {
        asm!(
            ".pushsection cmwq_closures, \"aR\", @progbits",
            ".balign 8",
            ".popsection",
            ".hidden __start_cmwq_closures",
            ".hidden __stop_cmwq_closures",
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
        // SAFETY: by `tell`, it is the place of a function like that.
        let name = unsafe { std::mem::transmute::<usize, fn() -> &'static str>(place(&self.name)) };
        name()
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
        tell!(run::<F>, std::any::type_name::<F>);
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
