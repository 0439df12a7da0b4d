//! The output of `sha256sum`: `HASH  PATH` lines, byte for byte.

use std::io::{self, Write};

use super::outcome::{Checksum, Outcome};

/// Writes one line per checksum.
pub(crate) fn write(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let mut line = Vec::with_capacity(256);
    for checksum in &outcome.checksums {
        line.clear();
        push_line(&mut line, checksum);
        out.write_all(&line)?;
    }
    Ok(())
}

/// The digits of `bytes`, two for each, in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut digits = Vec::with_capacity(2 * bytes.len());
    push_hex(&mut digits, bytes);
    digits.into_iter().map(char::from).collect()
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Appends the line of `checksum`. A name that would break the line is escaped, and a backslash in
/// front of the hash tells so.
fn push_line(line: &mut Vec<u8>, checksum: &Checksum) {
    // To who reads the line `-` would be his standard input.
    let path: &[u8] = if *checksum.path == *b"-" { b"./-" } else { &checksum.path };
    let escaped = path.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    if escaped {
        line.push(b'\\');
    }
    push_hex(line, &checksum.sha256);
    line.extend_from_slice(b"  ");
    if escaped {
        push_escaped(line, path);
    } else {
        line.extend_from_slice(path);
    }
    line.push(b'\n');
}

fn push_escaped(line: &mut Vec<u8>, path: &[u8]) {
    for &byte in path {
        match byte {
            b'\\' => line.extend_from_slice(br"\\"),
            b'\n' => line.extend_from_slice(br"\n"),
            b'\r' => line.extend_from_slice(br"\r"),
            _ => line.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line for a file of this name whose hash is 00 01 … 1f.
    fn check_line(path: &[u8], expected: &[u8]) {
        let sha256 = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let checksum = Checksum { path: path.into(), bytes: 0, sha256 };
        let outcome = Outcome { checksums: vec![checksum], notes: Vec::new() };
        let mut line = Vec::new();
        write(&mut line, &outcome).unwrap();
        assert_eq!(line.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn ordinary_names_are_printed_as_they_are() {
        check_line(
            b"./plain name",
            b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  ./plain name\n",
        );
        check_line(
            b"-t\tab\x1b'\"*\xff",
            b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  \
              -t\tab\x1b'\"*\xff\n",
        );
    }

    /// `sha256sum --check` reads its standard input for a `-`.
    #[test]
    fn a_file_called_dash_is_named_as_one() {
        check_line(
            b"-",
            b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  ./-\n",
        );
    }

    /// From the coreutils manual: "If FILE contains a backslash, newline, or carriage return, the
    /// line is started with a backslash, and each problematic character in the file name is escaped
    /// with a backslash".
    #[test]
    fn problematic_names_are_escaped_and_marked() {
        check_line(
            b"a\\b",
            b"\\000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  a\\\\b\n",
        );
        check_line(
            b"a\nb",
            b"\\000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  a\\nb\n",
        );
        check_line(
            b"a\rb",
            b"\\000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  a\\rb\n",
        );
        check_line(
            b"\\n\n\\\xfe",
            b"\\000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f  \\\
              \\n\\n\\\\\xfe\n",
        );
    }

    #[test]
    fn hex_digits() {
        assert_eq!(hex(&[0x00, 0x7f, 0x80, 0xff]), "007f80ff");
    }
}
