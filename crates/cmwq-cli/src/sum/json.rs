//! The output of `--json`: one document, written as it is made.

use std::io::{self, Write};

use rustix::fs::FileType;
use serde::{Serialize, Serializer};

use super::files::kind_name;
use super::lines::hex;
use super::outcome::{Checksum, Outcome, Problem};
use super::stats::Stats;
use crate::message::errno_text;

/// Writes the document and a newline.
pub(crate) fn write(out: &mut impl Write, outcome: &Outcome, stats: &Stats) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Document::new(outcome, stats))?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(serialize_with = "files")]
    files: &'a [Checksum],
    errors: Vec<Failed<'a>>,
    skipped: Vec<Skipped<'a>>,
    stats: &'a Stats,
}

impl<'a> Document<'a> {
    fn new(outcome: &'a Outcome, stats: &'a Stats) -> Document<'a> {
        let mut document =
            Document { files: &outcome.checksums, errors: Vec::new(), skipped: Vec::new(), stats };
        for note in &outcome.notes {
            let name = Name::new(&note.path);
            match note.problem {
                Problem::Failed(errno) => document.errors.push(Failed {
                    name,
                    error: errno_text(errno),
                    errno: errno.raw_os_error(),
                }),
                Problem::Skipped(kind) => document.skipped.push(Skipped::new(name, kind)),
            }
        }
        document
    }
}

/// A path under one of two keys, so that none is lost or mistaken for another.
#[derive(Serialize)]
enum Name<'a> {
    #[serde(rename = "path")]
    Text(&'a str),
    /// The bytes of a name that is not UTF-8, as hexadecimal digits.
    #[serde(rename = "path_hex")]
    Bytes(String),
}

impl Name<'_> {
    fn new(path: &[u8]) -> Name<'_> {
        std::str::from_utf8(path).map_or_else(|_| Name::Bytes(hex(path)), Name::Text)
    }
}

#[derive(Serialize)]
struct Hashed<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    bytes: u64,
    sha256: String,
}

#[derive(Serialize)]
struct Failed<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    error: String,
    errno: i32,
}

#[derive(Serialize)]
struct Skipped<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    kind: &'static str,
}

impl<'a> Skipped<'a> {
    fn new(name: Name<'a>, kind: FileType) -> Skipped<'a> {
        Skipped { name, kind: kind_name(kind) }
    }
}

fn files<S: Serializer>(checksums: &[Checksum], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(checksums.iter().map(|checksum| Hashed {
        name: Name::new(&checksum.path),
        bytes: checksum.bytes,
        sha256: hex(&checksum.sha256),
    }))
}
