//! Whoever is last sees what all did.

use loom::sync::Arc;
use loom::thread;

use super::{Owned, check, check_three};
use crate::os::countdown::Countdown;

struct Shared {
    countdown: Countdown,
    things: [Owned; 2],
}

impl Shared {
    fn done(&self) -> bool {
        let last = self.countdown.done();
        if last {
            self.things.iter().for_each(Owned::touch);
        }
        last
    }
}

#[test]
fn the_last_one_sees_what_the_others_did() {
    check_three(|| {
        let s =
            Arc::new(Shared { countdown: Countdown::new(), things: [Owned::new(), Owned::new()] });
        let others = [0, 1].map(|n| {
            s.countdown.add();
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.things[n].touch();
                s.done()
            })
        });
        let mut lasts = u32::from(s.done());
        for other in others {
            lasts += u32::from(other.join().unwrap());
        }
        assert_eq!(lasts, 1);
    });
}

/// One is added while another is done.
#[test]
fn adding_does_not_hide_what_was_done() {
    check(|| {
        let s =
            Arc::new(Shared { countdown: Countdown::new(), things: [Owned::new(), Owned::new()] });
        s.countdown.add();
        let early = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.things[0].touch();
                s.done()
            })
        };
        s.countdown.add();
        s.things[1].touch();
        let mut lasts = u32::from(s.done()) + u32::from(s.done());
        lasts += u32::from(early.join().unwrap());
        assert_eq!(lasts, 1);
    });
}

/// Two threads of a forked child come first at once, and each adds a thing.
#[test]
fn what_is_added_in_a_child_is_not_forgotten() {
    check_three(|| {
        let countdown = Arc::new(Countdown::new());
        countdown.add();
        let begin = |countdown: &Countdown| {
            let has_lost = countdown.begin_in(1);
            countdown.add();
            u32::from(has_lost)
        };
        let other = {
            let countdown = Arc::clone(&countdown);
            thread::spawn(move || begin(&countdown))
        };
        let lost = begin(&countdown) + other.join().unwrap();
        assert_eq!((lost, countdown.left()), (1, 3));
    });
}
