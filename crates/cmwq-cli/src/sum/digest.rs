//! SHA-256 of an open file.

use std::cell::RefCell;
use std::os::fd::AsFd;

use rustix::io::{Errno, read, retry_on_intr};
use sha2::{Digest as _, Sha256};

/// How much is read at a time.
// LIMIT: one buffer per worker thread. It stays in the level-2 cache between the kernel's copy and
// the hashing.
const BUFFER: usize = 128 << 10;

thread_local! {
    /// Allocated when a thread hashes its first file, then reused for every other.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads `file` from where it stands to its end and returns the number of bytes and their SHA-256.
///
/// `read_more` is told the size of every piece as it comes. A file that grows or shrinks meanwhile
/// is hashed as the reads found it.
pub(crate) fn digest(
    file: impl AsFd,
    mut read_more: impl FnMut(u64),
) -> Result<(u64, [u8; 32]), Errno> {
    READ_BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(BUFFER, 0);
        let mut bytes = 0;
        let mut hash = Sha256::new();
        loop {
            let count = retry_on_intr(|| read(&file, buffer.as_mut_slice()))?;
            if count == 0 {
                return Ok((bytes, hash.finalize().into()));
            }
            hash.update(&buffer[..count]);
            bytes += count as u64;
            read_more(count as u64);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn check_digest(content: &[u8], expected: &str) {
        let mut file: File = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        let mut seen = 0;
        let (bytes, sha256) = digest(&file, |count| seen += count).unwrap();
        assert_eq!(hex(&sha256), expected);
        assert_eq!(bytes, content.len() as u64);
        assert_eq!(seen, bytes);
    }

    /// The examples of FIPS 180-4.
    #[test]
    fn known_answers() {
        check_digest(b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check_digest(b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        // One million times "a": several read buffers.
        check_digest(
            &vec![b'a'; 1_000_000],
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let directory = File::open(".").unwrap();
        assert_eq!(digest(&directory, |_| ()).unwrap_err(), Errno::ISDIR);
    }
}
