//! One world in an arena, and how to get to a state and back.

use cmwq_core::Rule;

use crate::arena::{Arena, Snapshot, caught};
use crate::checks;
use crate::event::{Event, Fairness, What};
use crate::scope::Scope;
use crate::value::{Value, fingerprint, pools_of};
use crate::world::{Progress, World};

/// What an event led to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    pub(crate) event: Event,
    pub(crate) is_fair: bool,
    pub(crate) hash: u64,
    /// Everything is done there.
    pub(crate) is_done: bool,
}

/// What a state leads to.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    pub(crate) successors: Vec<Successor>,
    /// An event breaks something.
    pub(crate) violation: Option<(Event, String)>,
}

/// See the module header.
pub(crate) struct Stand<'s> {
    scope: &'s Scope,
    without: Option<Rule>,
    arena: Arena,
    /// In the arena.
    world: *mut World<'s>,
    base: Snapshot,
    value: Value,
    events: Vec<(Event, Fairness)>,
    is_stuck: Vec<bool>,
}

impl<'s> Stand<'s> {
    pub(crate) fn new(scope: &'s Scope, without: Option<Rule>) -> Self {
        let (arena, base, value) = (Arena::new(), Snapshot::default(), Value::default());
        let (world, events) = (std::ptr::null_mut(), Vec::new());
        let mut stand =
            Self { scope, without, arena, world, base, value, events, is_stuck: Vec::new() };
        stand.begin();
        stand
    }

    /// The first state.
    pub(crate) fn begin(&mut self) {
        let (scope, without) = (self.scope, self.without);
        // SAFETY: the only pointer into the arena is `world`, which is replaced.
        unsafe { self.arena.reset() };
        self.world = self.arena.enter(|| Box::into_raw(Box::new(World::new(scope, without))));
    }

    pub(crate) fn world(&self) -> &World<'s> {
        // SAFETY: in the arena, since `begin`; a restored snapshot has it at the same place.
        unsafe { &*self.world }
    }

    /// Applies an event. An error is what was broken.
    pub(crate) fn apply(&mut self, event: Event) -> Result<Progress, String> {
        let world = self.world;
        let applied = self.arena.enter(|| {
            // SAFETY: as in `world`; nobody else has a reference.
            caught(|| unsafe { (*world).apply(event) })
        });
        applied.map_err(|payload| {
            let text = message(&*payload);
            // It is in the arena, which will be reset.
            std::mem::forget(payload);
            text
        })
    }

    /// Checks the state, and reads its fingerprint.
    pub(crate) fn read(&mut self) -> Result<u64, String> {
        let world = self.world;
        // SAFETY: as in `world`.
        let world = unsafe { &*world };
        let value = &mut self.value;
        caught(|| {
            let pools = pools_of(world);
            checks::check(world, &pools);
            fingerprint(value.read(world, &pools))
        })
        .map_err(|payload| message(&*payload))
    }

    /// Goes to where `history` leads.
    pub(crate) fn replay(&mut self, history: &[Event]) -> Result<(), String> {
        self.begin();
        for &event in history {
            let progress = self.apply(event)?;
            assert_eq!(progress, Progress::Moved, "{event:?} cannot be repeated");
        }
        Ok(())
    }

    /// Everything that may happen where `history` leads.
    pub(crate) fn expand(&mut self, history: &[Event], out: &mut Expansion) {
        out.successors.clear();
        out.violation = None;
        if let Err(broken) = self.replay(history) {
            unreachable!("a history that was fine is not: {broken}");
        }
        self.arena.save(&mut self.base);
        let nr_threads = self.world().threads.len();
        self.is_stuck.clear();
        self.is_stuck.resize(nr_threads, false);
        for tid in 0..nr_threads {
            if !self.world().rests(tid) {
                let step = Event::new(What::Step, tid);
                self.is_stuck[tid] = !self.attempt(step, Fairness::Fair, out);
            }
        }
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        self.world().others(&self.is_stuck, &mut events);
        for &(event, fairness) in &events {
            self.attempt(event, fairness, out);
        }
        self.events = events;
    }

    /// Tries one event and goes back. `false`: it is not possible.
    fn attempt(&mut self, event: Event, fairness: Fairness, out: &mut Expansion) -> bool {
        let led = self.apply(event).and_then(|progress| match progress {
            Progress::Blocked => Ok(None),
            Progress::Moved => self.read().map(Some),
        });
        let is_possible = !matches!(led, Ok(None));
        match led {
            Ok(None) => {}
            Ok(Some(hash)) => {
                let (is_fair, is_done) = (fairness == Fairness::Fair, self.world().is_done());
                out.successors.push(Successor { event, is_fair, hash, is_done });
            }
            Err(broken) if out.violation.is_none() => out.violation = Some((event, broken)),
            Err(_) => {}
        }
        // SAFETY: saved at the beginning of `expand`; the only pointer into the arena is `world`,
        // which is older.
        unsafe { self.arena.restore(&self.base) };
        is_possible
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("something panicked").to_owned()
}
