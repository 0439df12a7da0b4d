//! SQLite, which is part of this program: a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::connections::Connections;
use super::{Name, Store, Stored, Unavailable};

/// SQLite reads a row's columns in their order. With the original as the last one a thumbnail is
/// read without the 20 MiB that the original may have.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS pictures (
    name TEXT PRIMARY KEY, thumbnail BLOB NOT NULL, original BLOB NOT NULL)";
const INSERT: &str =
    "INSERT OR IGNORE INTO pictures (name, thumbnail, original) VALUES (?1, ?2, ?3)";

/// A database in a file. One connection writes, as SQLite has it anyway, and waits for the disk
/// each time; as many read as calls are made.
pub struct Sqlite {
    file: PathBuf,
    writer: Mutex<Connection>,
    readers: Connections<Connection>,
}

impl Sqlite {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// If that is not possible, or it is none: each connection to `:memory:` has a database of its
    /// own.
    pub fn open(file: &Path) -> anyhow::Result<Self> {
        let writer = connect(file).with_context(|| format!("opening {}", file.display()))?;
        let is_file = writer.path().is_some_and(|path| !path.is_empty());
        ensure!(is_file, "opening {}: a file is needed, not memory", file.display());
        writer.execute(SCHEMA, ()).with_context(|| format!("using {}", file.display()))?;
        Ok(Self { file: file.to_owned(), writer: Mutex::new(writer), readers: Connections::new() })
    }

    fn read(&self, column: &str, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        let reader = match self.readers.take() {
            Some(reader) => reader,
            None => connect(&self.file).map_err(unavailable)?,
        };
        let bytes = reader
            .prepare_cached(&format!("SELECT {column} FROM pictures WHERE name = ?1"))
            .and_then(|mut select| select.query_row([name.as_str()], |row| row.get(0)).optional())
            .map_err(unavailable)?;
        self.readers.give(reader);
        Ok(bytes)
    }
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // What was answered with "stored" is on the disk.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn unavailable(error: rusqlite::Error) -> Unavailable {
    Unavailable(error.to_string())
}

impl Store for Sqlite {
    fn put(&self, name: &Name, stored: &Stored) -> Result<(), Unavailable> {
        let Stored { original, thumbnail } = stored;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer
            .prepare_cached(INSERT)
            .and_then(|mut insert| insert.execute(params![name.as_str(), thumbnail, original]))
            .map(drop)
            .map_err(unavailable)
    }

    fn original(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.read("original", name)
    }

    fn thumbnail(&self, name: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.read("thumbnail", name)
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this thread has read, in bytes.
    fn has_read() -> u64 {
        let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        read.parse().unwrap()
    }

    #[test]
    fn a_thumbnail_is_found_without_reading_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("thumbs.db")).unwrap();
        let stored = Stored { original: vec![1; 20 << 20], thumbnail: vec![2; 5000] };
        let name = Name::of(&stored.original);
        store.put(&name, &stored).unwrap();
        let before = has_read();
        assert_eq!(store.thumbnail(&name).unwrap(), Some(stored.thumbnail));
        let read = has_read() - before;
        assert!(read < 1 << 20, "{read} bytes");
    }
}
