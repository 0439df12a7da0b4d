//! Without a terminal: one screen as text, or lines of JSON.

use std::env;
use std::process::ExitCode;
use std::time::SystemTime;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::events::{Event, Events};
use super::model::Model;
use super::sample::Process;
use super::take::Taker;
use super::ui::Ui;
use super::{Args, json, sample, table, view};
use crate::{exit, message, output};

/// Looks again after each interval, until the process ends or a signal says that it is enough.
pub(super) fn run(
    mut taker: Taker,
    mut model: Model,
    mut ui: Ui,
    args: &Args,
) -> Result<(), ExitCode> {
    let events = Events::of_process(taker.pid(), false).map_err(|error| {
        message::say(format_args!("cannot wait for signals: {error}"));
        ExitCode::from(exit::FAILED)
    })?;
    let is_stream = args.json && !args.once;
    if is_stream {
        print_json(&json::line(&model, now()))?;
    }
    loop {
        // One that has ended is shown as it was, at once.
        let event = (model.now.process != Process::Ended).then(|| events.wait(ui.interval));
        match event {
            Some(Event::Time) => {}
            Some(Event::Enough) => return Ok(()),
            _ if is_stream => return Ok(()),
            _ => {}
        }
        model.push(sample(&mut taker)?);
        match (args.json, args.once) {
            (true, _) => print_json(&json::line(&model, now()))?,
            (false, _) => {
                done(output::print_foreign(&screen(&model, &mut ui)?))?;
                // The line at the top may be too narrow for it.
                if model.now.not_shown > 0 {
                    message::say(format_args!("{} are not shown; see --all", model.now.not_shown));
                }
            }
        }
        if !is_stream {
            return Ok(());
        }
    }
}

fn print_json(text: &str) -> Result<(), ExitCode> {
    done(output::print_json(text))
}

fn done(printed: ExitCode) -> Result<(), ExitCode> {
    match printed {
        code if code == ExitCode::from(exit::DONE) => Ok(()),
        code => Err(code),
    }
}

/// The time of day, in seconds.
fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
}

/// As wide as `COLUMNS` says, and as long as it must be; without the line about keys.
fn screen(model: &Model, ui: &mut Ui) -> Result<String, ExitCode> {
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    ui.has_colours = false;
    ui.size.0 = columns.unwrap_or(80).clamp(40, 500);
    let nr_rows = u16::try_from(table::visible(model, ui).len()).unwrap_or(u16::MAX);
    ui.size.1 = nr_rows.saturating_add(view::FRAME).min(10_000);
    let drawn = Terminal::new(TestBackend::new(ui.size.0, ui.size.1)).and_then(|mut terminal| {
        terminal.draw(|frame| view::draw(frame, model, ui))?;
        Ok(text(terminal.backend().buffer()))
    });
    let text = drawn.map_err(|error| {
        message::say(format_args!("cannot draw the screen: {error}"));
        ExitCode::from(exit::FAILED)
    })?;
    let lines: Vec<_> = text.lines().collect();
    Ok(lines[..lines.len().saturating_sub(1)].join("\n").trim_end().to_owned() + "\n")
}

/// The characters of a screen, without spaces at lines' ends.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let lines = buffer.content.chunks(width).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}
