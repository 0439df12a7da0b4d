//! A broker on a free port, with its files in a directory that goes with it.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
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
    /// What else it is told.
    more: Vec<String>,
}

impl Server {
    /// `None`: it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::told(Vec::new())
    }

    /// One that is told more.
    pub(crate) fn told(more: Vec<String>) -> Option<Self> {
        let [port] = free_ports();
        let mut server = Self::new(port, more)?;
        server.run();
        Some(server)
    }

    /// Three that are a cluster. They may take a moment to find each other.
    pub(crate) fn cluster() -> Option<[Self; 3]> {
        let [a, b, c, routes @ ..] = free_ports::<6>();
        let address = |port: u16| format!("nats://127.0.0.1:{port}");
        let all = routes.map(address).join(",");
        let each = [(a, routes[0]), (b, routes[1]), (c, routes[2])].map(|(port, route)| {
            let more = ["-n", &format!("at-{port}"), "--cluster_name", "three"].map(str::to_owned);
            let more = [&more[..], &["--cluster".to_owned(), address(route)]].concat();
            let more = [&more[..], &["--routes".to_owned(), all.clone()]].concat();
            Self::new(port, more)
        });
        let [Some(a), Some(b), Some(c)] = each else { return None };
        let mut servers = [a, b, c];
        servers.iter_mut().for_each(Self::run);
        Some(servers)
    }

    /// One that does not run.
    fn new(port: u16, more: Vec<String>) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let program = folders.map(|at| at.join("nats-server")).find(|file| file.exists())?;
        let directory = tempfile::tempdir().unwrap();
        Some(Self { child: None, program, directory, port, more })
    }

    /// Starts it, again with the files and on the port that it had.
    pub(crate) fn run(&mut self) {
        let port = self.port;
        let mut child = self.spawn();
        eventually("nats-server listens", || {
            assert_eq!(child.try_wait().unwrap(), None, "nats-server ended: port {port} taken?");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        self.child = Some(child);
    }

    fn spawn(&self) -> Child {
        let mut command = Command::new(&self.program);
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"]);
        command.arg(self.directory.path()).args(&self.more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
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

/// Ports that were free just now.
fn free_ports<const MANY: usize>() -> [u16; MANY] {
    let bound = [(); MANY].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    bound.map(|listener| listener.local_addr().unwrap().port())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
