//! Tokens: none is lost, and what the waker did before is visible to who takes one.

use loom::sync::Arc;
use loom::thread;

use super::{News, check, check_three};
use crate::os::park::{CHECK, Parker, WAKE};

struct Shared {
    parker: Parker,
    news: News,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { parker: Parker::new(), news: News::new() })
}

fn waker(s: &Arc<Shared>, token: u32) -> thread::JoinHandle<()> {
    let s = Arc::clone(s);
    thread::spawn(move || {
        s.news.write();
        s.parker.unpark(token);
    })
}

/// Loom reports an owner that sleeps for ever.
#[test]
fn a_token_wakes_the_owner() {
    check(|| {
        let s = shared();
        let waker = waker(&s, WAKE);
        assert_eq!(s.parker.park(None), WAKE);
        assert_eq!(s.news.read(), 1);
        waker.join().unwrap();
        assert_eq!(s.parker.take(), 0, "a token was there twice");
    });
}

#[test]
fn the_tokens_of_two_wakers_arrive() {
    check_three(|| {
        let s = shared();
        let wakers = [waker(&s, WAKE), waker(&s, CHECK)];
        let mut tokens = 0;
        while tokens != WAKE | CHECK {
            let more = s.parker.park(None);
            assert_ne!(more, 0, "woken for no reason, without an end to wait for");
            assert_eq!(tokens & more, 0, "a token was there twice");
            tokens |= more;
        }
        assert_eq!(s.news.read(), 2);
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

/// The second of two equal tokens wakes nobody if the first is still there, but its waker's news
/// are seen.
#[test]
fn equal_tokens_are_one_and_bring_both_news() {
    check_three(|| {
        let s = shared();
        let wakers = [waker(&s, WAKE), waker(&s, WAKE)];
        while s.news.read() < 2 {
            assert_eq!(s.parker.park(None), WAKE);
        }
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

/// A token comes while the time is up: it is taken now or is there the next time.
#[test]
fn a_token_is_not_lost_when_the_time_is_up() {
    check(|| {
        let s = shared();
        let waker = waker(&s, WAKE);
        let first = s.parker.park(Some(std::time::Duration::from_millis(1)));
        if first == 0 {
            assert_eq!(s.parker.park(None), WAKE);
        }
        assert_eq!(s.news.read(), 1);
        waker.join().unwrap();
    });
}
