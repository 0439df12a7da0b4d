//! Items that are nearly as large as the broker takes, and those that are just as large.

use std::time::Duration;

use cmwq_nats::{ErrorKind, Item, Server as Machine, Serving, SharedQueue};

use crate::support::{Gate, Note, Runs, Server, broker_or_skip, eventually, holding, queue, runs};

/// What `nats-server` takes unless it is told otherwise.
const TAKEN: usize = 1 << 20;

fn bytes(many: usize) -> Vec<u8> {
    vec![b'x'; many]
}

/// Queues items that are so many bytes smaller than what the broker takes. How many it took.
fn queue_all(
    spares: impl Iterator<Item = usize>,
    queue: impl Fn(Vec<u8>) -> Result<cmwq_nats::Ticket, cmwq_nats::Error>,
) -> u64 {
    let take = |spare| match queue(bytes(TAKEN - spare)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{spare}: {error}");
            false
        }
    };
    spares.filter(|spare| take(*spare)).count().try_into().unwrap()
}

/// A machine on which everything fails, for a long reason.
fn failing(queue: &SharedQueue) -> Serving {
    let machine = queue.serve().function("f", |_| Err("ä".repeat(2000).into()));
    machine.attempts(1).retry_after(Duration::from_millis(1)).start().unwrap()
}

/// A machine whose function `f` notes how large its items are.
fn measuring(machine: Machine, note: Note) -> Serving {
    let size = move |item: &Item| {
        note.text(item.payload().len().to_string());
        Ok(())
    };
    machine.function("f", size).start().unwrap()
}

fn next_size(seen: &Runs) -> usize {
    seen.next().parse().unwrap()
}

/// Waits until all have failed for the last time, however that ended.
fn all_failed(serving: &Serving, many: u64) {
    let stats = || serving.stats();
    eventually("all are given up, or fail again", || stats().dead == many || stats().failed > many);
    assert_eq!(stats().dead, many, "{:?}", stats());
}

#[test]
fn whatever_is_taken_can_be_given_up() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "given-up");
    let taken = queue_all((0..2200).step_by(200), |payload| queue.queue("f", payload));
    assert!(taken >= 8, "{taken}");
    let serving = failing(&queue);
    all_failed(&serving, taken);
    for letter in queue.dead_letters(100).unwrap() {
        assert!(letter.error().starts_with('ä') && !letter.id().is_empty(), "{letter:?}");
        assert_eq!(letter.attempts(), 1);
    }
}

/// What is said of the limit is so: by one byte.
#[test]
fn the_largest_item_runs_fails_and_runs_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "largest");
    let refused = queue.queue("f", bytes(TAKEN)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    let said = refused.to_string();
    let (_, most) = said.split_once("at most ").unwrap_or_else(|| panic!("{said}"));
    let most: usize = most.split(' ').next().unwrap().parse().unwrap();
    // Some 300, by the length of the names, and of the process's number.
    assert!(TAKEN - most < 320, "{said}");
    let refused = queue.queue_delayed("f", bytes(most + 1), Duration::from_millis(1));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    let _ = queue.queue_delayed("f", bytes(most), Duration::from_millis(1)).unwrap();
    let serving = failing(&queue);
    all_failed(&serving, 1);
    serving.close();
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    letter.queue_again().unwrap();
    let (note, seen) = runs();
    let _mended = measuring(queue.serve(), note);
    assert_eq!(next_size(&seen), most);
}

/// They are stored in another place first, with less said of them.
#[test]
fn whatever_is_taken_for_later_runs() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "moved");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let _ = queue.queue_once("f", "key", "small").unwrap();
    assert_eq!(seen.next(), "small");
    // Queued again while it runs: once, or refused and then once.
    let again = queue_all([70, 300].into_iter(), |payload| queue.queue_once("f", "key", payload));
    let delay = Duration::from_millis(1);
    let later =
        queue_all((60..400).step_by(10), |payload| queue.queue_delayed("f", payload, delay));
    assert!(later >= 10, "{later}");
    gate.open();
    for _ in 0..again + later {
        assert!(seen.next().len() > TAKEN - 400);
    }
}

/// As any program queues an item: without a header, so it may be as large as the broker takes.
fn publish(server: &Server, subject: &'static str, payload: Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(server.address()).await.unwrap();
        let answer = client.request(subject, payload.into()).await.unwrap();
        assert!(String::from_utf8_lossy(&answer.payload).contains("seq"), "{answer:?}");
    });
}

#[test]
fn an_item_that_leaves_no_room_for_a_word_is_given_up_and_runs_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "foreign");
    publish(&server, "cmwq.run.foreign.f.u-now", bytes(TAKEN));
    publish(&server, "cmwq.later.foreign.f.u-later", bytes(TAKEN));
    let serving = failing(&queue);
    all_failed(&serving, 2);
    serving.close();
    let letters = queue.dead_letters(10).unwrap();
    let told: Vec<_> = letters.iter().map(|l| (l.payload().len(), l.id(), l.error())).collect();
    assert_eq!(told, [(TAKEN, "", ""); 2]);
    for letter in letters {
        letter.queue_again().unwrap();
    }
    let (note, seen) = runs();
    let _mended = measuring(queue.serve(), note);
    assert_eq!([next_size(&seen), next_size(&seen)], [TAKEN; 2]);
}
