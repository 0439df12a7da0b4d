//! Ways for the library to get into a process, and what the process may do besides: `LD_PRELOAD`,
//! `fork`, static linking with glibc and musl. (`dlopen` and `dlclose` are in `programs`; threads
//! of the program's own are everywhere.)

use std::path::PathBuf;
use std::process::Command;

use crate::support::{
    built, compiler, crate_dir, include_dir, not_tested, program, run, scratch, succeed,
};

const MUSL: &str = "x86_64-unknown-linux-musl";

/// Runs itself once more, and waits for that.
const HOST: &str = "
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int status = 0;
	pid_t child = argc == 1 ? fork() : -1;

	if (child == 0)
		execl(argv[0], argv[0], \"again\", (char *)0);
	if (child > 0)
		waitpid(child, &status, 0);
	return status != 0;
}
";

fn source(name: &str) -> PathBuf {
    crate_dir().join("tests/c").join(name)
}

fn passes(command: &mut Command) -> String {
    let output = run(command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

#[test]
fn children_use_queues() {
    let Some(program) = program("fork", &source("fork.c"), &[]) else { return };
    passes(&mut Command::new(program));
}

#[test]
fn handlers_of_forks_use_queues() {
    let source = source("fork_handlers.c");
    let Some(program) = program("fork_handlers", &source, &[]) else { return };
    passes(&mut Command::new(program));
}

/// Whatever lock of the library's another thread had during the fork.
#[test]
fn children_of_threads_that_are_inside_of_the_library() {
    let Some(program) = program("fork_locks", &source("fork_locks.c"), &[]) else { return };
    passes(Command::new(program).env("CMWQ_DEBUG", "objects"));
}

#[test]
fn preloaded_into_a_program_that_knows_nothing_of_it() {
    let Some(mut cc) = compiler("cc") else { return };
    let dir = scratch("preload");
    let (object, library) = (dir.join("libpreload.so"), dir.join("libcmwq.so.0"));
    std::os::unix::fs::symlink(built("libcmwq.so"), &library).expect("a link");
    cc.args([
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-I",
    ])
    .arg(include_dir());
    cc.arg(source("preload.c")).arg("-o").arg(&object).arg(&library).args(["-lpthread"]);
    succeed(&mut cc);
    let (text, host) = (dir.join("host.c"), dir.join("host"));
    std::fs::write(&text, HOST).expect("a source");
    let Some(mut cc) = compiler("cc") else { return };
    succeed(cc.arg(&text).arg("-o").arg(&host));
    let said = passes(Command::new(&host).env("LD_PRELOAD", &object).env("LD_LIBRARY_PATH", &dir));
    assert_eq!(said.matches("100 items ran").count(), 2, "{said}");
}

#[test]
fn linked_statically_with_glibc() {
    for name in ["fork.c", "fork_handlers.c"] {
        let Some(mut cc) = compiler("cc") else { return };
        let out = scratch("static_fork").join("program");
        cc.args(["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-static", "-I"]).arg(include_dir());
        cc.arg(source(name)).arg(built("libcmwq.a")).args(["-lpthread", "-ldl", "-lm", "-o"]);
        // The linker warns of `dlopen` in static programs; where there is no static C library it
        // fails.
        let output = cc.arg(&out).output().expect("the compiler runs");
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && said.contains("cannot find") {
            return not_tested("there is no static C library");
        }
        assert!(output.status.success(), "{said}");
        passes(&mut Command::new(out));
    }
}

/// Whether a command runs and succeeds.
fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn linked_statically_with_musl() {
    let libdir =
        Command::new("rustc").args(["--print", "target-libdir", "--target", MUSL]).output();
    let libdir = libdir.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let unwinder = PathBuf::from(libdir.unwrap_or_default()).join("self-contained/libunwind.a");
    if !unwinder.exists() || !works(Command::new("musl-gcc").arg("--version")) {
        return not_tested(&format!("there is no musl-gcc, or no Rust target {MUSL}"));
    }
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("musl");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--lib", "--crate-type", "staticlib", "--target", MUSL]);
    cargo.arg("--manifest-path").arg(crate_dir().join("Cargo.toml"));
    succeed(cargo.arg("--target-dir").arg(&target));
    let archive = target.join(MUSL).join("debug/libcmwq.a");
    for name in ["fork.c", "fork_handlers.c", "queueing.c", "delayed.c"] {
        let out = scratch("musl_static").join("program");
        let mut cc = Command::new("musl-gcc");
        cc.args(["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-static", "-I"]).arg(include_dir());
        // The compiler's own unwinder is for glibc.
        succeed(cc.arg(source(name)).arg(&archive).arg(&unwinder).arg("-o").arg(&out));
        passes(&mut Command::new(out));
    }
}
