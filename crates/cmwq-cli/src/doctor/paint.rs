//! Colours, on a terminal only.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal as _};

use clap::builder::styling::{AnsiColor, Style};

/// Whether text is painted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    is_on: bool,
}

/// For standard output: on a terminal that can, unless `NO_COLOR` is set.
pub(super) fn stdout() -> Paint {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    Paint { is_on: io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb }
}

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub(super) const OFF: Paint = Paint { is_on: false };

    /// A heading.
    pub(super) fn heading(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Something that is as it should be.
    pub(super) fn good(self, text: impl Display) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    /// Something that could be better.
    pub(super) fn warning(self, text: impl Display) -> String {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    fn with(self, style: Style, text: impl Display) -> String {
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_surrounds_the_text() {
        assert_eq!(Paint::OFF.good("fine"), "fine");
        let painted = Paint { is_on: true }.warning("hm");
        assert!(painted.starts_with("\x1b[") && painted.contains("hm"), "{painted:?}");
        assert!(painted.ends_with("\x1b[0m"), "{painted:?}");
    }
}
