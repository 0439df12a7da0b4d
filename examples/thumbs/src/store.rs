//! Where pictures are kept. Every call blocks, as calls of databases do: they are made in items.

mod connections;
mod postgresql;
mod slow;
mod sqlite;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

pub use postgresql::Postgresql;
pub use slow::Slow;
pub use sqlite::Sqlite;

/// A picture's name: the SHA-256 of its bytes, in hexadecimal. So storing one twice is storing it
/// once, and a call that failed half-way can be made again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// The name of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let hex = |byte: &u8| format!("{byte:02x}");
        Self(Sha256::digest(bytes).iter().map(hex).collect())
    }

    /// A name as it stands in an address. `None`: it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 64 && text.bytes().all(is_hex)).then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A picture that is stored: as it came, and small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// As it was sent.
    pub original: Vec<u8>,
    /// As it is shown.
    pub thumbnail: Vec<u8>,
}

/// The database cannot be asked now: what it said. It may be tried again later.
#[derive(Debug)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database: {}", self.0)
    }
}

impl std::error::Error for Unavailable {}

/// A place for pictures. Calls block, and may be made from many threads.
pub trait Store: Send + Sync + fmt::Debug {
    /// Keeps a picture; it survives a crash when this has returned. One that is there is left as
    /// it is.
    ///
    /// # Errors
    /// If the database cannot be asked.
    fn put(&self, name: &Name, stored: &Stored) -> Result<(), Unavailable>;

    /// The picture as it came. `None`: there is none of that name.
    ///
    /// # Errors
    /// If the database cannot be asked.
    fn original(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable>;

    /// The small picture. `None`: there is none of that name.
    ///
    /// # Errors
    /// If the database cannot be asked.
    fn thumbnail(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable>;
}

/// PostgreSQL where an address is given, as `DATABASE_URL` has it, with a limit for its calls; else
/// SQLite in that file.
///
/// # Errors
/// If the file cannot be opened. A server need not be there yet.
pub fn open(address: Option<&str>, limit: Duration, file: &Path) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match address {
        Some(address) => Arc::new(Postgresql::new(address, limit)?),
        None => Arc::new(Sqlite::open(file)?),
    })
}
