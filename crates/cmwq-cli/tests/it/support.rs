//! Running the command, the real tools beside it, and making files worth hashing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// `cmwq sum`, in `directory`.
pub(crate) fn sum(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.arg("sum").current_dir(directory).stdin(Stdio::null()).env("LC_ALL", "C");
    command
}

/// What `find`, `sort` and `sha256sum` print for `paths`, or `None` where they are not installed.
pub(crate) fn reference<P: AsRef<OsStr>>(directory: &Path, paths: &[P]) -> Option<String> {
    let installed =
        Command::new("sha256sum").arg("--version").output().is_ok_and(|out| out.status.success());
    if !installed {
        not_tested("sha256sum is not installed");
        return None;
    }
    let script = r#"find -H "$@" -type f -print0 | sort -z | xargs -0 -r sha256sum --"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(paths).current_dir(directory).env("LC_ALL", "C");
    let output = command.output().unwrap();
    assert!(!output.stdout.is_empty(), "nothing to compare: {}", shown(&output.stderr));
    Some(shown(&output.stdout))
}

/// Says that this machine lacks what a test needs. Written past the test harness, which keeps what
/// a test that passes prints; the gate lists these lines at its end.
pub(crate) fn not_tested(why: &str) {
    let _ = writeln!(io::stderr(), "not tested: {why}");
}

/// Runs programs behind `unshare` with these words. `None`, which is said: not every system lets
/// everybody have namespaces of his own.
pub(crate) fn unshared<'a>(words: &'a [&str]) -> Option<impl Fn(&[&str]) -> Output + 'a> {
    let run = move |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(words).args(args).env_remove("MAKEFLAGS").output()
    };
    if !run(&["true"]).is_ok_and(|output| output.status.success()) {
        not_tested("no namespaces of one's own");
        return None;
    }
    Some(move |args: &[&str]| run(args).unwrap())
}

/// Bytes in a form that can be compared and printed whatever they are, one line for a line.
pub(crate) fn shown(bytes: &[u8]) -> String {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| format!("{}\n", line.escape_ascii()))
        .collect()
}

/// Standard error, which the command writes in UTF-8.
pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Asserts the exit code, showing the messages if it is another.
#[track_caller]
pub(crate) fn check_code(output: &Output, expected: i32) {
    let code = output.status.code();
    assert_eq!(code, Some(expected), "{}\nstderr: {}", output.status, stderr(output));
}

/// `count` bytes that differ from place to place and from `seed` to `seed`.
pub(crate) fn content(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        bytes.extend(next());
    }
    bytes.truncate(count);
    bytes
}

/// A name from bytes.
pub(crate) fn name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// A directory with `files` in it, each of its own content.
pub(crate) fn tree(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (seed, file) in files.iter().enumerate() {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(seed as u64, 100)).unwrap();
    }
    directory
}

/// Names that break careless programs.
pub(crate) fn nasty_names() -> Vec<OsString> {
    let mut names: Vec<OsString> = [
        &b"plain"[..],
        b"with space",
        b" ",
        b"-dash",
        b"--json",
        b"new\nline",
        b"\n",
        b"back\\slash",
        b"\\",
        b"carriage\rreturn",
        b"\\n",
        b"tab\t",
        b"\x1b[31mred",
        b"not utf-8 \xff\xfe",
        b"\xc3",
        b"caf\xc3\xa9",
        b"'quote\"",
        b"$(true)",
        b"*",
        b".hidden",
        b"...",
        b"a",
        b"a.b",
        b"a-b",
        b"a0",
        b"~",
    ]
    .into_iter()
    .map(name)
    .collect();
    names.push(name(&[b'x'; 255]));
    names
}

/// A tree with every nasty name as a file and as a directory with a file, sizes around every
/// border, a directory of several batches, an empty one and a deep one.
pub(crate) fn nasty_tree() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for (seed, name) in nasty_names().iter().enumerate() {
        fs::write(root.join(name), content(seed as u64, seed * 7)).unwrap();
        let below = root.join("directories").join(name);
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(name), content(seed as u64 + 1000, 50)).unwrap();
    }
    fs::create_dir(root.join("sizes")).unwrap();
    let read = 128 << 10;
    for size in [0, 1, 55, 56, 63, 64, 65, read - 1, read, read + 1, 5 * read, 9 * read + 77] {
        fs::write(root.join(format!("sizes/{size}")), content(size as u64, size)).unwrap();
    }
    fs::create_dir(root.join("many")).unwrap();
    for number in 0..500 {
        fs::write(root.join(format!("many/{number}")), content(number, 10)).unwrap();
    }
    fs::create_dir(root.join("empty")).unwrap();
    let deep: PathBuf = root.join("deep").join("d/".repeat(200));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), "bottom").unwrap();
    directory
}

/// Makes the child obey the permissions of files, which root does not.
pub(crate) fn without_root_powers(command: &mut Command) -> &mut Command {
    const CAP_DAC_OVERRIDE: libc::c_ulong = 1;
    const CAP_DAC_READ_SEARCH: libc::c_ulong = 2;
    let drop_capabilities = || {
        for capability in [CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH] {
            // SAFETY: as below. Whom root's powers were taken from may not drop them once more.
            if unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } == 0 {
                continue;
            }
            // SAFETY: prctl with these arguments reads and writes no memory of the process.
            if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    if rustix::process::geteuid().is_root() {
        // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
        unsafe { command.pre_exec(drop_capabilities) };
    }
    command
}

/// A lease on a file: who opens the file meanwhile waits until the lease is given back.
pub(crate) struct Lease(File);

impl Lease {
    /// Takes a lease, or returns `None` where the file system has none.
    pub(crate) fn take(path: &Path) -> Option<Lease> {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let lease = Lease(file);
        // SIGIO tells the holder that somebody wants the file, and would end this process.
        // SAFETY: ignoring a signal installs no code; nothing else here uses SIGIO.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        match lease.fcntl(libc::F_SETLEASE, libc::F_WRLCK) {
            Ok(_) => Some(lease),
            Err(error) => {
                not_tested(&format!("no leases in {}: {error}", path.display()));
                None
            }
        }
    }

    /// Returns once somebody waits for the file.
    pub(crate) fn wait_until_wanted(&self) {
        // A lease that is being broken reads as what it is to become.
        while self.fcntl(libc::F_GETLEASE, 0).unwrap() == libc::F_WRLCK {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets them have it.
    pub(crate) fn give_back(self) {
        self.fcntl(libc::F_SETLEASE, libc::F_UNLCK).unwrap();
    }

    fn fcntl(&self, operation: i32, argument: i32) -> io::Result<i32> {
        // SAFETY: the descriptor is open and these operations take an integer.
        match unsafe { libc::fcntl(self.0.as_raw_fd(), operation, argument) } {
            -1 => Err(io::Error::last_os_error()),
            result => Ok(result),
        }
    }
}

/// The path in each line of the output, as printed.
pub(crate) fn printed_paths(output: &Output) -> Vec<String> {
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| OsStr::from_bytes(&line[66..]).to_string_lossy().into_owned()).collect()
}
