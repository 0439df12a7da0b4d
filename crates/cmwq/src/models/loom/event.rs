//! What happens once: all who wait go on, and see what was done before.

use loom::sync::Arc;
use loom::thread;

use super::{News, check, check_three};
use crate::os::park::Event;

struct Shared {
    event: Event,
    news: News,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { event: Event::new(), news: News::new() })
}

fn setter(s: &Arc<Shared>) -> thread::JoinHandle<()> {
    let s = Arc::clone(s);
    thread::spawn(move || {
        s.news.write();
        s.event.set();
    })
}

#[test]
fn who_waits_goes_on_and_sees() {
    check(|| {
        let s = shared();
        let setter = setter(&s);
        assert!(s.event.wait(None));
        assert_eq!(s.news.read(), 1);
        setter.join().unwrap();
    });
}

#[test]
fn both_who_wait_go_on() {
    check_three(|| {
        let s = shared();
        let setter = setter(&s);
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                assert!(s.event.wait(None));
                assert_eq!(s.news.read(), 1);
            })
        };
        assert!(s.event.wait(None));
        assert_eq!(s.news.read(), 1);
        other.join().unwrap();
        setter.join().unwrap();
    });
}

#[test]
fn who_looks_sees() {
    check(|| {
        let s = shared();
        let setter = setter(&s);
        if s.event.is_set() {
            assert_eq!(s.news.read(), 1);
        }
        setter.join().unwrap();
        assert!(s.event.is_set());
    });
}

/// A waiter marks the word, perhaps after the event: who looks afterwards still sees what was done
/// before it.
#[test]
fn a_waiter_does_not_hide_the_news_from_others() {
    check_three(|| {
        let s = shared();
        let setter = setter(&s);
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.event.wait(None))
        };
        if s.event.is_set() {
            assert_eq!(s.news.read(), 1);
        }
        assert!(other.join().unwrap());
        setter.join().unwrap();
    });
}

#[test]
fn a_wait_with_an_end_tells_whether_it_happened() {
    check(|| {
        let s = shared();
        let setter = setter(&s);
        if s.event.wait(Some(std::time::Duration::from_millis(1))) {
            assert_eq!(s.news.read(), 1);
        }
        setter.join().unwrap();
        assert!(s.event.wait(None));
    });
}

/// Who set it first may wake sleepers only when it is used again.
#[test]
fn it_can_be_used_again() {
    check_three(|| {
        let s = shared();
        let first = setter(&s);
        assert!(s.event.wait(None));
        assert_eq!(s.news.read(), 1);
        s.event.renew();
        let second = setter(&s);
        assert!(s.event.wait(None));
        assert_eq!(s.news.read(), 2);
        first.join().unwrap();
        second.join().unwrap();
    });
}
