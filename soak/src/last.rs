//! What a shutdown meets at the end of a soak: items that arm themselves without end, and items
//! that wait for themselves; and what is called once more when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::{DelayedWork, MissedTicks, Periodic, Workqueue};

use crate::watch::{Post, fail};

const SOON: Duration = Duration::from_micros(100);

pub(crate) struct Last {
    queues: Vec<Workqueue>,
    works: Vec<DelayedWork>,
    periodics: Vec<Periodic>,
}

impl Last {
    /// Returns when all of them go on. Where no thread can be had, there are fewer queues.
    pub(crate) fn arm(post: &Post) -> Self {
        let kinds = [
            Workqueue::builder("last managed").managed(),
            Workqueue::builder("last percpu").percpu(),
            Workqueue::builder("last ordered").ordered(),
            Workqueue::builder("last bh").bh(),
        ];
        let queues: Vec<_> = kinds.into_iter().filter_map(|kind| kind.build().ok()).collect();
        let (mut works, mut periodics) = (Vec::new(), Vec::new());
        let mut runs: Vec<Arc<AtomicU32>> = Vec::new();
        for wq in &queues {
            runs.push(Arc::default());
            let run = Arc::clone(&runs[runs.len() - 1]);
            let is_bh = wq.name().ends_with("bh");
            let work = DelayedWork::new_cyclic(|me| {
                let (me, wq) = (me.clone(), wq.clone());
                move || {
                    let Some(me) = me.upgrade() else { return };
                    // None of these waits: it would be for itself.
                    wq.flush();
                    me.flush();
                    me.cancel_sync();
                    // So that the shutdown begins while it runs.
                    if !is_bh {
                        thread::sleep(10 * SOON);
                    }
                    run.fetch_add(1, Ordering::SeqCst);
                    wq.queue_delayed_work(&me, SOON);
                }
            });
            wq.queue_delayed_work(&work, SOON);
            works.push(work);
            for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
                let always_late = Periodic::every(Duration::from_nanos(1)).missed(missed);
                periodics.push(always_late.start(wq, |_| ()));
            }
        }
        post.doing("waiting for items that arm themselves", || {
            while runs.iter().any(|runs| runs.load(Ordering::SeqCst) < 3) {
                thread::sleep(SOON);
            }
        });
        Self { queues, works, periodics }
    }

    /// After the shutdown.
    pub(crate) fn call_once_more(self, post: &Post) {
        let Self { queues, works, periodics } = self;
        for wq in &queues {
            post.doing("flush_async after the shutdown", || wq.flush_async().wait());
            post.doing("drain_async after the shutdown", || wq.drain_async().wait());
            let outcome = post.doing("join after the shutdown", || wq.queue(|| ()).join());
            let delayed =
                post.doing("join after the shutdown", || wq.queue_delayed(|| (), SOON).join());
            if outcome.is_ok() || delayed.is_ok() {
                fail("a closure ran after the shutdown");
            }
            post.doing("close after the shutdown", || wq.clone().close().wait());
        }
        for work in &works {
            post.doing("cancel_sync after the shutdown", || work.cancel_sync());
            if work.is_pending() || !work.busy().is_idle() {
                fail("an item that armed itself is pending after the shutdown");
            }
        }
        for periodic in &periodics {
            if periodic.is_active() {
                fail("a periodic function is active after the shutdown");
            }
            post.doing("stop_sync after the shutdown", || periodic.stop_sync());
        }
        post.doing("drops after the shutdown", || drop((works, periodics, queues)));
    }
}
