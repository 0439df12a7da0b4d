//! PostgreSQL, which may go away and come back.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use postgres::{Client, Config, NoTls};

use super::connections::Connections;
use super::{Name, Store, Stored, Unavailable};

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS pictures (
    name TEXT PRIMARY KEY, original BYTEA NOT NULL, thumbnail BYTEA NOT NULL)";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A database of a server.
pub struct Postgresql {
    config: Config,
    clients: Connections<Client>,
}

impl Postgresql {
    /// A database by its address, `postgres://user@host/name` or `host=… user=…`. Does not connect
    /// yet.
    ///
    /// # Errors
    /// If the address is none.
    pub fn new(address: &str) -> anyhow::Result<Self> {
        let mut config: Config = address.parse().context("DATABASE_URL")?;
        config.connect_timeout(CONNECT_TIMEOUT);
        Ok(Self { config, clients: Connections::new() })
    }

    /// Makes a call, again if the connection turns out to be gone: all calls can be repeated.
    fn with<T>(
        &self,
        mut call: impl FnMut(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<T, Unavailable> {
        while let Some(mut client) = self.clients.take() {
            match call(&mut client) {
                Ok(value) => {
                    self.clients.give(client);
                    return Ok(value);
                }
                // It was idle while the server went away, perhaps.
                Err(_) if client.is_closed() => {}
                Err(error) => return Err(unavailable(&error)),
            }
        }
        let mut client = self.config.connect(NoTls).map_err(|error| unavailable(&error))?;
        let value = client
            .batch_execute(SCHEMA)
            .and_then(|()| call(&mut client))
            .map_err(|error| unavailable(&error))?;
        self.clients.give(client);
        Ok(value)
    }

    fn read(&self, column: &str, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        let select = format!("SELECT {column} FROM pictures WHERE name = $1");
        self.with(|client| {
            client.query_opt(&select, &[&name.as_str()])?.map(|row| row.try_get(0)).transpose()
        })
    }
}

/// The error with its causes.
fn unavailable(error: &postgres::Error) -> Unavailable {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let texts = std::iter::once(error.to_string()).chain(causes.map(ToString::to_string));
    Unavailable(texts.collect::<Vec<_>>().join(": "))
}

impl Store for Postgresql {
    fn put(&self, name: &Name, stored: &Stored) -> Result<(), Unavailable> {
        let Stored { original, thumbnail } = stored;
        self.with(|client| {
            let insert = "INSERT INTO pictures VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
            client.execute(insert, &[&name.as_str(), original, thumbnail]).map(drop)
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
