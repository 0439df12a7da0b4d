//! Whether the database answers: what it last said, or, if that was no answer or long ago, a call.
//!
//! What it says is for whoever runs this, on standard error: clients are told that it does not
//! answer, and not which files and users it has.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;

use crate::service::{Failure, Service};
use crate::store::{Name, Unavailable};

/// An answer that is younger is believed.
const FRESH: Duration = Duration::from_secs(1);
/// If all places have been taken for so long, with no call of the database answered and no job
/// ended meanwhile, it is down: the jobs that have begun wait for it.
const LONG: Duration = Duration::from_secs(10);

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What the database last said, and when.
    last: Option<(Instant, Result<(), String>)>,
    /// When all places were first found taken, since it said something or a job ended.
    full_since: Option<Instant>,
}

impl Health {
    /// To be told of each call's answer.
    pub(crate) fn note<T>(&self, answer: &Result<T, Unavailable>) {
        let answer = match answer {
            Ok(_) => Ok(()),
            Err(Unavailable(said)) => Err(said.clone()),
        };
        let now = Some((Instant::now(), answer.clone()));
        let before = std::mem::replace(&mut *self.known(), Known { last: now, full_since: None });
        let is_new = before.last.is_none_or(|(_, before)| before != answer);
        if let (true, Err(said)) = (is_new, answer) {
            // There may be nobody to read it.
            let _ = writeln!(std::io::stderr(), "thumbs: the database does not answer: {said}");
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
        matches!(self.known().last, Some((when, Ok(()))) if when.elapsed() < FRESH)
    }

    /// Where all places are taken, so that nobody can ask. To have enough to do is no illness.
    fn is_well_without_asking(&self) -> bool {
        let mut known = self.known();
        let full_for = known.full_since.get_or_insert_with(Instant::now).elapsed();
        let said = known.last.as_ref().map(|(_, said)| said.is_ok());
        is_well(said, full_for)
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
    fn a_quiet_time_before_is_none_of_its_fault() {
        let health = Health::default();
        let long_ago = Instant::now().checked_sub(LONG * 2).expect("the machine runs for a minute");
        health.known().last = Some((long_ago, Ok(())));
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
