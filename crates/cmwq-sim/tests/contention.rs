//! Locks under load: the queue in front of them, and what is known of any such queue.

use cmwq_sim::Scope;
use cmwq_sim::event::{Event, Queueing, Runner, Site, What};
use cmwq_sim::studies::contention::{Contention, Holds, Load, hottest};

const HOLDS: Holds = Holds { hold: 100, transfer: 50 };

/// By hand: queued from outside twice at once, a worker that starts one, finishes it and goes on.
#[test]
fn holds_are_lined_up() {
    let what = |ticket| Queueing { item: 0, ticket, queue: 0 };
    let (site, runner) = (Site { pool: 3, group: 0 }, Runner { worker: 1, cpu: 0 });
    let events = [
        (0, What::Queued(what(1), site)),
        (0, What::Queued(what(2), site)),
        (400, What::Started(what(1), site, runner)),
        (500, What::Finished(what(1), runner)),
        (500, What::Started(what(2), site, runner)),
        (1_000, What::Finished(what(2), runner)),
    ];
    let events = events.map(|(t, what)| Event { t, what });
    // From 0 to 150, 150 to 300, 400 to 550, 550 to 650 (the worker's own again), 1,000 to 1,100.
    let found = hottest(&events, HOLDS);
    let mean_wait = (150.0 + 50.0) / 5.0;
    let expected = Contention {
        holds_per_item: 2.5,
        share: 1.0,
        utilisation: 0.65,
        mean_wait,
        p99_wait: 150.0,
    };
    assert!((found.mean_wait - mean_wait).abs() < 1e-9, "{found:?}");
    assert_eq!(found, expected);
}

fn load(cpus: u32, scope: Scope, one_producer: bool) -> Load {
    Load { cpus, scope, one_producer, burn: 20_000, load: 70, items: 4_000, seed: 7 }
}

/// A lock for all is wanted in proportion to the CPUs; one for each is not, unless one CPU queues
/// everything.
#[test]
fn one_lock_is_wanted_by_all_and_many_are_not() {
    let run = |cpus, scope, one| load(cpus, scope, one).run(HOLDS);
    let (few, many) = (run(4, Scope::System, false), run(32, Scope::System, false));
    assert!(many.utilisation > 6.0 * few.utilisation, "{few:?} {many:?}");
    assert!(many.mean_wait > few.mean_wait, "{few:?} {many:?}");
    let (few, many) = (run(4, Scope::Cpu, false), run(32, Scope::Cpu, false));
    assert!(many.utilisation < 3.0 * few.utilisation, "{few:?} {many:?}");
    assert!(many.share < 0.2, "{many:?}");
    let one = run(32, Scope::Cpu, true);
    assert!(one.share > 0.9 && one.utilisation > 10.0 * many.utilisation, "{one:?} {many:?}");
}

/// An item takes the lock to be queued and to be finished, and again if its worker had to be woken.
#[test]
fn an_item_takes_two_to_three_holds() {
    for (scope, one) in [(Scope::Cpu, false), (Scope::Cpu, true), (Scope::System, false)] {
        let found = load(8, scope, one).run(HOLDS);
        assert!((2.0..=3.0).contains(&found.holds_per_item), "{found:?}");
    }
}
