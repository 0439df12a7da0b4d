//! `cmwq run --jobserver`: builds and their tokens.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use super::{command, printed, run, run_in, sorted};
use crate::support::{check_code, not_tested, stderr, unshared};

fn has(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        not_tested(&format!("{program} is not installed"));
    }
    found
}

/// Jobs that all wait for each other: with `-j1` this has no end.
#[test]
fn a_build_gets_tokens_while_its_jobs_wait() {
    if !has("make") {
        return;
    }
    let rule = "all: a b c d e f\na b c d e f:\n\t@touch in.$@; \
                while [ $$(ls | grep -c ^in) -lt 6 ]; do sleep 0.01; done; echo $@\n";
    for kind in ["--jobserver", "--jobserver=fifo"] {
        if kind.contains("fifo") && !is_since("make", 4, 4) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Makefile"), rule).unwrap();
        let output = run_in(folder.path(), &["-t", kind, "--", "make"], b"");
        check_code(&output, 0);
        assert_eq!(sorted(printed(&output)), ["a", "b", "c", "d", "e", "f"], "{kind}");
        let said = stderr(&output);
        assert!(said.contains("jobserver: "), "{kind}: {said}");
        assert!(!said.contains("jobserver unavailable"), "{kind}: {said}");
    }
}

/// By inherited descriptors it is no client, and takes none. It looks for tokens when a job ends,
/// and not while it waits for that.
#[test]
fn ninja_takes_the_tokens_of_a_fifo() {
    if !has("ninja") || !is_since("ninja", 1, 13) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rules = "rule wait\n  command = sleep 0.1\n".to_owned();
    for job in 0..12 {
        rules += &format!("build {job}: wait\n");
    }
    fs::write(folder.path().join("build.ninja"), rules).unwrap();
    let output = run_in(folder.path(), &["-t", "--jobserver=fifo", "--", "ninja"], b"");
    check_code(&output, 0);
    let said = stderr(&output);
    assert!(!said.contains("jobserver: 1 jobs at once"), "{said}");
    assert!(said.contains("jobs at once at most, 0 tokens were lost"), "{said}");
}

/// Each job takes a token, and dies with it.
#[test]
fn tokens_of_clients_that_die_are_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let steal = "fds=${MAKEFLAGS##*--jobserver-auth=}; \
                 for n in 1 2 3 4 5 6 7 8 9 10; do \
                 sh -c \"head -c 1 <&${fds%,*} > taken.$n\"; done";
    let output = run_in(folder.path(), &["-t", "--jobserver", "--", "sh", "-c", steal], b"");
    check_code(&output, 0);
    let taken = fs::read_dir(folder.path()).unwrap().filter_map(Result::ok);
    assert!(taken.filter(|file| file.metadata().unwrap().len() == 1).count() == 10);
    assert!(!stderr(&output).contains(" 0 tokens were lost"), "{}", stderr(&output));
}

#[test]
fn a_build_has_the_exit_code_of_its_command() {
    let code = |script: &str| run(&["--jobserver", "--", "sh", "-c", script], b"").status.code();
    assert_eq!((code("exit 0"), code("exit 7"), code("kill -9 $$")), (Some(0), Some(7), Some(137)));
    check_code(&run(&["--jobserver", "--", "/no/such/program"], b""), 127);
    let fifo = ["--jobserver=fifo", "--", "sh", "-c", "test -p ${MAKEFLAGS##*fifo:}"];
    check_code(&run(&fifo, b""), 0);
}

/// Blanks divide `MAKEFLAGS`, and make expands the rest.
#[test]
fn a_fifo_has_a_path_that_can_be_told() {
    for name in ["a b", "a\\b", "a$b", "\u{e4}"] {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join(name);
        fs::create_dir(&temporary).unwrap();
        let script = r#"case $MAKEFLAGS in *[\\$]*) exit 1;; esac; test -p ${MAKEFLAGS##*fifo:}"#;
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        command.args(["run", "--jobserver=fifo", "--", "sh", "-c", script]);
        let output = command.env_remove("MAKEFLAGS").env("TMPDIR", temporary).output().unwrap();
        check_code(&output, 0);
    }
}

/// One job at a time, as its first needs no token.
#[test]
fn while_memory_is_short_a_build_has_no_tokens_and_that_is_said() {
    if !has("make") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rule = "all: a b c d\na b c d:\n\t@mkdir lock; sleep 0.05; rmdir lock\n";
    fs::write(folder.path().join("Makefile"), rule).unwrap();
    let args = ["-t", "--memory", "100%", "--jobserver", "--", "make"];
    let output = run_in(folder.path(), &args, b"");
    check_code(&output, 0);
    let said = stderr(&output);
    assert!(said.contains("jobserver: 1 jobs at once at most"), "{said}");
    assert_eq!(said.matches("memory is short (").count(), 1, "{said}");
}

/// The numbers of the build's processes are those of others there.
#[test]
fn a_build_that_cannot_be_seen_has_a_token_for_each_cpu() {
    let Some(run) = unshared(&["--user", "--pid", "--fork"]) else { return };
    let output = run(&[env!("CARGO_BIN_EXE_cmwq"), "run", "--jobserver", "--", "sleep", "0.1"]);
    check_code(&output, 0);
    let said = stderr(&output);
    assert_eq!(said.matches("it has one token for each CPU").count(), 1, "{said}");
}

/// Clients of Rust's `jobserver` crate look there first.
#[test]
fn no_other_jobserver_is_inherited() {
    let script = "echo ${CARGO_MAKEFLAGS-none}";
    let mut command = command("/".as_ref(), &["--jobserver", "--", "sh", "-c", script]);
    let output = command.env("CARGO_MAKEFLAGS", "-j --jobserver-auth=97,98").output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed(&output), "none\n");
}

/// As the path of a folder may be in it.
#[test]
fn flags_of_make_that_are_no_text_are_handed_on() {
    let script = "printf %s \"$MAKEFLAGS\"";
    let mut command = command("/".as_ref(), &["--jobserver", "--", "sh", "-c", script]);
    let output = command.env("MAKEFLAGS", OsStr::from_bytes(b"k -- X=\xff")).output().unwrap();
    check_code(&output, 0);
    assert!(output.stdout.starts_with(b"k -j --jobserver-auth="), "{output:?}");
    assert!(output.stdout.ends_with(b" -- X=\xff"), "{output:?}");
}

/// Three units of link-time optimisation, which make compiles for gcc.
#[test]
fn gcc_optimises_at_link_time_with_the_tokens() {
    let is_there = ["gcc", "make"].into_iter().all(has);
    if !is_there {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let main = "int one(void); int two(void); int main(void) { return one() + two(); }";
    for (name, text) in [
        ("main.c", main),
        ("one.c", "int one(void) { return 3; }"),
        ("two.c", "int two(void) { return 4; }"),
    ] {
        fs::write(at.join(name), text).unwrap();
    }
    let sources = ["main.c", "one.c", "two.c", "-o", "program", "-flto-partition=1to1"];
    let gcc = |how: &'static str| [&["gcc", how], &sources[..]].concat();
    let plain = Command::new("gcc").args(&gcc("-flto=1")[1..]).current_dir(at).output().unwrap();
    if !plain.status.success() {
        return not_tested("gcc has no link-time optimisation");
    }
    fs::remove_file(at.join("program")).unwrap();
    for kind in ["--jobserver", "--jobserver=fifo"] {
        // A fifo is known to make 4.4 and gcc 13.
        if kind.contains("fifo") && !(is_since("make", 4, 4) && is_since("gcc", 13, 0)) {
            continue;
        }
        let output = run_in(at, &[&[kind, "--"], &gcc("-flto=jobserver")[..]].concat(), b"");
        check_code(&output, 0);
        assert!(!stderr(&output).contains("jobserver"), "{kind}: {}", stderr(&output));
        assert_eq!(Command::new(at.join("program")).status().unwrap().code(), Some(7));
    }
}

/// Whether what it says of itself ends with a version that is not older.
fn is_since(program: &str, major: u32, minor: u32) -> bool {
    let output = Command::new(program).arg("--version").output().unwrap();
    let first = printed(&output).lines().next().unwrap_or_default().to_owned();
    let version = first.split(' ').next_back().unwrap_or_default().to_owned();
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let is_since = (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor);
    if !is_since {
        not_tested(&format!("{program} is older than {major}.{minor}: {first}"));
    }
    is_since
}

/// A package whose build script sees that cargo is a client, and hands it on.
#[test]
fn cargo_takes_the_tokens_and_hands_them_on() {
    if !has("cargo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    write("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n");
    write("one/Cargo.toml", &package("one", "[dependencies]\ntwo.path = \"../two\"\n"));
    write("one/src/lib.rs", "pub use two::two;\n");
    write("two/Cargo.toml", &package("two", ""));
    write("two/src/lib.rs", "pub fn two() {}\n");
    let script = r#"fn main() {
        let auth = |name| {
            let flags = std::env::var(name).unwrap();
            let (_, auth) = flags.rsplit_once("--jobserver-auth=").expect(name);
            auth.split(' ').next().unwrap().to_owned()
        };
        assert_eq!(auth("CARGO_MAKEFLAGS"), auth("MAKEFLAGS"));
    }"#;
    write("two/build.rs", script);
    for kind in ["--jobserver", "--jobserver=fifo"] {
        let _ = fs::remove_dir_all(folder.path().join("target"));
        let mut command =
            command(folder.path(), &[kind, "--", "cargo", "build", "--offline", "-q"]);
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER"]
        {
            command.env_remove(name);
        }
        let output = command.env("CARGO_TARGET_DIR", "target").output().unwrap();
        check_code(&output, 0);
        assert!(!stderr(&output).contains("jobserver"), "{kind}: {}", stderr(&output));
    }
}
