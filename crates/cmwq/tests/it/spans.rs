//! Feature `tracing`: items as events and spans of the `tracing` crate.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cmwq::Workqueue;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::support::joined;
use crate::support::scene::{Scene, Stage};

pub(crate) const SCENES: &[Scene] = &[("spans::items", items)];

#[test]
fn each_item_is_an_event_and_a_span() {
    Stage::new("spans::items").play();
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
        metadata.target() == "cmwq"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        note(span.metadata().name(), |fields| span.record(fields));
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        note("event", |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {
        note("enter", |_| ());
    }

    fn exit(&self, _: &Id) {
        note("exit", |_| ());
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
