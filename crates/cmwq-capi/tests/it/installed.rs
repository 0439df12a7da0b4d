//! What `install.sh` puts where, and that a program built with it runs.

use std::process::Command;

use crate::support::{built, compiler, crate_dir, run, scratch, succeed};
use crate::symbols::{exported, listed};

#[test]
fn a_program_finds_what_is_installed() {
    let Some(mut cc) = compiler("cc") else { return };
    let prefix = scratch("installed");
    let mut install = Command::new(crate_dir().join("install.sh"));
    install.arg("--prefix").arg(&prefix).arg("--archive").arg(built("libcmwq.a"));
    succeed(&mut install);

    let lib = prefix.join("lib");
    assert_eq!(exported(&lib.join("libcmwq.so")), listed());
    let symbols = succeed(
        Command::new("nm").args(["-D", "--with-symbol-versions"]).arg(lib.join("libcmwq.so")),
    );
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    assert!(symbols.contains(" queue_work_on@@CMWQ_0.1"), "symbols have a version:\n{symbols}");

    let config = std::fs::read_to_string(lib.join("pkgconfig/libcmwq.pc")).expect("it is there");
    assert!(config.contains(&format!("prefix={}", prefix.display())), "{config}");
    assert!(!config.contains('@'), "{config}");

    let program = prefix.join("hello");
    cc.arg("-I").arg(prefix.join("include/cmwq")).arg(crate_dir().join("examples/c/hello.c"));
    succeed(cc.arg("-L").arg(&lib).args(["-lcmwq", "-o"]).arg(&program));
    let output = run(Command::new(program).env("LD_LIBRARY_PATH", &lib));
    assert_eq!(output.stdout, b"the sum of the squares is 285\n");
}
