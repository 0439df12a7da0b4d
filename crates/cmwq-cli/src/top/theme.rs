//! Styles that are legible on light and dark screens: the terminal's own two colours, and few of
//! middling brightness.

use ratatui::style::{Color, Modifier, Style};

use super::table::Tone;

/// Places in the terminal's palette of 256, among the 216 of its cube.
const GREEN: u8 = 28;
const ORANGE: u8 = 166;
const RED: u8 = 160;

/// Whether there are colours; without, weight and order tell what must be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    has_colours: bool,
}

impl Theme {
    pub(super) const fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    fn colour(self, index: u8) -> Style {
        if self.has_colours { Style::new().fg(Color::Indexed(index)) } else { Style::new() }
    }

    pub(super) fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => self.colour(GREEN),
            Tone::Notable => self.colour(ORANGE),
            Tone::Bad => self.colour(RED).add_modifier(Modifier::BOLD),
        }
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn alarm(self) -> Style {
        self.tone(Tone::Bad)
    }

    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_can_be_read_on_black_and_on_white() {
        [GREEN, ORANGE, RED].into_iter().for_each(crate::paint::contrast::check);
    }

    #[test]
    fn no_color_is_no_colour() {
        let tones = [Tone::Plain, Tone::Faint, Tone::Good, Tone::Notable, Tone::Bad];
        for tone in tones {
            assert_eq!(Theme::new(false).tone(tone).fg, None);
        }
    }
}
