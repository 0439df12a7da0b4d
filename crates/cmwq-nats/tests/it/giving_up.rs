//! Failures, panics, and dead letters.

use std::fmt;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use cmwq_nats::{Failure, Item};

use crate::support::{Outsider, Server, broker_or_skip, eventually, noting, queue, runs, text};

#[test]
fn a_failure_is_tried_again_and_then_given_up() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "failing");
    let (note, seen) = runs();
    let serving = queue
        .serve()
        .function("f", move |item: &Item| -> Result<(), Failure> {
            note.text(format!("{} {}", text(item), item.attempt()));
            match text(item).as_str() {
                "heals" if item.attempt() == 3 => Ok(()),
                "panics" => panic!("a panic\nof two lines"),
                _ => Err(std::io::Error::other("no disk").into()),
            }
        })
        .attempts(3)
        .retry_after(Duration::from_millis(1))
        .start()
        .unwrap();
    for payload in ["heals", "fails", "panics"] {
        let _ = queue.queue("f", payload).unwrap();
    }
    queue.flush().unwrap();
    let mut ran: Vec<String> = (0..9).map(|_| seen.next()).collect();
    ran.sort();
    let expected = ["fails", "heals", "panics"]
        .iter()
        .flat_map(|payload| (1..=3).map(move |attempt| format!("{payload} {attempt}")));
    assert_eq!(ran, expected.collect::<Vec<_>>());
    assert_eq!(seen.rest(), [""; 0]);
    let stats = serving.stats();
    assert_eq!((stats.completed, stats.failed, stats.dead), (1, 8, 2));
    let mut letters = queue.dead_letters(10).unwrap();
    letters.sort_by(|a, b| a.payload().cmp(b.payload()));
    let told: Vec<_> =
        letters.iter().map(|l| (l.function(), l.payload(), l.error(), l.attempts())).collect();
    let panicked = "it panicked: a panic of two lines";
    assert_eq!(told, [("f", &b"fails"[..], "no disk", 3), ("f", b"panics", panicked, 3)]);
    assert_eq!(queue.backlog().unwrap().dead, 2);
}

/// Also by a hook that panics, which changes nothing.
#[test]
fn failures_are_told_with_their_reasons() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "told");
    let (note, seen) = runs();
    let serving = queue
        .serve()
        .function("f", |item| match text(item).as_str() {
            "panics" => panic!("at the disco"),
            _ => Err("no disk".into()),
        })
        .attempts(2)
        .retry_after(Duration::from_millis(1))
        .on_failure(move |item, reason, is_given_up| {
            note.text(format!("{} {}: {reason}, {is_given_up}", text(item), item.attempt()));
            panic!("a hook that panics");
        })
        .start()
        .unwrap();
    for payload in ["fails", "panics"] {
        let _ = queue.queue("f", payload).unwrap();
    }
    queue.flush().unwrap();
    let mut told: Vec<String> = (0..4).map(|_| seen.next()).collect();
    told.sort();
    let expected = [
        "fails 1: no disk, false",
        "fails 2: no disk, true",
        "panics 1: it panicked: at the disco, false",
        "panics 2: it panicked: at the disco, true",
    ];
    assert_eq!(told, expected);
    assert_eq!((serving.stats().failed, serving.stats().dead), (4, 2));
}

/// Dead letters can be queued again, when what was wrong is mended, or dropped.
#[test]
fn dead_letters_are_queued_again_or_dropped() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "mended");
    let broken = queue.serve().function("other", |_| Ok(())).attempts(1).start().unwrap();
    for payload in ["a", "b"] {
        let _ = queue.queue("f", payload).unwrap();
    }
    queue.flush().unwrap();
    broken.close();
    let mut letters = queue.dead_letters(10).unwrap();
    // The two ran at the same time, and either may have died first.
    letters.sort_by(|a, b| a.payload().cmp(b.payload()));
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[0].error(), "this machine has no function 'f'");
    assert!(queue.dead_letters(1).unwrap().len() == 1);
    let (note, seen) = runs();
    let _mended = queue
        .serve()
        .function("f", move |item| {
            note.text(format!("{} {}", text(item), item.attempt()));
            Ok(())
        })
        .start()
        .unwrap();
    let [a, b] = <[_; 2]>::try_from(letters).unwrap();
    let id = a.id().to_owned();
    a.queue_again().unwrap();
    b.remove().unwrap();
    queue.flush().unwrap();
    assert_eq!(seen.next(), "a 1");
    assert!(!id.is_empty());
    eventually("none is left", || queue.backlog().unwrap().dead == 0);
    assert_eq!(seen.rest(), [""; 0]);
}

/// One whose key runs just then comes behind that, and is not taken for the item that it was.
#[test]
fn a_letter_whose_key_runs_is_queued_behind_that() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "again");
    let broken = queue.serve().function("other", |_| Ok(())).attempts(1).start().unwrap();
    let _ = queue.queue_once("f", "key", "old").unwrap();
    queue.flush().unwrap();
    broken.close();
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    let (note, seen) = runs();
    let (let_go, goes_on) = mpsc::channel::<()>();
    let goes_on = Mutex::new(goes_on);
    let _mended = queue
        .serve()
        .function("f", move |item| {
            note.text(text(item));
            if text(item) == "new" {
                let _ = goes_on.lock().unwrap().recv();
            }
            Ok(())
        })
        .start()
        .unwrap();
    assert!(!queue.queue_once("f", "key", "new").unwrap().was_pending());
    assert_eq!(seen.next(), "new");
    letter.queue_again().unwrap();
    drop(let_go);
    assert_eq!(seen.next(), "old");
}

/// One whose key waits just then comes behind that, too: what was queued with it is not lost.
#[test]
fn a_letter_whose_key_waits_is_queued_behind_that() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "behind");
    let broken = queue.serve().function("other", |_| Ok(())).attempts(1).start().unwrap();
    let _ = queue.queue_once("f", "key", "old").unwrap();
    queue.flush().unwrap();
    broken.close();
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    let id = letter.id().to_owned();
    assert!(!queue.queue_once("f", "key", "new").unwrap().was_pending());
    letter.queue_again().unwrap();
    assert_eq!(queue.backlog().unwrap().dead, 0);
    let (note, seen) = runs();
    let _mended = queue
        .serve()
        .function("f", move |item| {
            note.text(format!("{} {}", text(item), item.id()));
            Ok(())
        })
        .start()
        .unwrap();
    queue.flush().unwrap();
    let ran = seen.rest();
    assert!(ran[0].starts_with("new "), "{ran:?}");
    assert_eq!(ran[1..], [format!("old {id}")]);
}

/// A machine without the function runs nothing: whoever queued the item again is still to have his
/// run.
#[test]
fn a_machine_without_the_function_takes_no_run_away() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "unknown");
    let _ = queue.queue_once("f", "key", "first").unwrap();
    assert!(queue.queue_once("f", "key", "second").unwrap().was_pending());
    let _broken = queue.serve().function("other", |_| Ok(())).attempts(1).start().unwrap();
    queue.flush().unwrap();
    let letters = queue.dead_letters(10).unwrap();
    let payloads: Vec<_> = letters.iter().map(|letter| text_of(letter.payload())).collect();
    assert_eq!(payloads, ["first", "second"]);
}

/// What panics as its text is asked for.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Unspeakable {}

/// What panics as it is dropped.
struct Clinging;

impl Drop for Clinging {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn failures_that_panic_themselves_are_failures() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "unspeakable");
    let serving = queue
        .serve()
        .function("f", |item| match text(item).as_str() {
            "error" => Err(Box::new(Unspeakable)),
            _ => std::panic::panic_any(Clinging),
        })
        .attempts(1)
        .start()
        .unwrap();
    for payload in ["error", "panic"] {
        let _ = queue.queue("f", payload).unwrap();
    }
    eventually("both are given up", || queue.backlog().unwrap().dead == 2);
    let letters = queue.dead_letters(10).unwrap();
    let mut told: Vec<_> =
        letters.iter().map(|letter| (text_of(letter.payload()), letter.error())).collect();
    told.sort_unstable();
    let panicked = |text| format!("it panicked: {text}");
    let expected = [("error", panicked("no words")), ("panic", panicked("no message"))];
    assert_eq!(told, expected.each_ref().map(|(of, error)| ((*of).to_owned(), &**error)));
    assert_eq!((serving.stats().failed, serving.stats().dead), (2, 2));
}

/// A machine that is closed, or cut off, in the moment in which a message comes gives it back. The
/// broker counts that as a delivery; the item has not been tried.
#[test]
fn an_item_that_was_only_given_back_is_run() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "given-back");
    let _ = queue.queue("f", "item").unwrap();
    give_back(&server, "given-back", 3);
    let (note, seen) = runs();
    let serving = queue
        .serve()
        .function("f", move |item| -> Result<(), Failure> {
            note.text(format!("{} {}", text(item), item.attempt()));
            Err("no disk".into())
        })
        .attempts(1)
        .start()
        .unwrap();
    queue.flush().unwrap();
    assert_eq!(seen.rest(), ["item 4"]);
    assert_eq!(serving.stats().dead, 1);
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!((letter.error(), letter.attempts()), ("no disk", 4));
}

/// Who takes an item cannot know whether the machines before died of it.
#[test]
fn an_item_of_which_nothing_is_said_is_given_up() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "silent");
    let _ = queue.queue("f", "item").unwrap();
    give_back(&server, "silent", 5);
    let (note, seen) = runs();
    let (tell, told) = runs();
    let serving = noting(queue.serve(), note).attempts(2);
    let serving = serving.on_failure(move |_, reason, is_given_up| {
        tell.text(format!("{reason}, {is_given_up}"));
    });
    let _serving = serving.start().unwrap();
    queue.flush().unwrap();
    assert_eq!(seen.rest(), [""; 0]);
    let told = told.next();
    assert!(told.contains("gave it back as they closed") && told.ends_with(", true"), "{told}");
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert!(letter.error().contains("died, were cut off"), "{letter:?}");
    // A word of which nothing was heard for 2 s is said again.
    assert!(letter.attempts() >= 6, "{letter:?}");
}

fn text_of(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

/// As a machine that gives its only item back, so many times.
fn give_back(server: &Server, queue: &str, times: usize) {
    let other = Outsider::new(server);
    for _ in 0..times {
        other.say(&other.take(queue), "-NAK");
    }
}
