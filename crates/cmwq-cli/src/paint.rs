//! Colours: whether there are any is said once, by `--color`, and believed everywhere.

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use clap::ColorChoice;
use clap::builder::StyledStr;
use clap::builder::styling::{Ansi256Color, AnsiColor, Style};

/// What `--color` says; nothing is like `auto`.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Colours of works in timelines: of middling brightness, so that they can be read on light and
/// dark ground.
const WORKS: [u8; 7] = [31, 166, 28, 162, 130, 98, 64];

/// Says once what `--color` says.
pub(crate) fn choose(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// What the arguments say about colours, for messages about arguments that cannot be read.
pub(crate) fn choice_in(args: impl Iterator<Item = std::ffi::OsString>) -> ColorChoice {
    let mut is_next = false;
    let mut choice = ColorChoice::Auto;
    for arg in args.skip(1) {
        let Some(text) = arg.to_str() else { continue };
        if text == "--" {
            break;
        }
        let value = if is_next { Some(text) } else { text.strip_prefix("--color=") };
        is_next = text == "--color";
        choice = match value {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            Some("auto") => ColorChoice::Auto,
            _ => choice,
        };
    }
    choice
}

/// Whether a screen has colours that is known to be one.
pub(crate) fn has_screen_colours() -> bool {
    match CHOICE.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        _ => !is_set("NO_COLOR"),
    }
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Whether text is painted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

/// For standard output: as `--color` says; else on a terminal that can, unless `NO_COLOR` is set.
pub(crate) fn stdout() -> Paint {
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    let is_on = match CHOICE.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        _ => io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb,
    };
    Paint { is_on }
}

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub(crate) const OFF: Paint = Paint { is_on: false };

    /// What the parser of arguments has to say.
    pub(crate) fn styled(self, text: &StyledStr) -> String {
        if self.is_on { text.ansi().to_string() } else { text.to_string() }
    }

    /// A heading.
    pub(crate) fn heading(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Something that is as it should be.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    /// Something that could be better.
    pub(crate) fn warning(self, text: impl Display) -> String {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    /// Something of the work with this number.
    pub(crate) fn work(self, number: usize, text: impl Display) -> String {
        self.with(Ansi256Color(WORKS[number % WORKS.len()]).on_default(), text)
    }

    fn with(self, style: Style, text: impl Display) -> String {
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// Painted, whatever is said elsewhere.
    #[cfg(test)]
    pub(crate) const ON: Paint = Paint { is_on: true };
}

/// How well a colour of the palette's cube can be read.
#[cfg(test)]
pub(crate) mod contrast {
    /// Relative luminance, as WCAG 2 defines it.
    fn luminance(index: u8) -> f64 {
        let place = u32::from(index) - 16;
        let channel = |step: u32| {
            let level = if step == 0 { 0.0 } else { f64::from(55 + 40 * step) / 255.0 };
            if level <= 0.040_45 { level / 12.92 } else { ((level + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = [place / 36, place / 6 % 6, place % 6].map(channel);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// Asserts that it stands out from black and from white.
    #[track_caller]
    pub(crate) fn check(index: u8) {
        let light = luminance(index);
        let (on_white, on_black) = (1.05 / (light + 0.05), (light + 0.05) / 0.05);
        // WCAG asks for 3 for large text, and calls 4.5 good.
        assert!(on_white >= 3.5 && on_black >= 3.5, "{index}: {on_white:.1} {on_black:.1}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_can_be_read_on_black_and_on_white() {
        WORKS.into_iter().for_each(contrast::check);
    }

    #[test]
    fn paint_surrounds_the_text() {
        assert_eq!(Paint::OFF.good("fine"), "fine");
        let painted = Paint::ON.warning("hm");
        assert!(painted.starts_with("\x1b[") && painted.contains("hm"), "{painted:?}");
        assert!(painted.ends_with("\x1b[0m"), "{painted:?}");
    }

    #[test]
    fn the_choice_is_found_before_arguments_are_read() {
        let choice = |args: &[&str]| choice_in(args.iter().map(|arg| (*arg).into()));
        assert_eq!(choice(&["cmwq", "sum"]), ColorChoice::Auto);
        assert_eq!(choice(&["cmwq", "--color", "never", "sum"]), ColorChoice::Never);
        assert_eq!(choice(&["cmwq", "sum", "--color=always"]), ColorChoice::Always);
        assert_eq!(choice(&["cmwq", "top", "--", "x", "--color=always"]), ColorChoice::Auto);
    }
}
