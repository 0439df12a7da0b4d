//! The program, as it is started.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use tempfile::TempDir;

use super::{Client, eventually};

/// The program, with a folder of its own. It is killed if this is dropped.
pub(crate) struct Program {
    child: Child,
    folder: TempDir,
    /// Its client.
    pub(crate) client: Client,
}

/// The program, before it is started.
pub(crate) fn thumbs() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thumbs"));
    command.env_remove("DATABASE_URL").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Program {
    /// Serves with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_by(thumbs().args(arguments))
    }

    /// Serves by this command, which [`thumbs`] began.
    pub(crate) fn start_by(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        command.args(["--listen", "127.0.0.1:0"]).current_dir(folder.path());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect(&line).to_owned();
        Self { child, folder, client: Client::new(address) }
    }

    /// Where it runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Waits until it takes no connections: it has seen the signal.
    pub(crate) async fn takes_no_connections(&self) {
        eventually("connections are refused", || {
            std::net::TcpStream::connect(&self.client.address).is_err()
        })
        .await;
    }

    /// Waits until it ends; how, and what it said.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        let mut said = String::new();
        self.child.stderr.take().map(|mut out: ChildStderr| out.read_to_string(&mut said));
        (status.unwrap(), said)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
