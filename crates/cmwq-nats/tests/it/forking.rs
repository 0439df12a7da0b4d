//! Processes that fork.

use std::thread;
use std::time::Duration;

use cmwq_nats::{Broker, ErrorKind};
use tokio::runtime::Builder;

use crate::support::{broker_or_skip, not_tested, noting, queue, runs};

/// A child has what its parent has drawn ids from, and must not draw the same ones: items would be
/// taken for one another.
#[test]
fn a_parent_and_its_child_make_different_ids() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "forked");
    let _ = queue.queue("f", "before").unwrap();
    let address = server.address();
    let child = begin_child(move || {
        // The parent's connection has no thread here.
        let broker = Broker::connect(&address).unwrap();
        let _ = broker.queue("forked").open().unwrap().queue("f", "child").unwrap();
    });
    assert_eq!(end_of(child), 0);
    assert!(!queue.queue("f", "parent").unwrap().was_pending());
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    queue.flush().unwrap();
    // They may run at the same time.
    let mut ran = seen.rest();
    ran.sort();
    assert_eq!(ran, ["before", "child", "parent"]);
}

/// The thread that drives the connection is in the parent.
#[test]
fn what_a_child_inherits_fails_at_once_and_may_be_dropped() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "inherited");
    let ticket = queue.queue_delayed("f", "", Duration::MAX).unwrap();
    let serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    let child = begin_child(move || {
        let error = queue.queue("f", "child").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Local, "{error}");
        assert!(error.to_string().contains("forked"), "{error}");
        for error in [queue.flush(), ticket.flush(), ticket.cancel().map(drop)] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Local);
        }
        let trouble = serving.trouble().map(|error| error.kind());
        assert_eq!((serving.is_serving(), trouble), (false, Some(ErrorKind::Local)));
        // Whichever has the last handle.
        drop((serving, ticket, queue, broker));
    });
    assert_eq!(end_of(child), 0);
    let queue = server.connect().queue("inherited").open().unwrap();
    let backlog = queue.backlog().unwrap();
    assert_eq!((backlog.waiting, backlog.delayed), (0, 1));
}

/// Also in a task of a runtime, where another runtime may not be dropped.
#[test]
fn who_gets_no_thread_for_a_connection_is_told() {
    let child = begin_child(|| {
        let runtime = Builder::new_current_thread().build().unwrap();
        if !refuse_threads() {
            return not_tested("no threads: this takes a user who has that limit, or root");
        }
        let error = runtime.block_on(async { Broker::connect("127.0.0.1:1").unwrap_err() });
        assert_eq!(error.kind(), ErrorKind::Local, "{error}");
        assert!(error.to_string().contains("limit of threads"), "{error}");
    });
    assert_eq!(end_of(child), 0);
}

/// Whether this process, which is not to go on for long, gets none from now on.
fn refuse_threads() -> bool {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is readable; a number. Root has no such limit.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NPROC, &raw const none);
        libc::setuid(65534);
    }
    thread::Builder::new().spawn(|| {}).is_err()
}

/// Forks; the child plays `part` and ends, with 0 if that did not panic, nor take for ever.
pub(crate) fn begin_child(part: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child makes calls that a child of a process with threads may make here: it
    // allocates, which the C library's allocator can do there, and uses nothing of the parent's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: a number. The signal ends the child.
        unsafe { libc::alarm(100) };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
        // SAFETY: nothing of this process is used any more.
        unsafe { libc::_exit(i32::from(result.is_err())) }
    }
    pid
}

/// Waits for the end of a child, and returns its status.
pub(crate) fn end_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a number, and where the status goes.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}
