//! A broker on a free port, with its files in a directory that goes with it.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cmwq_nats::Broker;
use tempfile::TempDir;

use super::eventually;

pub(crate) struct Server {
    /// While it runs.
    child: Option<Child>,
    program: PathBuf,
    directory: TempDir,
    port: u16,
}

impl Server {
    /// `None`: it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let program = folders.map(|at| at.join("nats-server")).find(|file| file.exists())?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        let mut server = Self { child: None, program, directory, port };
        server.run();
        Some(server)
    }

    /// Starts it, again with the files and on the port that it had.
    pub(crate) fn run(&mut self) {
        let port = self.port;
        let mut child = spawn(&self.program, self.directory.path(), port);
        eventually("nats-server listens", || {
            assert_eq!(child.try_wait().unwrap(), None, "nats-server ended: port {port} taken?");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        self.child = Some(child);
    }

    /// Kills it. What it said it has stored, it has.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn connect(&self) -> Broker {
        let broker = Broker::builder(&self.address()).patience(Duration::from_secs(60));
        broker.connect().unwrap()
    }
}

fn spawn(program: &Path, directory: &Path, port: u16) -> Child {
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
