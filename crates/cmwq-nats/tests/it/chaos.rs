//! Machines that die.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Log, Machines, broker_or_skip, eventually};

/// Three machines under load, one of them killed every second: nothing is lost, and what was run
/// twice is counted.
#[test]
fn killed_machines_lose_nothing() {
    const KILLS: usize = 6;
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("killed");
    let queue = queue.max_active(24).dead_after(Duration::from_secs(1)).open().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let log = Log::new(directory.path());
    let mut machines = Machines::start(&server, "killed", &log, 3);
    let (mut queued, mut kills) = (0, 0);
    let begun = Instant::now();
    eventually("machines have begun", || {
        !log.counts().is_empty() || {
            let _ = queue.queue("work", format!("{queued}")).unwrap();
            queued += 1;
            false
        }
    });
    let mut last = begun;
    while kills < KILLS {
        let _ = queue.queue("work", format!("{queued}")).unwrap();
        queued += 1;
        if last.elapsed() >= Duration::from_secs(1) {
            machines.replace(kills % 3);
            (kills, last) = (kills + 1, Instant::now());
        }
    }
    queue.flush().unwrap();
    let counts = log.counts();
    let ended = counts.values().filter(|(_, ends)| *ends > 0).count();
    assert_eq!(ended, queued, "some never ended");
    let (begins, ends) = counts.values().fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    eprintln!(
        "{queued} items in {:.1} s, {kills} machines killed: begun {} times too often, \
         done {} times too often",
        begun.elapsed().as_secs_f64(),
        begins - queued as u32,
        ends - queued as u32
    );
    assert_eq!(queue.backlog().unwrap().dead, 0);
}

/// An item that takes its process with it is given up after some machines, three more than it has
/// attempts at most, and others are not held up.
#[test]
fn a_poisoned_item_becomes_a_dead_letter() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("poisoned").ordered().dead_after(Duration::from_millis(300));
    let queue = queue.open().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let log = Log::new(directory.path());
    let mut machines = Machines::start(&server, "poisoned", &log, 2);
    let _ = queue.queue("work", "before").unwrap();
    let poison = queue.queue("poison", "poison").unwrap();
    let last = queue.queue("work", "after").unwrap();
    let mut died = 0;
    eventually("the poison is given up", || {
        died += machines.replace_the_dead();
        queue.backlog().unwrap().dead == 1
    });
    poison.flush().unwrap();
    last.flush().unwrap();
    let counts = log.counts();
    // One that was on its way to a machine that had just died counts, and was not begun.
    let (begins, ends) = counts["poison"];
    assert!((1..=6).contains(&begins) && ends == 0, "{begins} {ends}");
    assert!(counts["before"].1 >= 1 && counts["after"].1 >= 1);
    assert!(died >= 1, "{died}");
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!((letter.function(), letter.payload()), ("poison", &b"poison"[..]));
    assert!(letter.error().contains("died"), "{letter:?}");
}

/// A run that takes much longer than the silence after which a machine is taken for dead is not
/// given to another machine.
#[test]
fn a_long_run_is_not_taken_for_a_death() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("long").dead_after(Duration::from_secs(1)).open().unwrap();
    let other = server.connect();
    let machines = [&broker, &other].map(|broker| {
        let queue = broker.queue("long").open().unwrap();
        let server = queue.serve().function("f", |_| {
            thread::sleep(Duration::from_millis(2500));
            Ok(())
        });
        server.start().unwrap()
    });
    let taken = || machines.iter().map(|machine| machine.stats().taken).sum::<u64>();
    // If the whole process stands still for a second, it is rightly taken for dead.
    let is_left_alone = |_| {
        let before = taken();
        let _ = queue.queue("f", "").unwrap();
        queue.flush().unwrap();
        taken() == before + 1
    };
    assert!((0..4).any(is_left_alone), "in each of 4 rounds");
}

/// Machines that had nothing to do when another program made `dead_after` shorter know it by the
/// time at which they would be taken for dead.
#[test]
fn idle_machines_follow_a_dead_after_that_becomes_shorter() {
    let server = broker_or_skip!();
    let (broker, other) = (server.connect(), server.connect());
    // As above: a process that stands still for a second is rightly taken for dead.
    let is_left_alone = |round| {
        let name = format!("shorter-{round}");
        let machines = [&broker, &other].map(|broker| {
            let queue = broker.queue(&name).open().unwrap();
            let server = queue.serve().function("f", |_| {
                thread::sleep(Duration::from_millis(2500));
                Ok(())
            });
            server.start().unwrap()
        });
        let queue = broker.queue(&name).dead_after(Duration::from_secs(1)).open().unwrap();
        let _ = queue.queue("f", "").unwrap();
        queue.flush().unwrap();
        machines.iter().map(|machine| machine.stats().taken).sum::<u64>() == 1
    };
    assert!((0..4).any(is_left_alone), "in each of 4 rounds");
}
