//! A program with more privileges than whoever starts it: the environment is that of the weaker
//! one, and nothing of it may count.
//!
//! The programs are real: copies of this test, with the set-user-ID bit or a file capability,
//! started by a user without privileges.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{env, io};

use cmwq::Work;

use crate::support::scene::{NOBODY, Scene, Stage, skip};
use crate::support::wait::PATIENCE;
use crate::support::{eventually, joined, managed, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("privilege::privileged", privileged),
    ("privilege::traced", traced),
    ("privilege::limited", limited),
];

/// What a foreigner must not get at.
const SECRET: &str = "root:x:0:0\n";

/// A directory that is gone afterwards, with a file that is not to be touched, and links to it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("cmwq-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let directory = Self(path);
        fs::write(directory.at("secret"), SECRET).unwrap();
        symlink(directory.at("secret"), directory.at("link")).unwrap();
        fs::hard_link(directory.at("secret"), directory.at("second name")).unwrap();
        symlink(directory.at("new"), directory.at("dangling")).unwrap();
        directory
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn secret(&self) -> String {
        fs::read_to_string(self.at("secret")).unwrap()
    }

    /// This program, for everybody to start.
    fn copy(&self, mode: u32) -> PathBuf {
        let copy = self.at("program");
        fs::copy(env::current_exe().unwrap(), &copy).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
        copy
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It is in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Plays the scene by `program`, with everything in the environment that would do harm.
fn play_attacked(directory: &Directory, program: &Path) {
    for trace in ["link", "dangling", "second name", "secret", "new"] {
        Stage::of(program, "privilege::privileged")
            .user(NOBODY)
            .params("idle_ratio=7 stack_size=64 panic_on_stall=1 dump_signal=10 inspect=0")
            .detect("inline")
            .env("CMWQ_TRACE", directory.at(trace))
            .env("CMWQ_CONTROL", directory.at("socket"))
            .env("XDG_RUNTIME_DIR", &directory.0)
            .env("TMPDIR", &directory.0)
            .play();
        assert_eq!(directory.secret(), SECRET, "by {trace}");
        for made in ["new", "socket"] {
            assert!(!directory.at(made).exists(), "{made} was made by {trace}");
        }
    }
}

#[test]
fn a_set_user_id_program_reads_no_environment() {
    if !sys::is_root() {
        return skip("only root can give a program away");
    }
    let directory = Directory::new("setuid");
    play_attacked(&directory, &directory.copy(0o4755));
}

#[test]
fn neither_does_one_with_file_capabilities() {
    if !sys::is_root() {
        return skip("only root can give a program capabilities");
    }
    let directory = Directory::new("setcap");
    let program = directory.copy(0o755);
    if let Err(error) = give_capability(&program) {
        return skip(format_args!("files can have no capabilities: {error}"));
    }
    play_attacked(&directory, &program);
}

/// `CAP_NET_BIND_SERVICE`, permitted and effective, as the kernel's `struct vfs_cap_data`.
fn give_capability(program: &Path) -> io::Result<()> {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    const NET_BIND_SERVICE: u32 = 1 << 10;
    let words = [REVISION_2_EFFECTIVE, NET_BIND_SERVICE, 0, 0, 0];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let path = CString::new(program.as_os_str().as_bytes()).unwrap();
    sys::set_attribute(&path, c"security.capability", &bytes)
}

/// Has been started by the foreigner.
fn privileged() {
    if !sys::is_secure() {
        return skip(
            "the program was started without its privileges (a file system mounted nosuid?)",
        );
    }
    let wq = managed("privileged");
    assert_eq!(joined(wq.queue(|| 1)), 1);
    assert_eq!(cmwq::param("idle_ratio").as_deref(), Some("4"));
    assert_eq!(cmwq::param("stack_size").as_deref(), Some("2048"));
    assert_eq!(cmwq::param("panic_on_stall").as_deref(), Some("0"));
    assert_eq!(cmwq::control::path(), None);
    // What was asked for by the program itself goes where the foreigner has no say, too.
    let foreign = PathBuf::from(env::var_os("XDG_RUNTIME_DIR").unwrap());
    let path = cmwq::control::listen(None).unwrap();
    assert!(!path.starts_with(&foreign), "{}", path.display());
    cmwq::control::stop();
    cmwq::shutdown(PATIENCE).unwrap();
}

#[test]
fn a_trace_overwrites_nothing_through_a_link() {
    let directory = Directory::new("links");
    for trace in ["link", "dangling", "second name"] {
        let output =
            Stage::new("privilege::traced").loud().env("CMWQ_TRACE", directory.at(trace)).output();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("nothing is traced"), "{trace}: {said}");
        assert_eq!(directory.secret(), SECRET, "by {trace}");
        assert!(!directory.at("new").exists(), "through {trace}");
    }
}

#[test]
fn a_trace_replaces_an_older_one_and_nothing_else() {
    let directory = Directory::new("older");
    let trace = directory.at("trace");
    let play = || {
        Stage::new("privilege::traced").env("CMWQ_TRACE", &trace).play();
    };
    play();
    let first = fs::read(&trace).unwrap();
    assert!(!first.is_empty());
    assert_eq!(fs::metadata(&trace).unwrap().permissions().mode() & 0o777, 0o600);
    // Longer than any trace of this: what was there is gone, not only its beginning.
    fs::write(&trace, first.repeat(64)).unwrap();
    play();
    assert!(fs::metadata(&trace).unwrap().len() < 8 * first.len() as u64);
    if sys::is_root() {
        fs::write(&trace, SECRET).unwrap();
        std::os::unix::fs::chown(&trace, Some(NOBODY), None).unwrap();
        play();
        assert_eq!(fs::read_to_string(&trace).unwrap(), SECRET, "it belongs to somebody else");
    }
}

fn traced() {
    assert_eq!(joined(managed("traced").queue(|| 1)), 1);
    cmwq::shutdown(PATIENCE).unwrap();
}

#[test]
fn a_trace_ends_at_the_limit_of_files_and_the_process_does_not() {
    let directory = Directory::new("limited");
    let trace = directory.at("trace");
    Stage::new("privilege::limited").env("CMWQ_TRACE", &trace).play();
    assert_eq!(fs::metadata(&trace).unwrap().len(), FILE_SIZE);
}

const FILE_SIZE: u64 = 64 << 10;

fn limited() {
    let wq = managed("traced");
    // What traces are kept in is larger, and there now.
    joined(wq.queue(|| ()));
    sys::set_limit(sys::Limit::FileSize, FILE_SIZE).unwrap();
    let is_told = || cmwq::notices().iter().any(|notice| notice.contains("the trace ends there"));
    let work = Work::new(|| ());
    eventually("that is said", || {
        (0..1_000).for_each(|_| _ = wq.queue_work(&work));
        is_told()
    });
    work.flush();
    cmwq::shutdown(PATIENCE).unwrap();
}
