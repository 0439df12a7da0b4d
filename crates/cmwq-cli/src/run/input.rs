//! Where arguments come from: standard input, a file, or the command line.

use std::ffi::OsString;
use std::io::{self, BufRead, Read as _};
use std::os::unix::ffi::OsStringExt as _;

/// How a stream is cut into arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// At blanks and newlines; quotes and backslashes protect these, as for xargs.
    Blanks,
    /// At newlines. As for `xargs -I`, blanks in front are none of it, and a line of nothing else
    /// is no argument: `rm -r /data/{}` would be `rm -r /data/`.
    Lines,
    /// At this byte, and nothing else is special.
    At(u8),
}

/// LIMIT: bytes of an argument. No system takes a longer one, and what is parted at another byte
/// than it is written with may have no end.
const LONGEST: usize = 2 << 20;

/// The separator that `-d` names: a character, or an escape as `\n`, `\t`, `\0`, `\\`, `\x2c`.
pub(super) fn delimiter(text: &str) -> Result<u8, String> {
    let wrong = || {
        format!(
            "'{}' is no separator: give one byte, or \\n \\t \\0 \\\\ \\xHH",
            text.escape_debug()
        )
    };
    match text.as_bytes() {
        [byte] => Ok(*byte),
        [b'\\', escaped] => match escaped {
            b'n' => Ok(b'\n'),
            b't' => Ok(b'\t'),
            b'r' => Ok(b'\r'),
            b'0' => Ok(0),
            b'\\' => Ok(b'\\'),
            _ => Err(wrong()),
        },
        [b'\\', b'x', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit) => {
            let digits = str::from_utf8(digits).map_err(|_| wrong())?;
            u8::from_str_radix(digits, 16).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

/// Arguments, one after the other.
pub(super) struct Stream<R> {
    reader: R,
    cut: Cut,
}

impl<R: BufRead> Stream<R> {
    pub(super) fn new(reader: R, cut: Cut) -> Self {
        Self { reader, cut }
    }

    /// The next argument.
    pub(super) fn next(&mut self) -> io::Result<Option<OsString>> {
        match self.cut {
            Cut::At(byte) => Ok(self.until(byte)?.map(OsString::from_vec)),
            Cut::Lines => self.line(),
            Cut::Blanks => self.word(),
        }
    }

    fn line(&mut self) -> io::Result<Option<OsString>> {
        while let Some(mut line) = self.until(b'\n')? {
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c);
            if let Some(begin) = line.iter().position(|byte| !is_blank(byte)) {
                return Ok(Some(OsString::from_vec(line.split_off(begin))));
            }
        }
        Ok(None)
    }

    fn until(&mut self, end: u8) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        // With its end.
        let most = LONGEST as u64 + 1;
        if self.reader.by_ref().take(most).read_until(end, &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.last() == Some(&end) {
            bytes.pop();
        }
        is_short(&bytes)?;
        Ok(Some(bytes))
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.reader.fill_buf()?.first().copied();
        self.reader.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    fn word(&mut self) -> io::Result<Option<OsString>> {
        let mut word: Option<Vec<u8>> = None;
        while let Some(byte) = self.byte()? {
            match byte {
                b' ' | b'\t' | b'\n' => {
                    if word.is_some() {
                        break;
                    }
                }
                // Others than these three belong to words, but not in front of one, as for xargs.
                b'\r' | 0x0b | 0x0c if word.is_none() => {}
                b'\'' | b'"' => self.quoted(byte, word.get_or_insert_default())?,
                // As for xargs, one at the end is nothing, and no argument without bytes.
                b'\\' => {
                    if let Some(byte) = self.byte()? {
                        word.get_or_insert_default().push(byte);
                    }
                }
                byte => word.get_or_insert_default().push(byte),
            }
            word.as_deref().map_or(Ok(()), is_short)?;
        }
        Ok(word.map(OsString::from_vec))
    }

    fn quoted(&mut self, quote: u8, word: &mut Vec<u8>) -> io::Result<()> {
        loop {
            match self.byte()? {
                Some(byte) if byte == quote => return Ok(()),
                Some(byte) if byte != b'\n' => word.push(byte),
                _ => {
                    let name = if quote == b'"' { "double" } else { "single" };
                    return Err(invalid(&format!(
                        "unmatched {name} quote; quotes are special unless you use -0 or -d"
                    )));
                }
            }
            is_short(word)?;
        }
    }
}

fn is_short(argument: &[u8]) -> io::Result<()> {
    if argument.len() <= LONGEST {
        return Ok(());
    }
    Err(invalid("an argument of more than 2 MiB: -0 and -d say where they end"))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Lists of arguments, of which every combination is taken, the last list fastest.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    lists: Vec<Vec<OsString>>,
    next: Option<Vec<usize>>,
}

impl Lists {
    pub(super) fn new(lists: Vec<Vec<OsString>>) -> Self {
        let is_empty = lists.iter().any(Vec::is_empty);
        let next = (!is_empty).then(|| vec![0; lists.len()]);
        Self { lists, next }
    }

    /// The next combination.
    pub(super) fn next(&mut self) -> Option<Vec<OsString>> {
        let mut at = self.next.take()?;
        let combination = at.iter().zip(&self.lists).map(|(at, list)| list[*at].clone()).collect();
        for place in (0..at.len()).rev() {
            at[place] += 1;
            if at[place] < self.lists[place].len() {
                self.next = Some(at);
                break;
            }
            at[place] = 0;
        }
        Some(combination)
    }

    /// Whether there is no other.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none()
    }
}

/// Parts a command from the lists behind it: `COMMAND… ::: LIST… ::: LIST…`.
pub(super) fn part(words: &[OsString]) -> (Vec<OsString>, Option<Lists>) {
    let mut parts = words.split(|word| word == ":::").map(<[OsString]>::to_vec);
    let command = parts.next().unwrap_or_default();
    let lists: Vec<_> = parts.collect();
    (command, (!lists.is_empty()).then(|| Lists::new(lists)))
}

/// What to do instead of what GNU parallel has and this has not.
pub(super) fn hint(words: &[OsString]) -> Option<String> {
    words.iter().find_map(|word| {
        let instead = match word.to_str()? {
            "::::" => "-a FILE reads arguments from a file",
            ":::+" | "::::+" => "-n 2 takes arguments in pairs, as in ::: a 1 b 2",
            _ => return None,
        };
        Some(format!("there is no {}: {instead}", word.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &[u8], cut: Cut) -> Result<Vec<Vec<u8>>, String> {
        let mut stream = Stream::new(text, cut);
        let mut all = Vec::new();
        while let Some(argument) = stream.next().map_err(|error| error.to_string())? {
            all.push(argument.into_vec());
        }
        Ok(all)
    }

    #[test]
    fn blanks_part_and_quotes_protect() {
        let words = cut(b" a  'b c'd\t\"e 'f\" \\ g\\\nh\n\n'' i", Cut::Blanks).unwrap();
        assert_eq!(words, [&b"a"[..], b"b cd", b"e 'f", b" g\nh", b"", b"i"]);
        assert!(cut(b"a 'b", Cut::Blanks).unwrap_err().contains("unmatched single quote"));
        assert!(cut(b"a \"b\nc\"", Cut::Blanks).unwrap_err().contains("unmatched double"));
        assert_eq!(cut(b" \n", Cut::Blanks).unwrap(), Vec::<Vec<u8>>::new());
        let words = cut(b"a\r\n\r\n \x0c\x0bb\x0b\r \r'c'\n", Cut::Blanks).unwrap();
        assert_eq!(words, [&b"a\r"[..], b"b\x0b\r", b"c"]);
        assert_eq!(cut(b"a\\", Cut::Blanks).unwrap(), [b"a"]);
        assert_eq!(cut(b"a \\", Cut::Blanks).unwrap(), [b"a"], "nor an empty one");
    }

    #[test]
    fn lines_have_no_blanks_in_front_and_something_else() {
        let lines = cut(b"\n  a b \n \t\r\n\t'c\n\n d", Cut::Lines).unwrap();
        assert_eq!(lines, [&b"a b "[..], b"'c", b"d"]);
        assert_eq!(cut(b"\n \n", Cut::Lines).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn one_byte_parts_and_all_others_are_themselves() {
        assert_eq!(cut(b"a b\n'c\n\nd", Cut::At(b'\n')).unwrap(), [&b"a b"[..], b"'c", b"", b"d"]);
        assert_eq!(cut(b"a\n\0b\xff\0", Cut::At(0)).unwrap(), [&b"a\n"[..], b"b\xff"]);
    }

    /// As of names that end with newlines and are read with -0.
    #[test]
    fn an_argument_without_an_end_is_not_read_to_its_end() {
        let error = |start: &'static str, cut| {
            let endless = io::BufReader::new(io::repeat(b'a'));
            let error = Stream::new(start.as_bytes().chain(endless), cut).next().unwrap_err();
            error.to_string()
        };
        let quoted = [("'", Cut::Blanks), ("b", Cut::Blanks)];
        for (start, cut) in [[("", Cut::Lines), ("", Cut::At(0))], quoted].concat() {
            assert!(error(start, cut).contains("more than 2 MiB"), "{start} {cut:?}");
        }
        let longest = [vec![b'a'; LONGEST], vec![b'\n']].concat();
        for cut in [Cut::Lines, Cut::At(b'\n'), Cut::Blanks] {
            let mut stream = Stream::new(&longest[..], cut);
            assert_eq!(stream.next().unwrap().unwrap().len(), LONGEST);
            assert!(stream.next().unwrap().is_none());
        }
    }

    #[test]
    fn separators_by_name() {
        for (text, byte) in [
            (",", b','),
            ("\\n", b'\n'),
            ("\\t", b'\t'),
            ("\\0", 0),
            ("\\\\", b'\\'),
            ("\\x2C", 44),
        ] {
            assert_eq!(delimiter(text), Ok(byte), "{text}");
        }
        for text in ["", "ab", "\\q", "\\x", "\\xzz", "\\x+1", "\\x123"] {
            assert!(delimiter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_are_combined() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let (command, lists) = part(&words("echo ::: a b ::: 1 2 3"));
        assert_eq!(command, ["echo"]);
        let mut lists = lists.unwrap();
        let mut all = Vec::new();
        assert!(!lists.is_empty());
        while let Some(pair) = lists.next() {
            all.push(pair.join("".as_ref()).into_string().unwrap());
        }
        assert_eq!(all, ["a1", "a2", "a3", "b1", "b2", "b3"]);
        assert!(lists.is_empty());
        assert!(part(&words("echo a")).1.is_none());
        assert_eq!(part(&words("echo :::")).1.unwrap().next(), None, "an empty list");
    }
}
