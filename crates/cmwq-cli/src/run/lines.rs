//! Output line by line: what `--line-buffer` and `--tag` do with it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sink::Sink;

/// The output of one command on its way.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    sink: &'a Sink,
    tag: Option<Vec<u8>>,
    /// What has come of a line whose end has not, of each of the two.
    begun: Mutex<[Vec<u8>; 2]>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(sink: &'a Sink, tag: Option<&[u8]>) -> Self {
        Self { sink, tag: tag.map(<[u8]>::to_vec), begun: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, [Vec<u8>; 2]> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More of standard output (0) or standard error (1).
    pub(super) fn add(&self, which: usize, bytes: &[u8]) -> io::Result<()> {
        let mut begun = self.lock();
        begun[which].extend_from_slice(bytes);
        let Some(end) = begun[which].iter().rposition(|byte| *byte == b'\n') else {
            return Ok(());
        };
        let rest = begun[which].split_off(end + 1);
        let whole = std::mem::replace(&mut begun[which], rest);
        self.sink.write(which, &tagged(&whole, self.tag.as_deref()))
    }

    /// There is no more: a line without an end gets one.
    pub(super) fn end(&self) -> io::Result<()> {
        let begun = std::mem::take(&mut *self.lock());
        for (which, rest) in begun.into_iter().enumerate() {
            if !rest.is_empty() {
                let mut rest = tagged(&rest, self.tag.as_deref());
                rest.push(b'\n');
                self.sink.write(which, &rest)?;
            }
        }
        Ok(())
    }
}

/// Each line with its tag in front.
pub(super) fn tagged(text: &[u8], tag: Option<&[u8]>) -> Vec<u8> {
    let Some(tag) = tag else { return text.to_vec() };
    let mut tagged = Vec::with_capacity(text.len() + tag.len() + 1);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        tagged.extend_from_slice(tag);
        tagged.push(b'\t');
        tagged.extend_from_slice(line);
    }
    tagged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_tag() {
        assert_eq!(tagged(b"a\n\nb", Some(b"x")), b"x\ta\nx\t\nx\tb");
        assert_eq!(tagged(b"a\nb", None), b"a\nb");
        assert_eq!(tagged(b"", Some(b"x")), b"");
    }
}
