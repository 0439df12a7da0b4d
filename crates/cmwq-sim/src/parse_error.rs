//! Names that nobody has.

use std::fmt;

/// A text that is not what it should be. Prints as the text, and what may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    /// An error with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// `name` is no `what`; these are.
    pub(crate) fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<_> = known.into_iter().collect();
        Self(format!("unknown {what} '{name}': use {}", known.join(", ")))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}
