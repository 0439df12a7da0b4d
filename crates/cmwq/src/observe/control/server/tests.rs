//! The thread against clients that behave badly, with little patience.

use std::io::Write as _;
use std::thread;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server of its own, on a socket without a name clash.
struct Stage {
    directory: std::path::PathBuf,
    stop: Option<LastingFd<UnixStream>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Stage {
    fn new(name: &str, limits: Limits) -> Self {
        let directory = std::env::temp_dir().join(format!("cmwq-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let listener = fds::remembered(|| socket::listen(&directory.join("s"), 64)).unwrap();
        let (stop, told) = fds::remembered_pair().unwrap();
        let server = Server { listener, stop: told, limits };
        let thread = Some(thread::spawn(move || server.run()));
        Self { directory, stop: Some(stop), thread }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.directory.join("s")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// All that the server says until it hangs up.
    fn to_the_end(mut stream: UnixStream) -> String {
        let mut all = String::new();
        // A reset is an end, too.
        let _ = stream.read_to_string(&mut all);
        all
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            fds::close(stop);
        }
        let ended = self.thread.take().map(thread::JoinHandle::join);
        std::fs::remove_dir_all(&self.directory).unwrap();
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn limits(connections: usize, patience: Duration) -> Limits {
    Limits { connections, patience }
}

#[test]
fn who_says_nothing_or_too_slowly_is_sent_away() {
    let patience = Duration::from_millis(300);
    let stage = Stage::new("slow", limits(4, patience));
    let start = Instant::now();
    let (silent, mut dripping) = (stage.connect(), stage.connect());
    let drips = thread::spawn(move || {
        let mut sent = 0_u32;
        while start.elapsed() < PATIENCE && socket::send(&dripping, b"x").is_ok() {
            sent += 1;
            thread::sleep(Duration::from_millis(10));
        }
        let _ = dripping.flush();
        sent
    });
    let heard = Stage::to_the_end(silent);
    assert!(heard.starts_with("cmwq-control 1 ") && heard.lines().count() == 1, "{heard}");
    assert!(start.elapsed() >= patience, "it was given its time");
    assert!(drips.join().unwrap() > 0);
    assert!(start.elapsed() < PATIENCE, "the slow one was sent away, too");
}

#[test]
fn who_does_not_take_replies_stops_nobody_else() {
    let stage = Stage::new("deaf", limits(2, Duration::from_secs(3600)));
    let deaf = stage.connect();
    deaf.set_nonblocking(true).unwrap();
    // Until neither side can take more.
    let start = Instant::now();
    let mut quiet_since = start;
    while quiet_since.elapsed() < Duration::from_millis(200) && start.elapsed() < PATIENCE {
        match socket::send(&deaf, &b"nonsense\n".repeat(100)) {
            Ok(_) => quiet_since = Instant::now(),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    let mut other = stage.connect();
    other.write_all(b"get . nothing\n").unwrap();
    other.shutdown(std::net::Shutdown::Write).unwrap();
    let heard = Stage::to_the_end(other);
    assert!(heard.ends_with("\n") && heard.contains("error absent"), "{heard}");
}

#[test]
fn there_may_be_so_many_clients() {
    let stage = Stage::new("many", limits(2, Duration::from_secs(3600)));
    let mut greeted: Vec<_> = (0..2).map(|_| stage.connect()).collect();
    let mut byte = [0];
    greeted.iter_mut().for_each(|client| client.read_exact(&mut byte).unwrap());
    let heard = Stage::to_the_end(stage.connect());
    assert!(heard.contains("error busy "), "{heard}");
    drop(greeted.pop());
    let start = Instant::now();
    loop {
        let mut client = stage.connect();
        client.write_all(b"no request\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let heard = Stage::to_the_end(client);
        if heard.contains("error request") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "the place never became free: {heard}");
    }
}

#[test]
fn only_the_same_user_and_root_may_ask() {
    assert!(may_ask(1000, 1000) && may_ask(0, 1000) && may_ask(0, 0));
    assert!(!may_ask(1001, 1000) && !may_ask(1000, 0) && !may_ask(65_534, 1000));
}
