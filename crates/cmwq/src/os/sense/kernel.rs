//! Which kernel this is.

use core::ffi::CStr;
use core::mem::MaybeUninit;

/// Its release, as `uname -r` prints it.
pub(crate) fn release() -> String {
    let mut name = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: `name` is writable.
    if unsafe { libc::uname(name.as_mut_ptr()) } != 0 {
        return "unknown".to_owned();
    }
    // SAFETY: the call succeeded, so it has written `name`.
    let name = unsafe { name.assume_init() };
    // SAFETY: the kernel ends every field with a zero, and `name` lives on.
    let release = unsafe { CStr::from_ptr(name.release.as_ptr()) };
    release.to_string_lossy().into_owned()
}

/// Whether it is of this version or a later one, as far as its release says so.
pub(crate) fn is_from(version: (u32, u32)) -> bool {
    is_from_by(&release(), version)
}

fn is_from_by(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= version,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for release in ["6.2.0", "6.2-rc1", "6.12.95+deb12-amd64", "10.0.1", "7.0"] {
            assert!(is_from_by(release, (6, 2)), "{release}");
        }
        for release in ["6.1.0-18-amd64", "5.14.0-427.el9.x86_64", "2.6.62", "unknown", "6", ""] {
            assert!(!is_from_by(release, (6, 2)), "{release}");
        }
    }
}
