//! What other processes made, and may have made to do harm: text that is shown, and files that are
//! opened.
//!
//! *Text*: a terminal obeys some characters, and others make a text look like another one.
//! [`harmless`] and [`harmless_json`] leave none of them; whatever is shown of another process goes
//! through one of the two.
//!
//! *Files*: a descriptor of another process may lead anywhere, whatever its name is.
//! `open_memory_file` looks before it opens, never waits, and takes only files in memory.

use std::borrow::Cow;
use std::fmt::Write as _;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod file;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use file::{open_memory_file, seals_of};

/// Whether a terminal may obey it, or show nothing at all for it, or another order of what is
/// beside it.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Hyphens, joiners and fillers that are not seen.
            '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
            // Directions of writing; ends of lines and paragraphs; what has no width.
            | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}'
            // Annotations, and letters that are not shown.
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The text with a `?` for each character that may do harm, so that it is as long as before and one
/// line.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    replaced(text, is_harmful)
}

/// As [`harmless`], for a text of several lines.
#[must_use]
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c != '\n' && is_harmful(c))
}

fn replaced(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_replaced(c) { '?' } else { c }).collect())
}

/// A JSON document that means the same, with escapes for all characters that may do harm.
///
/// Nothing is lost: those who read the document get the text as it is. Such characters are within
/// texts only, but for ends of lines.
#[must_use]
pub fn harmless_json(document: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c != '\n' && is_harmful(c);
    if !document.contains(is_escaped) {
        return Cow::Borrowed(document);
    }
    let mut safe = String::with_capacity(document.len() + 64);
    for c in document.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind.
    const HARMFUL: &str = "\0\u{7}\t\r\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\
        \u{2028}\u{202e}\
         \u{2060}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0041}";

    #[test]
    fn harmful_characters_become_question_marks() {
        let count = HARMFUL.chars().count();
        assert_eq!(harmless(HARMFUL), "?".repeat(count));
        assert_eq!(harmless("a\nb"), "a?b");
        assert_eq!(harmless_lines("a\nb\u{9b}"), "a\nb?");
    }

    #[test]
    fn other_characters_stay() {
        for text in ["", "disk", "Größe 磁盘 диск", "a b\\n\"'", "\u{1f600} e\u{301}"] {
            assert!(matches!(harmless(text), Cow::Borrowed(same) if same == text), "{text}");
            assert!(matches!(harmless_json(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn json_keeps_what_it_means() {
        assert_eq!(
            harmless_json("{\n\"a\": \"\u{202e}\u{9b}\"\n}"),
            "{\n\"a\": \"\\u202e\\u009b\"\n}"
        );
        // Beyond 16 bits JSON has pairs.
        assert_eq!(harmless_json("\"\u{e0041}\""), "\"\\udb40\\udc41\"");
    }
}
