//! What clients ask for, and what becomes of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::http::{Method, Request, StatusCode};
use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::server::ServerProcess;
use crate::picture;
use crate::store::Name;

/// Requests before those that count.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long a server may take to answer what is left at the end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many pictures there are to begin with.
const KINDS: u64 = 16;

/// Requests that come whether or not the earlier ones were answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) per_second: f64,
    pub(super) length: Duration,
    pub(super) seed: u64,
}

/// What became of them.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) served_per_second: f64,
    /// Parts of all.
    pub(super) refused: f64,
    pub(super) failed: f64,
    /// Of those that were served.
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) threads: usize,
}

/// Any number of pictures.
#[derive(Debug)]
pub(super) struct Pictures(Vec<Vec<u8>>);

impl Pictures {
    pub(super) fn new() -> anyhow::Result<Arc<Self>> {
        let some = (0..KINDS).map(|seed| picture::synthetic(800, 600, seed));
        Ok(Arc::new(Self(some.collect::<Result<_, _>>()?)))
    }

    /// Another one for each number, which stands behind the JPEG's end and gives each a digest of
    /// its own.
    pub(super) fn get(&self, which: u64) -> Bytes {
        let picture = &self.0[(which % KINDS) as usize];
        let mut bytes = BytesMut::with_capacity(picture.len() + 8);
        bytes.put_slice(picture);
        bytes.put_u64(which);
        bytes.freeze()
    }
}

/// What the requests of one measurement share.
struct Clients {
    client: Client<HttpConnector, Full<Bytes>>,
    address: String,
    names: Vec<Name>,
    pictures: Arc<Pictures>,
}

/// One request: half of them store a new picture, half ask for a stored one in another size.
#[derive(Clone, Copy, Debug)]
struct Ask {
    stores: bool,
    which: u64,
}

impl Ask {
    fn any(random: &mut fastrand::Rng) -> Self {
        Self { stores: random.bool(), which: random.u64(..) }
    }
}

impl Clients {
    fn of(server: &ServerProcess, names: &[Name], pictures: &Arc<Pictures>) -> Arc<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Arc::new(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            address: server.address.clone(),
            names: names.to_vec(),
            pictures: Arc::clone(pictures),
        })
    }

    async fn ask(&self, Ask { stores, which }: Ask) -> anyhow::Result<StatusCode> {
        let request = if stores {
            let to = format!("{}/pictures", self.address);
            let body = Full::new(self.pictures.get(which));
            Request::builder().method(Method::POST).uri(to).body(body)?
        } else {
            let name = &self.names[(which % self.names.len() as u64) as usize];
            let from = format!("{}/pictures/{}?side=300", self.address, name.as_str());
            Request::builder().uri(from).body(Full::default())?
        };
        let answer = self.client.request(request).await?;
        let status = answer.status();
        answer.into_body().collect().await?;
        Ok(status)
    }
}

impl Load {
    pub(super) async fn run(
        self,
        server: &ServerProcess,
        names: &[Name],
        pictures: &Arc<Pictures>,
    ) -> anyhow::Result<Sample> {
        let clients = Clients::of(server, names, pictures);
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut asked = Vec::new();
        let start = Instant::now();
        let mut due = Duration::ZERO;
        while due < WARM_UP + self.length {
            tokio::time::sleep_until((start + due).into()).await;
            let (clients, ask, at) = (Arc::clone(&clients), Ask::any(&mut random), start + due);
            let answer = tokio::spawn(async move {
                let status = tokio::time::timeout(PATIENCE, clients.ask(ask)).await;
                (status.ok().and_then(Result::ok), at.elapsed())
            });
            if due >= WARM_UP {
                asked.push(answer);
            }
            // Times between arrivals that have no memory.
            due += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / self.per_second);
        }
        let (mut served, mut refused, mut failed) = (Vec::new(), 0_u32, 0_u32);
        for answer in asked {
            match answer.await.context("a client")? {
                (Some(StatusCode::TOO_MANY_REQUESTS), _) => refused += 1,
                (Some(status), latency) if status.is_success() => served.push(latency),
                _ => failed += 1,
            }
        }
        served.sort_unstable();
        let all = (served.len() as f64 + f64::from(refused + failed)).max(1.0);
        // Until the last was served: a pool that only gets behind serves no more by that.
        let took = start.elapsed().saturating_sub(WARM_UP).max(self.length);
        Ok(Sample {
            served_per_second: served.len() as f64 / took.as_secs_f64(),
            refused: f64::from(refused) / all,
            failed: f64::from(failed) / all,
            p50: quantile(&served, 0.5),
            p99: quantile(&served, 0.99),
            threads: server.most_threads(),
        })
    }
}

/// The value below which that part of them is; zero of none.
fn quantile(sorted: &[Duration], part: f64) -> Duration {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Requests that are served in a second to clients of which each asks again at once.
pub(super) async fn closed(
    server: &ServerProcess,
    names: &[Name],
    pictures: &Arc<Pictures>,
    clients: usize,
    length: Duration,
) -> anyhow::Result<f64> {
    let shared = Clients::of(server, names, pictures);
    let start = Instant::now();
    let asking = (0..clients as u64).map(|seed| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut served = 0_u32;
            while start.elapsed() < WARM_UP + length {
                let status = shared.ask(Ask::any(&mut random)).await?;
                let at = start.elapsed();
                let counts = at > WARM_UP && at <= WARM_UP + length;
                served += u32::from(counts && status.is_success());
            }
            anyhow::Ok(served)
        })
    });
    let asking: Vec<_> = asking.collect();
    let mut served = 0;
    for client in asking {
        served += client.await.context("a client")??;
    }
    Ok(f64::from(served) / length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_series() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 0.5), Duration::from_millis(100));
        assert_eq!(quantile(&times, 0.99), Duration::from_millis(198));
        assert_eq!(quantile(&[], 0.5), Duration::ZERO);
    }
}
