//! Feature `tracing`: the span goes along.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cmwq_tokio::spawn_blocking;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Span, Subscriber};
use tracing_core::span::Current;

use crate::support::{Gate, block_on, occupy, on_each_runtime, one_thread, ordered, within};

std::thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

/// Knows which span is current, by threads.
#[derive(Default)]
struct Spans {
    next: AtomicU64,
    metadata: Mutex<BTreeMap<u64, &'static Metadata<'static>>>,
    /// It does not expect spans to end.
    panics_as_they_end: bool,
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.metadata.lock().unwrap().insert(id, span.metadata());
        Id::from_u64(id)
    }

    fn current_span(&self) -> Current {
        let Some(id) = ENTERED.with_borrow(|all| all.last().cloned()) else {
            return Current::none();
        };
        let metadata = self.metadata.lock().unwrap()[&id.into_u64()];
        Current::new(id, metadata)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|all| all.push(id.clone()));
    }

    fn exit(&self, _: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }

    fn try_close(&self, _: Id) -> bool {
        assert!(!self.panics_as_they_end, "a span ends");
        false
    }
}

fn current() -> Option<&'static str> {
    Span::current().metadata().map(Metadata::name)
}

#[test]
fn the_callers_span_is_entered_inside() {
    tracing::subscriber::set_global_default(Spans::default()).unwrap();
    // None, unless cmwq has its own feature `tracing`.
    let outside = cmwq::Workqueue::new("outside").unwrap().queue(current).join().unwrap();
    on_each_runtime(|| async {
        let handle = tracing::info_span!("request").in_scope(|| spawn_blocking(current));
        assert_eq!(handle.await.unwrap(), Some("request"));
        assert_eq!(spawn_blocking(current).await.unwrap(), outside, "the worker has left it");
        let panicking =
            tracing::info_span!("request").in_scope(|| spawn_blocking(|| panic!("expected")));
        assert!(panicking.await.unwrap_err().is_panic());
        assert_eq!(spawn_blocking(current).await.unwrap(), outside, "also after a panic");
    });
}

/// The span is the closure's reference to it; the test's own never ends.
#[test]
fn a_subscriber_that_panics_as_a_span_ends_takes_no_value_away() {
    let spans = Spans { panics_as_they_end: true, ..Spans::default() };
    tracing::subscriber::with_default(spans, || {
        let span = std::mem::ManuallyDrop::new(tracing::info_span!("request"));
        block_on(&one_thread(), async {
            let handle = span.in_scope(|| spawn_blocking(|| 7));
            assert_eq!(within(handle).await.unwrap(), 7);
            let queue = ordered("spans");
            let gate = Gate::default();
            let first = occupy(&queue, &gate).await;
            let second = span.in_scope(|| queue.spawn_blocking(|| 7));
            second.abort();
            assert!(within(second).await.unwrap_err().is_cancelled());
            gate.open();
            first.await.unwrap();
        });
    });
}
