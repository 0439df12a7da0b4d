//! Special files in the place of those in memory that the library leaves for tools.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use super::{MEMORY, run};
use crate::support::not_tested;

/// A process with a FIFO that looks like a file in memory of this name.
struct WithFifo(Child);

impl WithFifo {
    /// Fails where mounting is not allowed.
    fn start(name: &str) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = CString::new(directory.path().to_str().unwrap()).unwrap();
        let fifo = CString::new(format!("{}/memfd:{name}", at.to_str().unwrap())).unwrap();
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // A file system that is mounted nowhere has its own root: the link shows the name alone.
        let make = move || {
            // SAFETY: all of them take numbers, and texts that end with a null.
            unsafe {
                check(libc::unshare(libc::CLONE_NEWNS))?;
                let (none, kind) = (std::ptr::null(), c"tmpfs".as_ptr());
                let private = libc::MS_REC | libc::MS_PRIVATE;
                check(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
                check(libc::mount(none, at.as_ptr(), kind, 0, none.cast()))?;
                check(libc::mkfifo(fifo.as_ptr(), 0o600))?;
                // Nobody writes: who opens it for reading waits.
                check(libc::open(fifo.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK))?;
                check(libc::unlink(fifo.as_ptr()))?;
                check(libc::umount2(at.as_ptr(), libc::MNT_DETACH))
            }
        };
        // SAFETY: only system calls, which are allowed between fork and exec.
        unsafe { command.pre_exec(make) };
        command.spawn().map(Self)
    }
}

impl Drop for WithFifo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How the kernel shows the file.
fn is_shown(pid: u32, name: &str) -> bool {
    let link = format!("/memfd:{name} (deleted)");
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|to| to.as_os_str() == link.as_str())
}

#[test]
fn a_fifo_in_place_of_a_file_in_memory_is_not_waited_for() {
    for (name, verbs) in [
        (
            "cmwq",
            &[&["dump"][..], &["dump", "--stuck"], &["top", "--once"], &["monitor", "-i0"]][..],
        ),
        ("cmwq-control", &[&["set", "--list"]]),
        ("cmwq-trace", &[&["trace", "-d", "1", "-o", "/dev/null"]]),
    ] {
        let process = match WithFifo::start(name) {
            Ok(process) => process,
            Err(error) => return not_tested(&format!("no mounts of one's own: {error}")),
        };
        assert!(is_shown(process.0.id(), name));
        for verb in verbs {
            let pid = process.0.id().to_string();
            let outcome = run(&[*verb, &[pid.as_str()]].concat(), MEMORY);
            outcome.refused("process");
        }
    }
}
