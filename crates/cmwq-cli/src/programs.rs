//! Starting programs. Where they are is looked up along `PATH` once, and not again for each
//! command.
//!
//! Starting a program by its name tries each folder in `PATH`, and a folder where it is not costs a
//! system call that fails.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// LIMIT: names that are remembered; there are few, unless the name is an argument.
const MOST: usize = 64;

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct Programs(Mutex<HashMap<OsString, PathBuf>>);

impl Programs {
    /// Starts the program of this name, to which `start` adds all but the name. A shell takes what
    /// may be executed and the system does not know how, as of shells and execvp(3).
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn start(
        &self,
        name: &OsStr,
        start: impl Fn(Command) -> io::Result<Child>,
    ) -> io::Result<Child> {
        let started = start(self.command(name));
        if !started.as_ref().is_err_and(is_script) {
            return started;
        }
        let mut shell = Command::new("/bin/sh");
        shell.arg(self.command(name).get_program());
        start(shell)
    }

    /// Why the system says that it is not there.
    pub(crate) fn why_absent(&self, name: &OsStr) -> &'static str {
        if self.has(name) {
            "is there, but the interpreter that it asks for is not: see its first line, where a \
             carriage return at the end is part of the name"
        } else if name.as_encoded_bytes().iter().any(u8::is_ascii_whitespace) {
            "there is no such program: words are separate arguments, and a line for a shell comes \
             behind `sh -c`"
        } else {
            "there is no such program"
        }
    }

    /// A command that runs the program of this name, without arguments.
    fn command(&self, name: &OsStr) -> Command {
        let Some(path) = self.path(name) else { return Command::new(name) };
        let mut command = Command::new(path);
        command.arg0(name);
        command
    }

    /// Whether there is such a file. The system says that it is not, too, when who is to read it is
    /// not there.
    fn has(&self, name: &OsStr) -> bool {
        let is_path = name.as_encoded_bytes().contains(&b'/');
        if is_path { Path::new(name).exists() } else { self.path(name).is_some() }
    }

    /// Where it is. `None`: where the system finds it, if it does.
    fn path(&self, name: &OsStr) -> Option<PathBuf> {
        if name.is_empty() || name.as_encoded_bytes().contains(&b'/') {
            return None;
        }
        let mut known = self.lock();
        // It may have been moved or removed meanwhile.
        if let Some(path) = known.get(name).filter(|path| access(*path, Access::EXEC_OK).is_ok()) {
            return Some(path.clone());
        }
        let path = find(name, &env::var_os("PATH")?)?;
        if known.len() < MOST || known.contains_key(name) {
            known.insert(name.to_owned(), path.clone());
        }
        Some(path)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OsString, PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first file of that name that may be executed. `None`, too, if that depends on the folder
/// that the command is started in.
fn find(name: &OsStr, folders: &OsStr) -> Option<PathBuf> {
    for folder in env::split_paths(folders) {
        if !folder.is_absolute() {
            return None;
        }
        let path = folder.join(name);
        if is_program(&path) {
            return Some(path);
        }
    }
    None
}

fn is_script(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_that_may_be_executed_is_found() {
        let [none, dull, one, other] = [(); 4].map(|()| tempfile::tempdir().unwrap());
        for (folder, mode) in [(&dull, 0o644), (&one, 0o755), (&other, 0o755)] {
            let path = folder.path().join("it");
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let paths = |folders: &[&Path]| env::join_paths(folders).unwrap();
        let all = paths(&[none.path(), dull.path(), one.path(), other.path()]);
        assert_eq!(find("it".as_ref(), &all), Some(one.path().join("it")));
        assert_eq!(find("it".as_ref(), &paths(&[none.path(), dull.path()])), None);
        let relative = paths(&["here".as_ref(), one.path()]);
        assert_eq!(find("it".as_ref(), &relative), None, "it depends on where one is");
    }

    #[test]
    fn a_program_keeps_its_name_and_is_looked_up_again_when_it_has_gone() {
        let programs = Programs::default();
        programs.lock().insert("sh".into(), "/nowhere/sh".into());
        let output = programs.command("sh".as_ref()).args(["-c", "echo $0"]).output().unwrap();
        assert_eq!(output.stdout, b"sh\n");
        let known = programs.lock().get(OsStr::new("sh")).cloned();
        assert!(known.is_some_and(|path| path != Path::new("/nowhere/sh")));
    }

    #[test]
    fn what_is_a_path_already_is_left_alone() {
        let programs = Programs::default();
        assert!(programs.path("./sh".as_ref()).is_none() && programs.path("".as_ref()).is_none());
    }
}
