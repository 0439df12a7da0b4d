//! The shared library's own name. Its symbols get their version where it is installed from, by
//! `install.sh`: a linker does not take a second version script besides the compiler's.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=soname");
    let soname = include_str!("soname").trim();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcmwq.so.{soname}");
}
