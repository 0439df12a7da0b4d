//! What requests do.
//!
//! | request | answer |
//! |---|---|
//! | `POST /pictures`, a JPEG or PNG | 201, `{"name", "picture", "thumbnail"}` |
//! | `GET /pictures/NAME` | the picture as it came |
//! | `GET /pictures/NAME?side=300` | a JPEG of at most 300 pixels a side, made now; at most 4000 |
//! | `GET /pictures/NAME/thumbnail` | the small picture that was stored with it |
//! | `GET /`, `GET /queues` | what the queue does, as a page and as JSON |
//! | `GET /health` | 200 while the database can be read |
//!
//! 429 says that the queue is full, or that enough pictures are on their way, before the body was
//! read; after it, that the queue has filled meanwhile, or that another large picture is being
//! decoded. 503 says that the database does not answer or has no room, 404 that there is no such
//! picture, 400 that it is none, 413 that it is too large, 408 that it did not come in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http_body_util::LengthLimitError;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::body::{self, MAX_BODY_BYTES};
use crate::health::{self, Health};
use crate::limits::Limits;
use crate::picture::{NoPicture, Refused, smaller};
use crate::pool::{Lost, Place, Pool};
use crate::queues;
use crate::store::{Name, Store, Stored, Unavailable};

/// Longest side of a thumbnail, in pixels.
pub(crate) const THUMBNAIL_SIDE: u32 = 160;
/// Longest side that can be asked for.
const MAX_SIDE: u32 = 4000;

/// The service: a pool, a store, and a counter. Clones are the same service.
#[derive(Clone, Debug)]
pub struct Service(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    store: Arc<dyn Store>,
    health: Health,
    refused: AtomicU64,
    /// For pictures on their way. Not the places on the queue: whoever sends slowly keeps nobody
    /// from what is there.
    uploads: Semaphore,
    body_timeout: Duration,
}

impl Service {
    /// A service that works in this pool, keeps its pictures there, and takes bodies within these
    /// limits.
    #[must_use]
    pub fn new(pool: Pool, store: Arc<dyn Store>, limits: &Limits) -> Self {
        let (health, refused) = (Health::default(), AtomicU64::new(0));
        let (uploads, body_timeout) = (Semaphore::new(limits.bodies as usize), limits.body_timeout);
        Self(Arc::new(Inner { pool, store, health, refused, uploads, body_timeout }))
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// How many requests were refused for want of a place.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// What answers requests.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/", get(queues::page))
            .route("/queues", get(queues::json))
            .route("/health", get(health::answer))
            .route("/pictures", post(store))
            .route("/pictures/{name}", get(picture))
            .route("/pictures/{name}/thumbnail", get(thumbnail))
            .with_state(self.clone())
    }

    /// What the database last said.
    pub(crate) fn health(&self) -> &Health {
        &self.0.health
    }

    /// Asks the database. This blocks.
    pub(crate) fn ask<T>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, Unavailable>,
    ) -> Result<T, Failure> {
        let answer = call(&*self.0.store);
        self.0.health.note(&answer);
        answer.map_err(|_| Failure::Unavailable)
    }

    fn reserve(&self) -> Result<Place, Failure> {
        self.0.pool.try_reserve().ok_or_else(|| self.refuse())
    }

    /// A permit to send a picture.
    fn begin_upload(&self) -> Result<SemaphorePermit<'_>, Failure> {
        // Whether there is a place is only looked at: the picture takes one when it is here, which
        // may be in 30 s.
        drop(self.reserve()?);
        self.0.uploads.try_acquire().map_err(|_| self.refuse())
    }

    fn refuse(&self) -> Failure {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        Failure::Full
    }

    /// Reads a body, for as long as may be.
    async fn read(&self, body: Body) -> Result<Vec<u8>, Failure> {
        let read = tokio::time::timeout(self.0.body_timeout, body::read(body));
        let read = read.await.map_err(|_| Failure::SlowBody)?;
        read.map_err(|error| match error {
            error if error.is::<LengthLimitError>() => Failure::TooLarge,
            error => Failure::Body(error),
        })
    }
}

/// Why the answer is another one than was hoped for.
pub(crate) enum Failure {
    Full,
    Body(axum::BoxError),
    SlowBody,
    TooLarge,
    NoPicture(NoPicture),
    NotFound,
    Unavailable,
    Lost,
}

impl From<Refused> for Failure {
    fn from(error: Refused) -> Self {
        match error {
            Refused::NoPicture(error) => Self::NoPicture(error),
            Refused::Busy => Self::Full,
        }
    }
}

impl From<Lost> for Failure {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let later = [(header::RETRY_AFTER, "1")];
        match self {
            Self::Full => {
                (StatusCode::TOO_MANY_REQUESTS, later, "there is too much to do; try again\n")
                    .into_response()
            }
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, later, "the database cannot do that now\n")
                    .into_response()
            }
            Self::Body(error) => {
                (StatusCode::BAD_REQUEST, format!("the picture did not come: {error}\n"))
                    .into_response()
            }
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("at most {MAX_BODY_BYTES} bytes\n"))
                    .into_response()
            }
            Self::SlowBody => {
                (StatusCode::REQUEST_TIMEOUT, "the picture did not come in time\n").into_response()
            }
            Self::NoPicture(error) => {
                (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "there is no such picture\n").into_response(),
            Self::Lost => {
                (StatusCode::INTERNAL_SERVER_ERROR, "this should not happen\n").into_response()
            }
        }
    }
}

/// What is answered to a picture that was stored.
#[derive(Debug, Serialize)]
struct Answer {
    name: String,
    picture: String,
    thumbnail: String,
}

async fn store(State(service): State<Service>, body: Body) -> Result<Response, Failure> {
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(Failure::TooLarge);
    }
    // First a permit, then the body: who is refused has cost nothing. Then a place, which is
    // nobody's while a body is on its way.
    let upload = service.begin_upload()?;
    let original = service.read(body).await?;
    let place = service.reserve()?;
    drop(upload);
    // Computes, then waits for the disk: nobody has to tell the one from the other.
    let job = move || {
        let name = Name::of(&original);
        let thumbnail = smaller(&original, THUMBNAIL_SIDE);
        let thumbnail = thumbnail.inspect_err(|_| service.health().job_ended())?;
        let stored = Stored { original, thumbnail };
        service.ask(|store| store.put(&name, &stored))?;
        Ok::<_, Failure>(name)
    };
    let name = place.run(job).await??;
    let picture = format!("/pictures/{}", name.as_str());
    let answer = Answer {
        name: name.as_str().to_owned(),
        thumbnail: format!("{picture}/thumbnail"),
        picture,
    };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

#[derive(Deserialize)]
struct Wanted {
    side: Option<u32>,
}

async fn picture(
    State(service): State<Service>,
    Path(name): Path<String>,
    Query(Wanted { side }): Query<Wanted>,
) -> Result<Response, Failure> {
    let name = Name::parse(&name).ok_or(Failure::NotFound)?;
    let place = service.reserve()?;
    let job = move || {
        let original = service.ask(|store| store.original(&name))?.ok_or(Failure::NotFound)?;
        let Some(side) = side else { return Ok((kind_of(&original), original)) };
        Ok::<_, Failure>(("image/jpeg", smaller(&original, side.clamp(1, MAX_SIDE))?))
    };
    Ok(bytes_of(place.run(job).await??))
}

async fn thumbnail(
    State(service): State<Service>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let name = Name::parse(&name).ok_or(Failure::NotFound)?;
    let place = service.reserve()?;
    let job = move || {
        let thumbnail = service.ask(|store| store.thumbnail(&name))?.ok_or(Failure::NotFound)?;
        Ok::<_, Failure>(("image/jpeg", thumbnail))
    };
    Ok(bytes_of(place.run(job).await??))
}

fn kind_of(picture: &[u8]) -> &'static str {
    if picture.starts_with(b"\x89PNG") { "image/png" } else { "image/jpeg" }
}

fn bytes_of((kind, bytes): (&'static str, Vec<u8>)) -> Response {
    // The name is that of the content, so it never changes.
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        // What was sent behind a picture's end is stored with it, and is not to pass for a page.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Bytes::from(bytes)).into_response()
}
