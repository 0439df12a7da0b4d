//! What cannot be hashed is told, and everything else is done.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::support::{
    Lease, check_code, nasty_tree, printed_paths, reference, shown, stderr, sum, tree,
    without_root_powers,
};

fn close_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
}

#[test]
fn unreadable_files_and_directories() {
    let tree = tree(&["a", "closed", "d/e", "shut/f", "z"]);
    close_to_all(&tree.path().join("closed"));
    close_to_all(&tree.path().join("shut"));
    let output = without_root_powers(&mut sum(tree.path())).output().unwrap();
    fs::set_permissions(tree.path().join("shut"), Permissions::from_mode(0o700)).unwrap();
    check_code(&output, 1);
    assert_eq!(printed_paths(&output), ["./a", "./d/e", "./z"]);
    assert_eq!(
        stderr(&output),
        "cmwq: ./closed: Permission denied\ncmwq: ./shut: Permission denied\n"
    );
}

#[test]
fn a_directory_that_may_be_listed_but_not_searched() {
    let tree = tree(&["d/e", "d/f", "z"]);
    let directory = tree.path().join("d");
    fs::set_permissions(&directory, Permissions::from_mode(0o400)).unwrap();
    let output = without_root_powers(&mut sum(tree.path())).output().unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    check_code(&output, 1);
    assert_eq!(printed_paths(&output), ["./z"]);
    assert_eq!(stderr(&output), "cmwq: ./d/e: Permission denied\ncmwq: ./d/f: Permission denied\n");
}

#[test]
fn arguments_that_do_not_exist() {
    let tree = tree(&["a"]);
    symlink("nowhere", tree.path().join("dangling")).unwrap();
    symlink("self", tree.path().join("self")).unwrap();
    let output =
        sum(tree.path()).args(["missing", "a", "dangling", "self", "a/b", ""]).output().unwrap();
    check_code(&output, 1);
    assert_eq!(printed_paths(&output), ["a"]);
    assert_eq!(
        stderr(&output),
        "cmwq: '': No such file or directory\n\
         cmwq: a/b: Not a directory\n\
         cmwq: dangling: No such file or directory\n\
         cmwq: missing: No such file or directory\n\
         cmwq: self: Too many levels of symbolic links\n"
    );
}

#[test]
fn a_name_cannot_forge_a_message() {
    let tree = tree(&["a"]);
    let output = sum(tree.path()).arg("x\ncmwq: a: \x1b[31mgone").output().unwrap();
    check_code(&output, 1);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(!stderr(&output).contains('\x1b'), "{}", stderr(&output));
}

#[test]
fn named_pipes_sockets_and_devices_are_skipped() {
    let tree = tree(&["a", "z"]);
    let path = |name: &str| tree.path().join(name);
    mkfifoat(CWD, path("fifo"), Mode::RUSR).unwrap();
    let _listener = UnixListener::bind(path("socket")).unwrap();
    let mut expected =
        String::from("cmwq: ./fifo: skipped: named pipe\ncmwq: ./socket: skipped: socket\n");
    // Only root may make a device; the argument below is one for everybody.
    if mknodat(CWD, path("zero"), FileType::CharacterDevice, Mode::RUSR, 0x105).is_ok() {
        expected += "cmwq: ./zero: skipped: character device\n";
    }
    let output = sum(tree.path()).output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed_paths(&output), ["./a", "./z"]);
    assert_eq!(stderr(&output), expected);

    let output = sum(tree.path()).args(["fifo", "socket", "/dev/zero", "a"]).output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed_paths(&output), ["a"]);
    assert_eq!(
        stderr(&output),
        "cmwq: /dev/zero: skipped: character device\n\
         cmwq: fifo: skipped: named pipe\n\
         cmwq: socket: skipped: socket\n"
    );
}

#[test]
fn a_file_that_vanishes_while_it_runs() {
    let tree = tree(&["held", "gone", "kept"]);
    let Some(lease) = Lease::take(&tree.path().join("held")) else { return };
    let mut command = sum(tree.path());
    command.args(["held", "gone", "kept"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Arguments are opened in their order, and the first one holds it up.
    lease.wait_until_wanted();
    fs::remove_file(tree.path().join("gone")).unwrap();
    lease.give_back();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 1);
    assert_eq!(printed_paths(&output), ["held", "kept"]);
    assert_eq!(stderr(&output), "cmwq: gone: No such file or directory\n");
}

#[test]
fn files_that_come_go_grow_and_shrink_do_not_disturb_the_others() {
    let tree = nasty_tree();
    let stable = reference(tree.path(), &["."]);
    let churn = tree.path().join("churn");
    fs::create_dir(&churn).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let path = churn.join((round % 100).to_string());
                let _ = fs::remove_file(churn.join(((round + 50) % 100).to_string()));
                let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
                file.write_all(&[0; 5000]).unwrap();
                file.set_len(round % 7000).unwrap();
            }
        });
        for _ in 0..10 {
            let output = sum(tree.path()).arg(".").output().unwrap();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
            for line in stderr(&output).lines() {
                assert!(line.starts_with("cmwq: ./churn/"), "{line}");
                assert!(line.ends_with(": No such file or directory"), "{line}");
            }
            let undisturbed: String = shown(&output.stdout)
                .lines()
                .filter(|line| !line.contains("  ./churn/"))
                .map(|line| format!("{line}\n"))
                .collect();
            if let Some(stable) = &stable {
                assert_eq!(&undisturbed, stable);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_reader_that_went_away_ends_it_quietly() {
    let tree = nasty_tree();
    for arguments in [&["."][..], &["--json", "."], &["--stats", "."]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = sum(tree.path())
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        check_code(&output, 141);
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let tree = tree(&["a"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = sum(tree.path()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    check_code(&output, 1);
    assert!(
        stderr(&output).starts_with("cmwq: cannot write to standard output: No space left"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_low_limit_on_open_files_is_enough() {
    let tree = nasty_tree();
    let mut command = sum(tree.path());
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    // SAFETY: the closure only makes a system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
    let output = command.arg(".").output().unwrap();
    check_code(&output, 0);
    if let Some(expected) = reference(tree.path(), &["."]) {
        assert_eq!(shown(&output.stdout), expected);
    }
}
