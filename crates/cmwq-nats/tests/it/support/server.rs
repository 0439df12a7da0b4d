//! A broker on a free port, with its files in a directory that goes with it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use cmwq_nats::Broker;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;

use super::eventually;

pub(crate) struct Server {
    /// While it runs.
    child: Option<Child>,
    program: PathBuf,
    directory: TempDir,
    port: u16,
    /// That one, and others that it has.
    _ports: Vec<Port>,
    /// What else it is told.
    more: Vec<String>,
}

impl Server {
    /// `None`: it is not installed, or cannot be talked to.
    pub(crate) fn start() -> Option<Self> {
        Self::told(Vec::new())
    }

    /// One that is told more.
    pub(crate) fn told(more: Vec<String>) -> Option<Self> {
        let [port] = free_ports();
        let mut server = Self::new(vec![port], more)?;
        server.run();
        Some(server)
    }

    /// One with a configuration: of JetStream, and of the rest.
    pub(crate) fn configured(jetstream: &str, rest: &str) -> Option<Self> {
        let [port] = free_ports();
        let mut server = Self::new(vec![port], Vec::new())?;
        server.more = vec!["-c".to_owned(), server.config().display().to_string()];
        server.write_config(jetstream, rest);
        server.run();
        Some(server)
    }

    /// Changes the rest while it runs.
    pub(crate) fn configure_anew(&self, rest: &str) {
        self.write_config("", rest);
        self.signal("-HUP");
    }

    fn write_config(&self, jetstream: &str, rest: &str) {
        let store = self.directory.path().display();
        let text = format!("jetstream {{\nstore_dir: \"{store}\"\n{jetstream}\n}}\n{rest}");
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("nats.conf")
    }

    /// Three that are a cluster. They may take a moment to find each other.
    pub(crate) fn cluster() -> Option<[Self; 3]> {
        let [a, b, c, routes @ ..] = free_ports::<6>();
        let address = |port: &Port| format!("nats://127.0.0.1:{}", port.number);
        let all = routes.each_ref().map(address).join(",");
        let [x, y, z] = routes;
        let each = [(a, x), (b, y), (c, z)].map(|(port, route)| {
            let name = format!("at-{}", port.number);
            let more = ["-n", &name, "--cluster_name", "three"].map(str::to_owned);
            let more = [&more[..], &["--cluster".to_owned(), address(&route)]].concat();
            let more = [&more[..], &["--routes".to_owned(), all.clone()]].concat();
            Self::new(vec![port, route], more)
        });
        let [Some(a), Some(b), Some(c)] = each else { return None };
        let mut servers = [a, b, c];
        servers.iter_mut().for_each(Self::run);
        Some(servers)
    }

    /// One that does not run.
    fn new(ports: Vec<Port>, more: Vec<String>) -> Option<Self> {
        if !has_loopback() {
            return None;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let program = folders.map(|at| at.join("nats-server")).find(|file| file.exists())?;
        let directory = tempfile::tempdir().unwrap();
        let port = ports[0].number;
        Some(Self { child: None, program, directory, port, _ports: ports, more })
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
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string()]).args(&self.more);
        // It takes that from one of both places only.
        if !self.config().exists() {
            command.args(["-js", "-sd"]).arg(self.directory.path());
        }
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

    /// Makes it stand still, or go on: its system answers for it that what comes has come.
    pub(crate) fn stand_still(&self, stands: bool) {
        self.signal(if stands { "-STOP" } else { "-CONT" });
    }

    fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("it runs");
        let told = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    /// The CPU time that it has used, in clock ticks.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let child = self.child.as_ref().expect("it runs");
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Lets it end by itself: then it also has what it has not said it has.
    pub(crate) fn stop(&mut self) {
        if self.child.is_some() {
            self.signal("-TERM");
        }
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
    }

    /// The messages of a stream, as files.
    pub(crate) fn messages(&self, stream: &str) -> Messages {
        let directory = self.directory.path().join("jetstream/$G/streams").join(stream);
        let files = fs::read_dir(directory.join("msgs")).unwrap().map(Result::unwrap);
        let read = |file: fs::DirEntry| (file.path(), fs::read(file.path()).unwrap());
        Messages(files.map(read).collect())
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What the broker's interface answers to a request, as to an operator's tools.
    pub(crate) fn api(&self, path: &str, request: &Value) -> Value {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let client = async_nats::connect(self.address()).await.unwrap();
            let payload = request.to_string().into();
            client.request(format!("$JS.API.{path}"), payload).await.unwrap()
        });
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer.get("error").is_none(), "{path}: {answer}");
        answer
    }

    /// Changes what a stream is told, as an operator does.
    pub(crate) fn configure(&self, stream: &str, name: &str, value: Value) {
        let info = self.api(&format!("STREAM.INFO.{stream}"), &json!({}));
        let mut config = info["config"].clone();
        config[name] = value;
        self.api(&format!("STREAM.UPDATE.{stream}"), &config);
    }

    pub(crate) fn connect(&self) -> Broker {
        let broker = Broker::builder(&self.address()).patience(Duration::from_secs(60));
        broker.connect().unwrap()
    }
}

/// A configuration: what clients of a broker may not publish to.
pub(crate) fn forbidding(subject: &str) -> String {
    format!(
        r#"
        authorization: {{ users: [ {{
            user: machine
            password: secret
            permissions: {{ publish: {{ deny: "{subject}" }} }}
        }} ] }}
        no_auth_user: machine
        "#
    )
}

/// See [`Server::messages`].
pub(crate) struct Messages(Vec<(PathBuf, Vec<u8>)>);

impl Messages {
    /// As they were, while no server runs.
    pub(crate) fn put_back(self) {
        let directory = self.0[0].0.parent().unwrap();
        fs::read_dir(directory)
            .unwrap()
            .for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
        self.0.iter().for_each(|(path, content)| fs::write(path, content).unwrap());
    }
}

/// In a network namespace of its own a sandbox may have none.
fn has_loopback() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0");
    listener.and_then(|listener| TcpStream::connect(listener.local_addr()?)).is_ok()
}

/// A port that no other test takes meanwhile, of whichever process: a server that was killed gets
/// it again.
struct Port {
    number: u16,
    /// A name in the network's namespace, which only one can have.
    _claim: UnixListener,
}

/// Ports that were free just now. None that the system chooses by itself: with one of those, a
/// client that asks again and again for a server that is away may be connected to itself.
fn free_ports<const MANY: usize>() -> [Port; MANY] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // From somewhere else in each process, so that there is little to try.
    let somewhere = (std::process::id() % 1000) as u16;
    let mut ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed))
        .take(20_000)
        .filter_map(|n| claim(10_000 + (somewhere * 10 + n) % 20_000));
    [(); MANY].map(|()| ports.next().expect("a port is free"))
}

fn claim(number: u16) -> Option<Port> {
    let name = SocketAddr::from_abstract_name(format!("cmwq-nats-test-{number}")).unwrap();
    let claim = UnixListener::bind_addr(&name).ok()?;
    TcpListener::bind(("127.0.0.1", number)).is_ok().then_some(Port { number, _claim: claim })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
