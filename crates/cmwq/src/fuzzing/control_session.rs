//! The server's side of the control protocol: whatever a client sends, each of its lines has an
//! answer, and nothing is kept beyond a line.
//!
//! A case begins with a byte for how the rest, which is what the client sends, is cut.

use std::sync::OnceLock;
use std::time::Instant;

use crate::Workqueue;
use crate::observe::control::for_fuzzing::{Limits, MAX_LINE, Request, Session, Target, answer};

/// There is a queue that may be changed.
fn begin() {
    static QUEUE: OnceLock<Workqueue> = OnceLock::new();
    QUEUE.get_or_init(|| {
        let queue = Workqueue::builder("fuzz").unbound().sysfs();
        queue.build().expect("a queue needs nothing")
    });
}

/// As the server does, but for what belongs to the whole process, which has other tests.
fn reply(line: &[u8]) -> String {
    let text = match Request::parse(line) {
        Ok(Request::Set(Target::Process, ..)) => "ok not tried\n".to_owned(),
        Ok(Request::Set(Target::Queue(name), ..)) if name != "fuzz" => "ok not tried\n".to_owned(),
        _ => answer(line),
    };
    check(&text);
    text
}

/// Lines of the protocol, and the last one says that it is the last.
fn check(text: &str) {
    let lines = text.strip_suffix('\n').expect("an answer is lines");
    assert!(!lines.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let mut lines = lines.rsplit('\n');
    let last = lines.next().unwrap_or_default();
    assert!(last.starts_with("ok ") || last.starts_with("error "), "{text:?}");
    assert!(lines.all(|line| line.starts_with("= ")), "{text:?}");
}

/// Serves a client.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let [cut, sent @ ..] = data else { return };
    begin();
    let now = Instant::now();
    let mut session = Session::new(1, &Limits::DEFAULT, now);
    let mut answers = 0;
    let mut count = |line: &[u8]| {
        assert!(line.len() <= MAX_LINE && !line.contains(&b'\n'));
        answers += 1;
        reply(line)
    };
    let piece = usize::from(*cut) * 16 + 1;
    for part in sent.chunks(piece) {
        while !session.pending().is_empty() {
            let some = session.pending().len().min(piece);
            session.has_sent(some, now, &mut count);
        }
        if session.wants_input() {
            session.receive(part, now, &mut count);
        }
        assert!(session.kept() <= MAX_LINE + piece, "{}", session.kept());
    }
    session.receive_end();
    while !session.pending().is_empty() {
        session.has_sent(session.pending().len(), now, &mut count);
    }
    assert!(session.is_over() && answers <= sent.len());
}

#[test]
fn any_client_is_answered_line_by_line() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/control_session"), 2_000, run);
}
