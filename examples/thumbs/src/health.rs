//! Whether the database answers: what it last said, or, if that was no answer or long ago, a call.
//!
//! What it says is for whoever runs this, on standard error: clients are told that it does not
//! answer, and not which files and users it has.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;

use crate::service::{Failure, Service};
use crate::store::{Name, Unavailable};

/// An answer that is younger is believed.
const FRESH: Duration = Duration::from_secs(1);
/// One that is older is not, even if nobody can ask now: those who have all the places ask, too,
/// and none of them was answered for longer than any call may take.
const OLD: Duration = Duration::from_secs(10);

/// What the database last said, and when.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Option<(Instant, Result<(), String>)>>);

impl Health {
    /// To be told of each call's answer.
    pub(crate) fn note<T>(&self, answer: &Result<T, Unavailable>) {
        let answer = match answer {
            Ok(_) => Ok(()),
            Err(Unavailable(said)) => Err(said.clone()),
        };
        let now = Some((Instant::now(), answer.clone()));
        let before = {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, now)
        };
        let is_new = before.is_none_or(|(_, before)| before != answer);
        if let (true, Err(said)) = (is_new, answer) {
            // There may be nobody to read it.
            let _ = writeln!(std::io::stderr(), "thumbs: the database does not answer: {said}");
        }
    }

    fn last(&self) -> Option<(Instant, Result<(), String>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `GET /health`
pub(crate) async fn answer(State(service): State<Service>) -> Result<(), Failure> {
    let last = service.health().last();
    if matches!(last, Some((when, Ok(()))) if when.elapsed() < FRESH) {
        return Ok(());
    }
    let Some(place) = service.pool().try_reserve() else {
        let last = last.map(|(when, said)| (when.elapsed(), said.is_ok()));
        return if is_well_without_asking(last) { Ok(()) } else { Err(Failure::Unavailable) };
    };
    // No picture is empty, so there is none of that name.
    let name = Name::of(b"");
    let job = move || service.ask(|store| store.thumbnail(&name)).map(drop);
    place.run(job).await?
}

/// By how long ago it last said something, and whether that was an answer. To have enough to do is
/// no illness.
fn is_well_without_asking(last: Option<(Duration, bool)>) -> bool {
    last.is_none_or(|(ago, is_answer)| is_answer && ago < OLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_all_places_are_taken_an_old_answer_is_not_believed() {
        assert!(is_well_without_asking(None), "it has just begun");
        assert!(is_well_without_asking(Some((OLD / 2, true))));
        assert!(!is_well_without_asking(Some((OLD, true))));
        assert!(!is_well_without_asking(Some((Duration::ZERO, false))));
    }
}
