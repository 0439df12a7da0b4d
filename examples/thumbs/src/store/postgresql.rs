//! PostgreSQL, which may go away and come back.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};

use super::connections::Connections;
use super::{Name, Store, Stored, Unavailable};

/// Makes the table if there is none; who finds one needs no right to make any. Two sessions that
/// make it at once may fail, also with `IF NOT EXISTS`, so all instances of this program first take
/// a lock, of any number.
const TABLE: &str = "DO $$ BEGIN
    IF to_regclass('pictures') IS NULL THEN
        PERFORM pg_advisory_xact_lock(7814431);
        CREATE TABLE IF NOT EXISTS pictures (
            name TEXT PRIMARY KEY, original BYTEA NOT NULL, thumbnail BYTEA NOT NULL);
    END IF;
END $$";

const INSERT: &str = "INSERT INTO pictures (name, original, thumbnail) VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING";

/// A database of a server.
pub struct Postgresql {
    config: Config,
    limit: Duration,
    runtime: Handle,
    sessions: Connections<Session>,
}

/// A connection, and the task that reads and writes.
struct Session {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // By itself it would wait for answers that may never come.
        self.task.abort();
    }
}

impl Postgresql {
    /// A database by its address, `postgres://user@host/name` or `host=… user=…`. Does not connect
    /// yet. A call that takes longer than the limit fails: a server that stands still is one that
    /// does not answer. To be called in a runtime of tokio, which then has the connections.
    ///
    /// # Errors
    /// If the address is none, or has no host, or asks for encryption.
    pub fn new(address: &str, limit: Duration) -> anyhow::Result<Self> {
        let mut config: Config = address.parse().context("DATABASE_URL")?;
        let needs_tls = config.get_ssl_mode() == SslMode::Require;
        ensure!(!needs_tls, "DATABASE_URL: sslmode=require, and this program has no TLS");
        let has_host = !config.get_hosts().is_empty() || !config.get_hostaddrs().is_empty();
        ensure!(has_host, "DATABASE_URL: it has no host");
        config.tcp_user_timeout(limit);
        let runtime = Handle::try_current()?;
        Ok(Self { config, limit, runtime, sessions: Connections::new() })
    }

    /// Makes a call, and waits for it as any call that blocks does.
    fn with<T>(&self, call: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, Unavailable> {
        let answer = async { tokio::time::timeout(self.limit, self.ask(call)).await };
        self.runtime.block_on(answer).map_or_else(
            |_| {
                let limit = humantime::format_duration(self.limit);
                Err(Unavailable(format!("nothing came in {limit}; --database-timeout gives more")))
            },
            |answer| answer.map_err(|error| unavailable(&error)),
        )
    }

    /// Makes a call, again if the connection turns out to be gone: all calls can be repeated.
    async fn ask<T>(&self, call: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, Error> {
        while let Some(session) = self.sessions.take() {
            match call(&session.client).await {
                Ok(value) => {
                    self.sessions.give(session);
                    return Ok(value);
                }
                // It was idle while the server went away, perhaps.
                Err(_) if session.client.is_closed() => {}
                Err(error) => return Err(error),
            }
        }
        let session = self.connect().await?;
        let value = call(&session.client).await?;
        self.sessions.give(session);
        Ok(value)
    }

    async fn connect(&self) -> Result<Session, Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        // Its error is that of the calls, too.
        let task = tokio::spawn(async move { drop(connection.await) });
        let session = Session { client, task };
        // The server need not go on with what nobody waits for.
        let limit = self.limit.as_millis().max(1);
        let begin = format!("SET statement_timeout = {limit}; {TABLE}");
        session.client.batch_execute(&begin).await?;
        Ok(session)
    }

    fn read(&self, column: &str, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        let select = format!("SELECT {column} FROM pictures WHERE name = $1");
        self.with(async |client| {
            let row = client.query_opt(&select, &[&name.as_str()]).await?;
            row.map(|row| row.try_get(0)).transpose()
        })
    }
}

/// The error with its causes.
fn unavailable(error: &Error) -> Unavailable {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let texts = std::iter::once(error.to_string()).chain(causes.map(ToString::to_string));
    Unavailable(texts.collect::<Vec<_>>().join(": "))
}

impl Store for Postgresql {
    fn put(&self, name: &Name, stored: &Stored) -> Result<(), Unavailable> {
        let Stored { original, thumbnail } = stored;
        self.with(async |client| {
            client.execute(INSERT, &[&name.as_str(), original, thumbnail]).await.map(drop)
        })
    }

    fn original(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.read("original", name)
    }

    fn thumbnail(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.read("thumbnail", name)
    }
}

impl fmt::Debug for Postgresql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgresql")
            .field("hosts", &self.config.get_hosts())
            .finish_non_exhaustive()
    }
}
