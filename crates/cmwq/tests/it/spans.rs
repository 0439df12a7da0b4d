//! Feature `tracing`: items as events and spans of the `tracing` crate.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cmwq::Workqueue;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_core::span::Current;

use crate::support::joined;
use crate::support::scene::{Scene, Stage};

pub(crate) const SCENES: &[Scene] =
    &[("spans::items", items), ("spans::parents", parents), ("spans::panics", panics)];

#[test]
fn each_item_is_an_event_and_a_span() {
    Stage::new("spans::items").play();
}

static METADATA: Mutex<BTreeMap<u64, &'static Metadata<'static>>> = Mutex::new(BTreeMap::new());

std::thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

fn current() -> Option<Id> {
    ENTERED.with_borrow(|all| all.last().cloned())
}

fn name_of(id: &Id) -> &'static str {
    METADATA.lock().unwrap()[&id.into_u64()].name()
}

static SEEN: Mutex<Vec<(String, HashMap<String, String>)>> = Mutex::new(Vec::new());

/// Notes what it is told.
struct Notes(AtomicU64);

struct Fields(HashMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

fn note(what: impl Into<String>, record: impl FnOnce(&mut Fields)) {
    let mut fields = Fields(HashMap::new());
    record(&mut fields);
    SEEN.lock().unwrap().push((what.into(), fields.0));
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        matches!(metadata.target(), "cmwq" | "ours")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed) + 1);
        METADATA.lock().unwrap().insert(id.into_u64(), span.metadata());
        note(span.metadata().name(), |fields| {
            span.record(fields);
            let parent = if span.is_contextual() { current() } else { span.parent().cloned() };
            let parent = parent.map_or_else(String::new, |id| name_of(&id).to_owned());
            fields.0.insert("parent".to_owned(), parent);
        });
        id
    }

    fn current_span(&self) -> Current {
        let Some(id) = current() else { return Current::none() };
        let metadata = METADATA.lock().unwrap()[&id.into_u64()];
        Current::new(id, metadata)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        note("event", |fields| event.record(fields));
    }

    fn enter(&self, id: &Id) {
        note("enter", |_| ());
        ENTERED.with_borrow_mut(|all| all.push(id.clone()));
    }

    fn exit(&self, _: &Id) {
        note("exit", |_| ());
        ENTERED.with_borrow_mut(Vec::pop);
    }
}

fn items() {
    tracing::subscriber::set_global_default(Notes(AtomicU64::new(0))).unwrap();
    let wq = Workqueue::builder("traced").ordered().build().unwrap();
    for _ in 0..3 {
        joined(wq.queue(|| ()));
    }
    wq.flush();
    drop(wq);
    let seen = SEEN.lock().unwrap();
    let of_queue = |what: &str, key: &str, value: &str| {
        let is_it = |(name, fields): &&(String, HashMap<String, String>)| {
            name == what
                && fields.get(key).is_some_and(|found| found == value)
                && fields.get("queue").is_some_and(|queue| queue == "traced")
        };
        seen.iter().filter(is_it).count()
    };
    assert_eq!(of_queue("event", "message", "queue_work"), 3, "{seen:#?}");
    let spans = seen.iter().filter(|(name, fields)| {
        name == "execute" && fields.get("queue").is_some_and(|queue| queue == "traced")
    });
    let entered = seen.iter().filter(|(name, _)| name == "enter").count();
    let left = seen.iter().filter(|(name, _)| name == "exit").count();
    // The queue's barriers, and its end, are executed as well.
    assert!(spans.count() >= 3, "{seen:#?}");
    assert!(entered >= 3 && left >= 3, "{seen:#?}");
}

#[test]
fn the_span_of_a_closure_is_a_child_of_its_queuers() {
    Stage::new("spans::parents").play();
}

fn parents() {
    tracing::subscriber::set_global_default(Notes(AtomicU64::new(0))).unwrap();
    let (wq, other) =
        ["traced", "other"].map(|name| Workqueue::builder(name).ordered().build().unwrap()).into();
    tracing::info_span!(target: "ours", "request").in_scope(|| {
        joined(wq.queue(|| ()));
        joined(wq.queue_delayed(|| (), Duration::from_micros(1)));
        // Those that never run leave nothing behind.
        drop(wq.queue_delayed(|| (), Duration::from_secs(1_000_000)).abort_on_drop());
        let inner = other.clone();
        joined(joined(wq.queue(move || inner.queue(|| ()))));
    });
    joined(other.queue(|| ()));
    wq.flush();
    other.flush();
    let seen = SEEN.lock().unwrap();
    let parents_of = |queue: &str| {
        let is_it = |(name, fields): &&(String, HashMap<String, String>)| {
            name == "execute" && fields.get("queue").is_some_and(|found| found == queue)
        };
        let found = seen.iter().filter(is_it);
        found.map(|(_, fields)| fields["parent"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(parents_of("traced"), ["request"; 3], "{seen:#?}");
    assert_eq!(parents_of("other"), ["execute", ""], "{seen:#?}");
    let named = |(_, fields): &(String, HashMap<String, String>)| {
        fields.get("function").is_some_and(|name| name.contains("spans::parents"))
    };
    assert!(seen.iter().any(named), "{seen:#?}");
}

#[test]
fn a_subscriber_that_panics_takes_nobody_with_it() {
    Stage::new("spans::panics").play();
}

/// Panics whenever this library asks or tells it something.
struct Panics;

impl Subscriber for Panics {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        assert_ne!(metadata.target(), "cmwq", "enabled");
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("new_span")
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        panic!("event")
    }

    fn enter(&self, _: &Id) {
        panic!("enter")
    }

    fn exit(&self, _: &Id) {
        panic!("exit")
    }
}

/// Also in the service thread, which queues what is delayed, and in a scope, which waits for its
/// items.
fn panics() {
    std::panic::set_hook(Box::new(|_| ()));
    tracing::subscriber::set_global_default(Panics).unwrap();
    let wq = Workqueue::new("told").unwrap();
    for i in 0..3 {
        assert_eq!(joined(wq.queue(move || i)), i);
        assert_eq!(joined(wq.queue_delayed(move || i, Duration::from_micros(1))), i);
        assert_eq!(wq.scope(|scope| scope.queue(|| i).join().unwrap()), i);
    }
}
