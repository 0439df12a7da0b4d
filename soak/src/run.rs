//! A run from beginning to end.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::actor;
use crate::body;
use crate::cli::SoakArgs;
use crate::disturb::{self, ForeignLoad};
use crate::forks;
use crate::last::Last;
use crate::summary::Summary;
use crate::sys;
use crate::watch::{self, Bounds, Post, fail};
use crate::world::World;

pub(crate) fn soak(args: &SoakArgs) -> ExitCode {
    if args.failing_threads && nix::unistd::geteuid().is_root() {
        return as_another_user(args);
    }
    let (seed, nr_threads) = (args.common.seed(), args.common.threads());
    watch::set_command(args.command(seed, nr_threads));
    let load = args
        .foreign_load
        .then(|| ForeignLoad::start(thread::available_parallelism().map_or(1, usize::from)));
    if load.as_ref().is_some_and(|load| load.processes() == 0) {
        fail("no process for the foreign load could be started");
    }
    let mut rng = Rng::with_seed(seed);
    let world = begin(args, seed, &mut rng);
    let threads = start(world, args, nr_threads, &mut rng);
    let bounds = Bounds {
        secs: args.common.secs,
        patience: Duration::from_secs(args.common.patience),
        max_rss: args.max_rss,
        max_threads: args.max_threads,
    };
    let course = watch::watch(world, &bounds);
    world.is_over.store(true, Ordering::SeqCst);
    until_done(threads, bounds.patience);
    end(world, bounds.patience, rng);
    course.check();
    drop(load);
    let summary = Summary::new(seed, args.common.secs, nr_threads, &world.totals, &course);
    has_disturbed(args, &summary);
    watch::tell(&summary, args.common.json);
    ExitCode::SUCCESS
}

/// A switch that has done nothing in all that time has tested nothing.
fn has_disturbed(args: &SoakArgs, summary: &Summary) {
    let done = [
        ("--fork", args.fork, summary.forks),
        ("--mask-changes", args.mask_changes, summary.mask_changes),
        ("--failing-threads", args.failing_threads, summary.thread_failures),
    ];
    for (switch, is_on, count) in done {
        if is_on && count == 0 && args.common.secs >= 10 {
            fail(&format!("{switch} has done nothing"));
        }
    }
}

/// As a user that has a limit of threads, and no other process.
fn as_another_user(args: &SoakArgs) -> ExitCode {
    let user = disturb::another_user();
    let seed = args.common.seed();
    // What was asked for, with the seed decided.
    let mut command = Command::new(sys::THIS_PROGRAM);
    command.args(std::env::args_os().skip(1)).uid(user).gid(user).current_dir("/");
    if args.common.seed.is_none() {
        command.args(["--seed", &seed.to_string()]);
    }
    fail(&format!("cannot become another user: {}", command.exec()))
}

fn begin(args: &SoakArgs, seed: u64, rng: &mut Rng) -> &'static World {
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let world = World::make(cpus, args.failing_threads, rng);
    body::set(world, seed);
    body::heed_panics(world);
    world
}

fn start(
    world: &'static World,
    args: &SoakArgs,
    nr_threads: usize,
    rng: &mut Rng,
) -> Vec<thread::JoinHandle<()>> {
    let mut threads = Vec::new();
    let mut start = |name: String, part: Box<dyn FnOnce(Arc<Post>, Rng) + Send>| {
        let (post, rng) = (Post::new(name.clone()), rng.fork());
        let thread = thread::Builder::new().name(name).spawn(move || part(post, rng));
        threads.push(thread.unwrap_or_else(|error| fail(&format!("no thread: {error}"))));
    };
    for n in 0..nr_threads {
        start(format!("actor{n}"), Box::new(move |post, rng| actor::act(world, &post, rng)));
    }
    start("freezes".into(), Box::new(move |post, rng| disturb::freezes(world, &post, rng)));
    if args.fork {
        let patience = Duration::from_secs(args.common.patience);
        let forks = move |post: Arc<Post>, rng| forks::forks(world, &post, patience, rng);
        start("forks".into(), Box::new(forks));
    }
    if args.mask_changes {
        start("masks".into(), Box::new(move |post, rng| disturb::masks(world, &post, rng)));
    }
    if args.failing_threads {
        start("limits".into(), Box::new(move |_, rng| disturb::failing_threads(world, rng)));
    }
    threads
}

/// Waits for threads, each of which is at a post that is watched.
fn until_done(threads: Vec<thread::JoinHandle<()>>, patience: Duration) {
    let start = Instant::now();
    while threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(Duration::from_millis(1));
        watch::check_posts(patience);
        if start.elapsed() > 2 * patience {
            fail("a thread of the soak does not end");
        }
    }
    if threads.into_iter().any(|thread| thread.join().is_err()) {
        fail("a thread of the soak panicked");
    }
}

/// Closes everything, compares what is left of the books, and shuts the library down.
fn end(world: &'static World, patience: Duration, mut rng: Rng) {
    let post = Post::new("the end".to_owned());
    let closing = thread::spawn(move || {
        post.doing("closing all queues", || world.close_all(&mut rng));
        let last = Last::arm(&post);
        let shutdown = || cmwq::shutdown(Duration::from_secs(60));
        if let Err(error) = post.doing("shutdown", shutdown) {
            fail(&format!("shutdown: {error}"));
        }
        last.call_once_more(&post);
    });
    until_done(vec![closing], patience);
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::SeqCst);
    let totals = &world.totals;
    let delivered = load(&totals.panics_joined) + load(&totals.panics_handled);
    if delivered != load(&totals.panics_thrown) {
        fail(&format!("panics: {} thrown, {delivered} delivered", load(&totals.panics_thrown)));
    }
    // A thread that has said that it leaves is still there for a moment.
    let since = Instant::now();
    while !sys::workers().is_empty() {
        if since.elapsed() > patience {
            fail(&format!("threads are left after the shutdown: {:?}", sys::workers()));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
