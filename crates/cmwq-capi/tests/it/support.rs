//! Compiling and running C programs.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// LIMIT: no program of these tests takes more than a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn include_dir() -> PathBuf {
    crate_dir().join("include")
}

/// A folder of this test's own, empty.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder for the test");
    dir
}

/// A file that cargo builds of this crate, built as this test was. A test does not link the
/// library, so cargo does not build it for the test's sake.
pub(crate) fn built(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let dir = DIR.get_or_init(build);
    let path = dir.join(name);
    assert!(path.exists(), "{name} was not built in {}", dir.display());
    path
}

/// The number in the shared library's name.
pub(crate) fn soname() -> &'static str {
    include_str!("../../soname").trim()
}

/// How a program is linked with the shared library and finds it: a tenth of the time that the
/// static one takes.
fn shared_library() -> [OsString; 2] {
    static FLAGS: OnceLock<[OsString; 2]> = OnceLock::new();
    let make = || {
        let folder = scratch("shared");
        let library = folder.join(format!("libcmwq.so.{}", soname()));
        symlink(built("libcmwq.so"), &library).expect("a link");
        let mut rpath = OsString::from("-Wl,-rpath,");
        rpath.push(&folder);
        [library.into_os_string(), rpath]
    };
    FLAGS.get_or_init(make).clone()
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    // target/debug/deps/it-0123456789abcdef
    let dir = test.parent().and_then(Path::parent).expect("it is in a folder of a folder");
    let target = dir.parent().expect("in another folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--lib", "--manifest-path"]);
    cargo.arg(crate_dir().join("Cargo.toml")).arg("--target-dir").arg(target);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    succeed(&mut cargo);
    dir.to_owned()
}

/// The compiler for a language, `cc` or `c++`, if the machine has one.
pub(crate) fn compiler(name: &str) -> Option<Command> {
    let variable = if name == "cc" { "CC" } else { "CXX" };
    // A program and options, as make takes it.
    let program = std::env::var(variable).unwrap_or_else(|_| name.to_owned());
    let command = || {
        let mut words = program.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or(name));
        command.args(words);
        command
    };
    if command().arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some(command());
    }
    not_tested(&format!("there is no {program}"));
    None
}

/// Says that this machine lacks what a test needs. Written past the test harness, which keeps what
/// a test that passes prints; the gate lists these lines at its end.
pub(crate) fn not_tested(why: &str) {
    let _ = writeln!(io::stderr(), "not tested: {why}");
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a program that may hang.
pub(crate) fn run(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let start = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let output = child.wait_with_output().expect("it is ours");
            panic!(
                "{command:?} hangs; so far it said\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().expect("it is ours")
}

/// Compiles `source` (a path) against the library and returns the program. `None`: no compiler.
pub(crate) fn program(name: &str, source: &Path, flags: &[&str]) -> Option<PathBuf> {
    program_in(("cc", "-std=gnu11", "c"), name, source, flags)
}

/// How each of the languages that the headers are for is compiled: by what, as what.
pub(crate) const DIALECTS: [(&str, &str, &str); 4] = [
    ("cc", "-std=gnu89", "c"),
    ("cc", "-std=c11", "c"),
    ("cc", "-std=gnu11", "c"),
    ("c++", "-std=c++17", "c++"),
];

/// As [`program`], in one of [`DIALECTS`].
pub(crate) fn program_in(
    (compiler_name, standard, language): (&str, &str, &str),
    name: &str,
    source: &Path,
    flags: &[&str],
) -> Option<PathBuf> {
    let mut cc = compiler(compiler_name)?;
    let out = scratch(name).join(name);
    cc.args([standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]);
    // A program's own headers come before the library's.
    cc.args(flags).arg("-I").arg(include_dir()).args(["-x", language]).arg(source);
    cc.args(["-x", "none"]);
    // What the linker redirects in the library has to be linked with it.
    if flags.iter().any(|flag| flag.contains("--wrap")) {
        cc.arg(built("libcmwq.a"));
    } else {
        cc.args(shared_library());
    }
    // The libraries among the flags come behind what needs them.
    cc.args(flags.iter().filter(|flag| flag.starts_with("-l")));
    succeed(cc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&out));
    Some(out)
}
