//! Output line by line: what `--line-buffer` and `--tag` do with it.

use std::io::{self, Write as _};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sink::Sink;

/// LIMIT: what is kept of a line that has not ended, in bytes. A longer one is printed in parts.
const LONGEST: usize = 1 << 20;

/// The output of one command on its way.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    sink: &'a Sink,
    tag: Option<Vec<u8>>,
    begun: Mutex<[Begun; 2]>,
}

/// A line of standard output or standard error whose end has not come.
#[derive(Debug, Default)]
struct Begun {
    /// What was not printed.
    text: Vec<u8>,
    /// What is before that was.
    is_printed: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(sink: &'a Sink, tag: Option<&[u8]>) -> Self {
        Self { sink, tag: tag.map(<[u8]>::to_vec), begun: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, [Begun; 2]> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More of standard output (0) or standard error (1).
    pub(super) fn add(&self, which: usize, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.lock();
        let begun = &mut all[which];
        // What was there before has no end: a long line is not searched again with each part.
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            begun.text.extend_from_slice(bytes);
            return if begun.text.len() < LONGEST { Ok(()) } else { self.print(which, begun) };
        };
        let (ended, rest) = bytes.split_at(end + 1);
        begun.text.extend_from_slice(ended);
        let printed = self.print(which, begun);
        begun.text.extend_from_slice(rest);
        printed
    }

    /// There is no more: a line without an end gets one.
    pub(super) fn end(&self) -> io::Result<()> {
        let mut all = self.lock();
        for (which, begun) in all.iter_mut().enumerate() {
            if begun.is_printed || !begun.text.is_empty() {
                begun.text.push(b'\n');
                self.print(which, begun)?;
            }
        }
        Ok(())
    }

    /// Prints what has come.
    fn print(&self, which: usize, begun: &mut Begun) -> io::Result<()> {
        let text = mem::take(&mut begun.text);
        let is_begun = mem::replace(&mut begun.is_printed, !text.ends_with(b"\n"));
        let Some(tag) = &self.tag else { return self.sink.write(which, &text) };
        let mut written = Vec::with_capacity(text.len() + tag.len() + 1);
        Tagging { to: &mut written, tag: Some(tag), is_begun }.write_all(&text)?;
        self.sink.write(which, &written)
    }
}

/// Each line with its tag in front.
fn tagged(text: &[u8], tag: Option<&[u8]>) -> Vec<u8> {
    let Some(tag) = tag else { return text.to_vec() };
    let mut tagged = Vec::with_capacity(text.len() + tag.len() + 1);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        tagged.extend_from_slice(tag);
        tagged.push(b'\t');
        tagged.extend_from_slice(line);
    }
    tagged
}

/// Puts a tag before each line that is written to it.
#[derive(Debug)]
pub(super) struct Tagging<'a, W> {
    to: W,
    tag: Option<&'a [u8]>,
    /// The line that is written has its tag.
    is_begun: bool,
}

impl<'a, W: io::Write> Tagging<'a, W> {
    pub(super) fn new(to: W, tag: Option<&'a [u8]>) -> Self {
        Self { to, tag, is_begun: false }
    }
}

impl<W: io::Write> io::Write for Tagging<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tag.is_none() {
            return self.to.write(bytes);
        }
        // The rest of a line that has its tag, and then lines.
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        let (rest, lines) = bytes.split_at(if self.is_begun { end } else { 0 });
        self.to.write_all(rest)?;
        self.to.write_all(&tagged(lines, self.tag))?;
        self.is_begun = bytes.last().map_or(self.is_begun, |byte| *byte != b'\n');
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_parts_has_one_tag_for_each_line() {
        let text = b"ab\n\ncd\ne";
        for size in 1..=text.len() {
            let mut written = Vec::new();
            let mut tagging = Tagging::new(&mut written, Some(b"x"));
            for part in text.chunks(size) {
                tagging.write_all(part).unwrap();
            }
            assert_eq!(written, tagged(text, Some(b"x")), "{size} at once");
        }
    }

    #[test]
    fn every_line_has_its_tag() {
        assert_eq!(tagged(b"a\n\nb", Some(b"x")), b"x\ta\nx\t\nx\tb");
        assert_eq!(tagged(b"a\nb", None), b"a\nb");
        assert_eq!(tagged(b"", Some(b"x")), b"");
    }
}
