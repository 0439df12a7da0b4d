//! The control socket: who may use it, what it does, and that no client can do harm.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cmwq::control;
use cmwq::{AffinityScope, ErrorKind, Workqueue};
use cmwq_observe::control::{Client, ClientError, ConnectError, Target};

use crate::support::scene::{NOBODY, Scene, Stage};
use crate::support::wait::PATIENCE;
use crate::support::{eventually, joined, managed, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("control::serves", serves),
    ("control::by_environment", by_environment),
    ("control::is_not_there", is_not_there),
    ("control::badly_wished", badly_wished),
    ("control::ends", ends),
    ("control::exits", exits),
    ("control::places", places),
    ("control::hostile", hostile),
    ("control::under_load", under_load),
    ("control::children", children),
    ("control::strangers", strangers),
    ("control::signals", signals),
];

/// A directory that goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cmwq-it-{name}-{}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Plays a scene whose user has a directory for sockets.
#[track_caller]
fn play(scene: &'static str, prepare: impl FnOnce(Stage) -> Stage) -> Directory {
    let directory = Directory::new(&scene.replace("::", "-"));
    prepare(Stage::new(scene).env("XDG_RUNTIME_DIR", &directory.0)).play();
    directory
}

fn queue(name: &str) -> Target {
    Target::Queue(name.to_owned())
}

fn me() -> u32 {
    process::id()
}

fn usual() -> PathBuf {
    Path::new(&std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join(format!("cmwq-{}.sock", me()))
}

#[track_caller]
fn kind<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> String {
    match outcome.unwrap_err() {
        ClientError::Refused { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn attributes_are_read_and_written() {
    play("control::serves", |stage| stage);
}

fn serves() {
    let wq = Workqueue::builder("a disk").unbound().sysfs().build().unwrap();
    let _plain = Workqueue::builder("plain").percpu().build().unwrap();
    assert_eq!(control::path(), None, "nobody asked for it");
    let path = control::listen(None).unwrap();
    assert_eq!((&path, control::path().as_ref()), (&usual(), Some(&path)));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);

    let mut client = Client::connect(me()).unwrap();
    assert_eq!(client.names().unwrap(), ["a disk", "plain"]);
    assert_eq!(client.get(&queue("a disk"), "max_active").unwrap(), "1024");
    assert_eq!(client.set(&queue("a disk"), "max_active", "9999").unwrap(), "2048");
    assert_eq!(
        client.set(&queue("a disk"), "affinity_scope", "default").unwrap(),
        "default (cache_shard)"
    );
    assert_eq!(wq.max_active(), 2048);
    assert_eq!(kind(client.set(&queue("a disk"), "nice", "20")), "invalid");
    assert_eq!(kind(client.set(&queue("a disk"), "per_cpu", "1")), "read-only");
    assert_eq!(kind(client.set(&queue("a disk"), "speed", "1")), "absent");
    assert_eq!(kind(client.set(&queue("plain"), "max_active", "1")), "not-registered");
    assert_eq!(kind(client.set(&queue("adisk"), "max_active", "1")), "no-queue");
    assert_eq!(kind(client.set(&queue("a disk"), "max_active", "1\nshow")), "request");
    assert_eq!(kind(client.get(&queue("."), "cpumask")), "no-queue", "not the process");
    assert_eq!(
        client.get(&Target::Process, "cpumask").unwrap(),
        cmwq::sysfs::show_global(cmwq::sysfs::GlobalAttribute::Cpumask).unwrap()
    );

    let shown = client.show(Some(&queue("plain"))).unwrap();
    let rows: Vec<_> = shown.items.iter().map(|i| (&*i.attribute, &*i.mode, &*i.value)).collect();
    assert_eq!(rows, [("per_cpu", "-", "1"), ("max_active", "-", "1024")]);
    let all = client.show(None).unwrap();
    assert_eq!((all.items.len(), all.left_out), (4 + 6 + 2, 0));
    assert_eq!(client.show(Some(&Target::Process)).unwrap().items, all.items[..4]);

    assert_eq!(control::listen(None).unwrap(), path, "the same again");
    let other = control::listen(Some(&path.with_extension("other"))).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::AlreadyExists);
    control::stop();
    assert!(!path.exists() && control::path().is_none());
    assert!(client.names().is_err());
    assert!(matches!(Client::connect(me()), Err(ConnectError::NotListening(_))));
    control::listen(Some(&path)).unwrap();
    assert_eq!(Client::connect(me()).unwrap().names().unwrap().len(), 2);
}

#[test]
fn the_environment_opts_in() {
    let directory = play("control::by_environment", |stage| stage.env("CMWQ_CONTROL", "1"));
    assert_eq!(directory.files(), [""; 0], "removed at the end of the process");
    play("control::by_environment", |stage| stage.params("control=1"));
    play("control::is_not_there", |stage| stage);
    play("control::is_not_there", |stage| stage.params("control=1").env("CMWQ_CONTROL", "0"));
    play("control::badly_wished", |stage| stage.env("CMWQ_CONTROL", "/proc/no such place"));
}

fn by_environment() {
    assert!(!usual().exists(), "not before the library is used");
    let wq = managed("q");
    assert_eq!(joined(wq.queue(|| 7)), 7);
    let mut client = Client::connect(me()).unwrap();
    assert_eq!(client.names().unwrap(), ["q"]);
    assert_eq!(control::path(), Some(usual()));
    // As the scene ends, the process does.
}

fn is_not_there() {
    let wq = managed("q");
    assert_eq!(joined(wq.queue(|| 7)), 7);
    assert!(matches!(Client::connect(me()), Err(ConnectError::NotListening(_))));
    assert!(!usual().exists());
}

fn badly_wished() {
    let wq = managed("q");
    assert_eq!(joined(wq.queue(|| 7)), 7, "the program goes on");
    let notices = cmwq::notices();
    assert!(
        notices.iter().any(|text| text.contains("CMWQ_CONTROL is of no effect")),
        "{notices:?}"
    );
}

#[test]
fn the_file_goes_with_the_library_and_with_the_process() {
    assert_eq!(play("control::ends", |stage| stage).files(), [""; 0]);
    assert_eq!(play("control::exits", |stage| stage).files(), [""; 0]);
}

fn ends() {
    drop(managed("q"));
    let path = control::listen(None).unwrap();
    let mut client = Client::connect(me()).unwrap();
    cmwq::shutdown(PATIENCE).unwrap();
    assert!(!path.exists());
    assert!(client.names().is_err());
}

fn exits() {
    let path = control::listen(None).unwrap();
    assert!(path.exists());
}

#[test]
fn only_what_is_stale_is_replaced() {
    play("control::places", |stage| stage);
}

fn places() {
    let directory = usual().parent().unwrap().to_owned();
    let at = |name: &str| directory.join(name);
    let taken =
        |path: &Path| control::listen(Some(path)).unwrap_err().kind() == ErrorKind::AlreadyExists;

    fs::write(at("file"), "precious").unwrap();
    assert!(taken(&at("file")));
    assert_eq!(fs::read(at("file")).unwrap(), b"precious");

    let live = UnixListener::bind(at("live")).unwrap();
    assert!(taken(&at("live")));
    UnixStream::connect(at("live")).unwrap();
    drop(live);
    assert_eq!(control::listen(Some(&at("live"))).unwrap(), at("live"), "stale by now");
    control::stop();

    std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
    assert!(taken(&at("link")));
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());

    let long = at(&"x".repeat(120));
    assert_eq!(control::listen(Some(&long)).unwrap_err().kind(), ErrorKind::InvalidInput);
    let nowhere = at("no such directory/s");
    assert_eq!(control::listen(Some(&nowhere)).unwrap_err().kind(), ErrorKind::InvalidInput);

    // Somebody puts something else in its place: it is not ours to remove.
    let path = control::listen(None).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "theirs").unwrap();
    control::stop();
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}

/// A small generator of numbers, whose seed is printed when a test fails.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn hostile_clients_do_no_harm() {
    play("control::hostile", |stage| stage);
}

fn hostile() {
    const ROUNDS: usize = 400;
    sys::heed_sigpipe();
    let seed = std::env::var("CMWQ_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(me()) * 2 + 1);
    eprintln_seed(seed);
    let mut random = Random(seed);
    let wq = Workqueue::builder("prey").unbound().sysfs().build().unwrap();
    let path = control::listen(None).unwrap();
    for _ in 0..ROUNDS {
        let Ok(mut stream) = UnixStream::connect(&path) else { continue };
        stream.set_nonblocking(true).unwrap();
        for _ in 0..random.below(4) {
            let bytes = match random.below(6) {
                0 => random.bytes(200),
                1 => vec![b'a'; random.below(20_000)],
                2 => b"show\n".repeat(random.below(300)),
                3 => b"set prey max_active ".to_vec(),
                4 => [b"get prey ".to_vec(), random.bytes(40), b"\n".to_vec()].concat(),
                _ => [b"set ".to_vec(), random.bytes(60), b" nice 1\n".to_vec()].concat(),
            };
            // It may be refused, or be more than fits.
            let _ = stream.write(&bytes);
        }
        match random.below(4) {
            0 => drop(stream.shutdown(Shutdown::Write)),
            1 => drop(stream.shutdown(Shutdown::Read)),
            2 => drop(stream.read(&mut [0; 100])),
            _ => {}
        }
    }
    assert_eq!(joined(wq.queue(|| 7)), 7);
    // Those that hung up within a line were let go at once; whoever comes is served.
    let served = || {
        let Ok(mut client) = Client::connect(me()) else { return false };
        client.get(&queue("prey"), "per_cpu").is_ok_and(|value| value == "0")
    };
    eventually("somebody is served", served);
    control::stop();
    assert_eq!(wq.max_active(), 1024, "no request was complete");
}

#[expect(clippy::print_stderr, reason = "shown when the scene fails")]
fn eprintln_seed(seed: u64) {
    eprintln!("CMWQ_TEST_SEED={seed}");
}

#[test]
fn changes_from_outside_lose_no_items() {
    play("control::under_load", |stage| stage);
}

fn under_load() {
    let wq = Workqueue::builder("busy").unbound().sysfs().build().unwrap();
    control::listen(None).unwrap();
    static DONE: AtomicBool = AtomicBool::new(false);
    let changing = thread::spawn(|| {
        let mut client = Client::connect_within(me(), PATIENCE).unwrap();
        let mut changes = 0_u32;
        let nicer = sys::nicer(1).to_string();
        while !DONE.load(Ordering::SeqCst) || changes < 50 {
            for (attribute, value) in [
                ("max_active", "1"),
                ("affinity_scope", "cpu"),
                ("affinity_strict", "1"),
                ("max_active", "64"),
                ("affinity_scope", "system"),
                ("nice", &nicer),
                ("nice", "0"),
            ] {
                client.set(&queue("busy"), attribute, value).unwrap();
            }
            changes += 1;
        }
    });
    for _ in 0..100 {
        let items: Vec<_> = (0..50_u32).map(|i| wq.queue(move || i)).collect();
        assert_eq!(items.into_iter().map(joined).sum::<u32>(), 49 * 50 / 2);
    }
    DONE.store(true, Ordering::SeqCst);
    changing.join().unwrap();
}

#[test]
fn a_child_does_not_serve_its_parents_socket() {
    play("control::children", |stage| stage);
    play("control::children", |stage| stage.env("CMWQ_CONTROL", "1"));
}

fn sockets() -> usize {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    let is_ours = |link: &PathBuf| {
        let link = link.to_string_lossy();
        link.starts_with("socket:") || link.contains("cmwq-control")
    };
    links.filter(is_ours).count()
}

fn children() {
    let before = sockets();
    let wq = managed("q");
    let path = control::listen(None).unwrap();
    let mut client = Client::connect(me()).unwrap();
    assert_eq!(client.names().unwrap(), ["q"]);
    assert!(sockets() > before);
    let parent = me();
    let status = sys::fork(|| {
        // The client's own end was inherited, as any descriptor.
        assert_eq!(sockets(), before + 1, "those of the server are closed");
        assert_eq!(control::path(), None);
        control::stop();
        assert!(path.exists(), "the parent's");
        assert!(matches!(Client::connect(me()), Err(ConnectError::NotListening(_))));
        assert_eq!(Client::connect(parent).unwrap().names().unwrap(), ["q"]);
        assert_eq!(joined(wq.queue(|| 7)), 7);
        let own = control::listen(None).unwrap();
        assert_eq!(own, usual());
        assert_ne!(own, path);
        assert_eq!(Client::connect(me()).unwrap().names().unwrap(), ["q"]);
        control::stop();
        assert!(!own.exists());
    });
    assert_eq!(status, 0);
    assert_eq!(client.names().unwrap(), ["q"], "the parent goes on");
    control::stop();
    assert!(!path.exists());
}

#[test]
fn other_users_are_denied() {
    if !sys::is_root() {
        return crate::support::scene::skip("only root can become another user");
    }
    play("control::strangers", |stage| stage);
}

fn strangers() {
    let _q = managed("q");
    let directory = usual().parent().unwrap().to_owned();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let path = control::listen(None).unwrap();
    let parent = me();
    // A user namespace may have no other users.
    let can_change = sys::fork(|| sys::become_user(NOBODY).unwrap()) == 0;
    if !can_change {
        return crate::support::scene::skip("cannot become another user");
    }
    let status = sys::fork(|| {
        sys::become_user(NOBODY).unwrap();
        let error = Client::connect(parent).unwrap_err();
        assert!(matches!(error, ConnectError::Denied { .. }), "{error:?}");
        assert!(error.to_string().contains("user 0"), "{error}");
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    });
    assert_eq!(status, 0);
    // Even where the file would let them in.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let status = sys::fork(|| {
        sys::become_user(NOBODY).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = String::new();
        let _ = stream.write_all(b"names\n");
        let _ = stream.read_to_string(&mut heard);
        assert!(heard.contains("error denied ") && !heard.contains("= q"), "{heard}");
    });
    assert_eq!(status, 0);
    let mut root = Client::connect(me()).unwrap();
    assert_eq!(root.names().unwrap(), ["q"]);
}

#[test]
fn a_worker_that_a_client_makes_needed_takes_signals() {
    play("control::signals", |stage| stage);
}

/// The signals that the calling thread has blocked, as the kernel writes them.
fn blocked_signals() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    blocked.unwrap().trim().to_owned()
}

/// The pool that the control thread makes for the new scope gets its first worker from there. That
/// thread has all signals blocked.
fn signals() {
    let wq = Workqueue::builder("moved").unbound().affinity_scope(AffinityScope::Cpu).sysfs();
    let wq = wq.build().unwrap();
    joined(wq.queue(|| ()));
    control::listen(None).unwrap();
    let mut client = Client::connect(me()).unwrap();
    assert_eq!(client.set(&queue("moved"), "affinity_scope", "system").unwrap(), "system");
    assert_eq!(joined(wq.queue(blocked_signals)), blocked_signals());
}
