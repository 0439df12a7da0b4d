//! Whether the database answers: what it last said, or, if that was no answer or long ago, a call.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;

use crate::service::{Failure, Service};
use crate::store::{Name, Unavailable};

/// An answer that is younger is believed.
const FRESH: Duration = Duration::from_secs(1);

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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), answer));
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
        // There is enough to do, which is no illness.
        let last = last.map_or(Ok(()), |(_, said)| said);
        return last.map_err(|said| Failure::Unavailable(Unavailable(said)));
    };
    // No picture is empty, so there is none of that name.
    let name = Name::of(b"");
    let job = move || service.ask(|store| store.thumbnail(&name)).map(drop);
    place.run(job).await?
}
