//! Whether the database answers: what it last said, or, if that was no answer or long ago, a call.
//!
//! What it says is for whoever runs this, on standard error: clients are told that it cannot do
//! that now, and not which files and users it has.
//!
//! That it answers is said of reading: where its disk is full it reads, and stores nothing.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;

use crate::service::{Failure, Service};
use crate::store::{Name, Unavailable};

/// An answer that is younger is believed.
const FRESH: Duration = Duration::from_secs(1);
/// The same failure is not said again for so long: with a full disk each picture is refused, and
/// those that are there are read in between.
const SAID: Duration = Duration::from_secs(60);
/// If all places have been taken for so long, with no call of the database answered and no job
/// ended meanwhile, it is down: the jobs that have begun wait for it.
const LONG: Duration = Duration::from_secs(10);

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// When the database last said something, and whether it was an answer.
    last: Option<(Instant, bool)>,
    /// The failure that was last said, and when.
    said: Option<(Instant, String)>,
    /// When all places were first found taken, since it said something or a job ended.
    full_since: Option<Instant>,
}

impl Health {
    /// To be told of each call's answer.
    pub(crate) fn note<T>(&self, answer: &Result<T, Unavailable>) {
        let mut known = self.known();
        known.last = Some((Instant::now(), answer.is_ok()));
        known.full_since = None;
        let Err(Unavailable(said)) = answer else { return };
        let is_new = known.is_to_be_said(said);
        drop(known);
        if is_new {
            // There may be nobody to read it.
            let _ = writeln!(std::io::stderr(), "thumbs: the database: {said}");
        }
    }

    /// To be told when a job ends that has not asked the database, as those of pictures that cannot
    /// be decoded do not. A free place says nothing: clients who give up leave theirs, too.
    pub(crate) fn job_ended(&self) {
        self.known().full_since = None;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has just said something.
    fn is_fresh(&self) -> bool {
        matches!(self.known().last, Some((when, true)) if when.elapsed() < FRESH)
    }

    /// Where all places are taken, so that nobody can ask. To have enough to do is no illness.
    fn is_well_without_asking(&self) -> bool {
        let mut known = self.known();
        let full_for = known.full_since.get_or_insert_with(Instant::now).elapsed();
        let said = known.last.map(|(_, is_answer)| is_answer);
        is_well(said, full_for)
    }
}

impl Known {
    /// Whether this failure is news, which it is not any more then.
    fn is_to_be_said(&mut self, failure: &str) -> bool {
        let is_known = |(when, said): &(Instant, String)| said == failure && when.elapsed() < SAID;
        let is_new = !self.said.as_ref().is_some_and(is_known);
        if is_new {
            self.said = Some((Instant::now(), failure.to_owned()));
        }
        is_new
    }
}

/// `GET /health`
pub(crate) async fn answer(State(service): State<Service>) -> Result<(), Failure> {
    if service.health().is_fresh() {
        return Ok(());
    }
    let Some(place) = service.pool().try_reserve() else {
        let is_well = service.health().is_well_without_asking();
        return if is_well { Ok(()) } else { Err(Failure::Unavailable) };
    };
    // No picture is empty, so there is none of that name.
    let name = Name::of(b"");
    let job = move || service.ask(|store| store.thumbnail(&name)).map(drop);
    place.run(job).await?
}

/// By whether what it last said was an answer, and how long all places have been taken since.
fn is_well(said: Option<bool>, full_for: Duration) -> bool {
    said != Some(false) && full_for < LONG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_too_much_to_do_is_well_until_that_lasts() {
        for said in [None, Some(true)] {
            assert!(is_well(said, LONG / 2));
            assert!(!is_well(said, LONG), "somebody would have been answered");
        }
        assert!(!is_well(Some(false), Duration::ZERO));
    }

    #[test]
    fn a_failure_is_said_once_in_a_while_whatever_comes_between() {
        let health = Health::default();
        let says = |failure| {
            let says = health.known().is_to_be_said(failure);
            health.note(&Ok(()));
            says
        };
        assert!(says("the disk is full"));
        assert!(!says("the disk is full"));
        assert!(says("it is gone"));
        assert!(says("the disk is full"), "what was said last is another one");
        let long_ago = Instant::now().checked_sub(SAID).expect("the machine runs for a minute");
        health.known().said.as_mut().unwrap().0 = long_ago;
        assert!(says("the disk is full"));
    }

    #[test]
    fn a_quiet_time_before_is_none_of_its_fault() {
        let health = Health::default();
        let long_ago = Instant::now().checked_sub(LONG * 2).expect("the machine runs for a minute");
        health.known().last = Some((long_ago, true));
        assert!(health.is_well_without_asking(), "it has just been found full");
        health.known().full_since = Some(long_ago);
        assert!(!health.is_well_without_asking());
        health.job_ended();
        assert!(health.is_well_without_asking(), "some job has ended meanwhile");
        health.known().full_since = Some(long_ago);
        health.note(&Ok(()));
        assert!(health.is_well_without_asking(), "somebody was answered meanwhile");
    }
}
