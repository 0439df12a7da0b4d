//! The files of a trace, which are opened before anything runs.

use std::fs::File;
use std::io::{BufWriter, LineWriter, Write};
use std::ops::Range;

use super::{Args, Format, Sink, chrome, svg, text, timeline};
use crate::written::{self, Out, place_of};

/// Where the trace and the picture go: one of the two, or both.
pub(super) struct Outs {
    trace: Option<Out>,
    picture: Option<Out>,
}

impl Outs {
    /// # Errors
    /// Which file cannot be written, and why.
    pub(super) fn open(args: &Args) -> Result<Self, String> {
        let trace = args.output().map(Out::open).transpose()?;
        let picture = args.svg.as_deref().map(Out::open).transpose()?;
        Ok(Self { trace, picture })
    }

    /// Whether they are different files, and none of them is the one that is read.
    ///
    /// # Errors
    /// Which are the same, whatever they are called.
    pub(super) fn check(&self, source: Option<&File>) -> Result<(), super::Failure> {
        let outs = [self.trace.as_ref(), self.picture.as_ref()];
        written::check(outs, source.and_then(place_of), "-o and --svg")
            .map_err(super::Failure::Usage)
    }

    /// Empties the files, and takes events for them.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn begin(
        self,
        args: &Args,
        window: &Range<u64>,
    ) -> Result<Vec<Box<dyn Sink>>, String> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if let Some(out) = self.trace {
            let is_shown = args.format == Format::Text && matches!(out, Out::Stdout);
            let out: Box<dyn Write> = match out.begin()? {
                // To be seen as it happens.
                out if is_shown => Box::new(LineWriter::new(out)),
                out => Box::new(BufWriter::with_capacity(1 << 18, out)),
            };
            sinks.push(match args.format {
                Format::Json => Box::new(chrome::Chrome::new(out)),
                Format::Text => Box::new(text::Text::new(out)),
                Format::Spans => Box::new(timeline::Spans::new(out)),
            });
        }
        if let Some(out) = self.picture {
            sinks.push(Box::new(svg::Svg::new(BufWriter::new(out.begin()?), window.clone())));
        }
        Ok(sinks)
    }
}
