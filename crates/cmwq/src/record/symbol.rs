//! Names of functions, for people.

use std::ffi::CStr;
use std::mem::MaybeUninit;

#[cfg_attr(
    any(
        cmwq_loom,
        cmwq_shuttle,
        miri,
        not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    ),
    path = "symbol/closures_none.rs"
)]
pub(crate) mod closures;
mod wrapped;

pub(crate) use wrapped::name_of_type;

/// The function's name, if it is for a closure, or the dynamic linker knows it. A program's own
/// functions are known to it if the program was linked with `-rdynamic`.
pub(crate) fn known(func: usize) -> Option<String> {
    if let Some(name) = closures::name(func) {
        return Some(name.to_owned());
    }
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; `info` is writable.
    let found = unsafe { libc::dladdr(func as *const libc::c_void, info.as_mut_ptr()) };
    // SAFETY: all zeroes is a value of it, if the call has not written another.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_sname.is_null() || info.dli_saddr as usize != func {
        return None;
    }
    // SAFETY: a symbol of a loaded object, ended by a null; its code is used, so it stays loaded.
    let name = unsafe { CStr::from_ptr(info.dli_sname) };
    Some(name.to_string_lossy().into_owned())
}

/// The function's name, or its address.
pub(crate) fn name_of(func: usize) -> String {
    known(func).unwrap_or_else(|| format!("the function at {func:#x}"))
}

/// As `name_of`, in one word.
pub(crate) fn short(func: usize) -> String {
    known(func).unwrap_or_else(|| format!("{func:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_a_library_has_its_name() {
        assert!(name_of(libc::getpid as *const () as usize).contains("getpid"));
        assert_eq!(name_of(0x10), "the function at 0x10");
        assert_eq!(short(0x10), "0x10");
    }
}
