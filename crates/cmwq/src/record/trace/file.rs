//! Trace files: what `CMWQ_TRACE` writes and `cmwq trace` reads. Blocks, each with its kind and
//! length in front; numbers little-endian.
//!
//! A file may end anywhere, because its process may have: what is whole counts.

use std::io::{self, Read, Write};

use super::event::WORDS;
use super::session::{Round, Tick};

/// The first bytes; then comes the version.
const MAGIC: [u8; 11] = *b"cmwq trace\0";
/// Of what is written. In the one before each record told of one event.
const VERSION: u8 = 2;
const OLDEST: u8 = 1;
/// With the version.
const HEAD: usize = MAGIC.len() + 1;
/// LIMIT: no block that is written is longer.
const MAX_BLOCK: u32 = 64 << 20;
const EVENT_BYTES: usize = WORDS * 8;

const PROCESS: u32 = 1;
const MAPS: u32 = 2;
const EVENTS: u32 = 3;
const ROUND: u32 = 4;

/// A part of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The process, and what it is called.
    Process {
        /// Its id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// What it has mapped, as `/proc/PID/maps` says it: for the names of functions.
    Maps(String),
    /// Events of one ring.
    Events {
        /// Which.
        ring: u32,
        /// Each in six words.
        events: Vec<[u64; WORDS]>,
    },
    /// The end of a round.
    Round {
        /// When it began.
        begin: Tick,
        /// Events lost so far.
        lost: u64,
    },
}

/// Begins a file.
///
/// # Errors
/// As the writer's.
pub(crate) fn write_head(out: &mut impl Write, pid: u32, name: &str) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&[VERSION])?;
    let mut body = pid.to_le_bytes().to_vec();
    body.extend_from_slice(name.as_bytes());
    write_block(out, PROCESS, &body)
}

pub(crate) fn write_maps(out: &mut impl Write, maps: &str) -> io::Result<()> {
    write_block(out, MAPS, maps.as_bytes())
}

/// `body` must be a ring's number and its events, see [`EventsBody`].
pub(crate) fn write_events(out: &mut impl Write, body: &EventsBody) -> io::Result<()> {
    write_block(out, EVENTS, &body.0)
}

pub(crate) fn write_round(out: &mut impl Write, round: &Round) -> io::Result<()> {
    let words = [round.begin.ticks, round.begin.ns, round.lost];
    write_block(out, ROUND, &words.map(u64::to_le_bytes).concat())
}

fn write_block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let len = u32::try_from(body.len()).map_err(io::Error::other)?;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(body)
}

/// Events of one ring, on their way into a file.
#[derive(Debug)]
pub(crate) struct EventsBody(Vec<u8>);

impl EventsBody {
    pub(crate) fn of(ring: u32) -> Self {
        Self(ring.to_le_bytes().to_vec())
    }

    pub(crate) fn push(&mut self, words: &[u64; WORDS]) {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_le_bytes()));
    }

    fn is_empty(&self) -> bool {
        self.0.len() <= 4
    }

    fn is_long(&self) -> bool {
        self.0.len() > 1 << 20
    }
}

/// The events of a round, which are written in blocks, each of one ring.
#[derive(Debug)]
pub(crate) struct Blocks {
    bodies: Vec<EventsBody>,
    written: io::Result<()>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { bodies: Vec::new(), written: Ok(()) }
    }
}

impl Blocks {
    pub(crate) fn push(&mut self, ring: u32, words: &[u64; WORDS], out: &mut impl Write) {
        while self.bodies.len() <= ring as usize {
            self.bodies.push(EventsBody::of(self.bodies.len() as u32));
        }
        let body = &mut self.bodies[ring as usize];
        body.push(words);
        if body.is_long() {
            let body = std::mem::replace(body, EventsBody::of(ring));
            self.write(&body, out);
        }
    }

    /// Behind a block of which a part is missing nobody would find another one.
    fn write(&mut self, body: &EventsBody, out: &mut impl Write) {
        if self.written.is_ok() {
            self.written = write_events(out, body);
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first of the writer's since the last time.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        for ring in 0..self.bodies.len() {
            if !self.bodies[ring].is_empty() {
                let fresh = EventsBody::of(ring as u32);
                let body = std::mem::replace(&mut self.bodies[ring], fresh);
                self.write(&body, out);
            }
        }
        std::mem::replace(&mut self.written, Ok(()))
    }
}

/// Reads the beginning of a file.
///
/// # Errors
/// If it is not a trace of this version or an older one, or as the reader's.
pub fn read_head(input: &mut impl Read) -> io::Result<()> {
    let mut head = [0; HEAD];
    let is_ours = input.read_exact(&mut head).is_ok()
        && head.starts_with(&MAGIC)
        && (OLDEST..=VERSION).contains(&head[MAGIC.len()]);
    if is_ours { Ok(()) } else { Err(wrong("not a trace file of this version of cmwq")) }
}

/// Reads the next block, passing over those of unknown kinds. `None`: the file ends here, be it
/// within a block.
///
/// # Errors
/// If it is not a trace file after all, or as the reader's.
pub fn read_block(input: &mut impl Read) -> io::Result<Option<Block>> {
    loop {
        let mut head = [0; 8];
        let mut body = Vec::new();
        if !fills(input, &mut head)? {
            return Ok(None);
        }
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, len) = (number(0), number(4));
        if len > MAX_BLOCK {
            return Err(wrong(format!("a block of {len} bytes")));
        }
        // Not all at once: the length may be a lie.
        if input.by_ref().take(len.into()).read_to_end(&mut body)? < len as usize {
            return Ok(None);
        }
        if let Some(block) = parse(kind, &body)? {
            return Ok(Some(block));
        }
    }
}

fn fills(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn parse(kind: u32, body: &[u8]) -> io::Result<Option<Block>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let number = || body.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let block = match kind {
        PROCESS => number().map(|pid| Block::Process { pid, name: text(&body[4..]) }),
        MAPS => Some(Block::Maps(text(body))),
        EVENTS => number().filter(|_| (body.len() - 4).is_multiple_of(EVENT_BYTES)).map(|ring| {
            Block::Events { ring, events: body[4..].chunks(EVENT_BYTES).map(words).collect() }
        }),
        ROUND => (body.len() == 24).then(|| {
            let [ticks, ns, lost] = words(body);
            Block::Round { begin: Tick { ticks, ns }, lost }
        }),
        _ => return Ok(None),
    };
    block
        .map(Some)
        .ok_or_else(|| wrong(format!("a block of kind {kind} with {} bytes", body.len())))
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|at| {
        let word = bytes.get(at * 8..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_le_bytes(*word))
    })
}

fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (Vec<u8>, Vec<Block>) {
        let mut bytes = Vec::new();
        write_head(&mut bytes, 42, "prog").unwrap();
        write_maps(&mut bytes, "maps").unwrap();
        let mut events = EventsBody::of(3);
        events.push(&[1, 2, 3, 4, 5, 6]);
        events.push(&[u64::MAX; 6]);
        write_events(&mut bytes, &events).unwrap();
        let begin = Tick { ticks: 5, ns: 6 };
        let round = Round { begin, lost: 7, events: 2, is_pressed: false, has_lapsed: false };
        write_round(&mut bytes, &round).unwrap();
        let blocks = vec![
            Block::Process { pid: 42, name: "prog".into() },
            Block::Maps("maps".into()),
            Block::Events { ring: 3, events: vec![[1, 2, 3, 4, 5, 6], [u64::MAX; 6]] },
            Block::Round { begin, lost: 7 },
        ];
        (bytes, blocks)
    }

    fn read(mut bytes: &[u8]) -> io::Result<Vec<Block>> {
        read_head(&mut bytes)?;
        std::iter::from_fn(|| read_block(&mut bytes).transpose()).collect()
    }

    /// A disk that is full at one moment, and has room again.
    #[derive(Default)]
    struct OnceFull {
        bytes: Vec<u8>,
        writes: u32,
    }

    impl Write for OnceFull {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            // In the middle of the first block.
            if self.writes == 3 {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            self.bytes.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn behind_a_block_that_was_not_written_whole_nothing_is_written() {
        let (mut blocks, mut out) = (Blocks::default(), OnceFull::default());
        // Two long blocks, and the rest.
        for _ in 0..50_000 {
            blocks.push(0, &[7; WORDS], &mut out);
        }
        let error = blocks.finish(&mut out).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(out.bytes.len(), 8, "the first block's kind and length");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let (bytes, blocks) = file();
        assert_eq!(read(&bytes).unwrap(), blocks);
    }

    #[test]
    fn a_file_that_ends_early_has_what_is_whole() {
        let (bytes, blocks) = file();
        for len in HEAD..bytes.len() {
            let found = read(&bytes[..len]).unwrap();
            assert_eq!(found, blocks[..found.len()], "{len}");
            assert!(found.len() < blocks.len());
        }
        assert!(read(&bytes[..HEAD - 1]).is_err());
    }

    #[test]
    fn a_foreign_file_is_refused_and_a_foreign_block_passed_over() {
        let (mut bytes, blocks) = file();
        write_block(&mut bytes, 99, b"who knows").unwrap();
        assert_eq!(read(&bytes).unwrap(), blocks);
        write_block(&mut bytes, ROUND, b"too short").unwrap();
        assert!(read(&bytes).unwrap_err().to_string().contains("kind 4 with 9 bytes"));
        let of_version = |version| {
            let mut bytes = file().0;
            bytes[MAGIC.len()] = version;
            read(&bytes)
        };
        for version in OLDEST..=VERSION {
            assert_eq!(of_version(version).unwrap(), blocks);
        }
        for version in [OLDEST - 1, VERSION + 1] {
            assert!(of_version(version).unwrap_err().to_string().contains("not a trace file"));
        }
    }

    #[test]
    fn a_length_that_lies_allocates_nothing() {
        let head = &file().0[..HEAD];
        let bytes = [head, &[3, 0, 0, 0, 255, 255, 255, 255]].concat();
        assert!(read(&bytes).unwrap_err().to_string().contains("4294967295"));
        let bytes = [head, &[3, 0, 0, 0, 0, 0, 0, 1, 1, 2]].concat();
        assert_eq!(read(&bytes).unwrap(), []);
    }
}
