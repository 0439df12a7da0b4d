//! The terminal, and the loop around everything else.

#[cfg(test)]
mod tests;

use std::env;
use std::io::{self, BufWriter, IsTerminal as _, Stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::process::{Signal, getpid, kill_process};

use super::events::{Event, Events};
use super::input::{Action, press};
use super::model::Model;
use super::sample::Process;
use super::take::Taker;
use super::ui::Ui;
use super::{table, view};
use crate::descriptors::Waiting;
use crate::{exit, message, paint};

/// Says why there can be no live view here.
///
/// # Errors
/// The exit code.
pub(super) fn check_terminal() -> Result<(), ExitCode> {
    let why = if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        "standard input and output must be a terminal"
    } else if env::var_os("TERM").is_some_and(|term| term == "dumb") {
        "a dumb terminal cannot show it (TERM=dumb)"
    } else {
        return Ok(());
    };
    message::say(format_args!("top: {why}; --once and --json need none"));
    Err(ExitCode::from(exit::FAILED))
}

/// Shows the process until the user has had enough. The terminal is given back whatever happens:
/// also when a signal ends this, and when it panics.
pub(super) fn run(mut taker: Taker, mut model: Model, mut ui: Ui) -> Result<(), ExitCode> {
    ui.has_colours = paint::has_screen_colours();
    let events = Events::of_process(taker.pid(), true).map_err(|error| failed(&error))?;
    let mut terminal = take_terminal().map_err(|error| failed(&error))?;
    events.add_terminal();
    let end = watch(&mut terminal, &mut taker, &mut model, &mut ui, &events);
    ratatui::restore();
    end.map_err(|error| failed(&error))
}

/// The terminal, which is waited for where it does not wait.
type Screen = Terminal<CrosstermBackend<BufWriter<Waiting<Stdout>>>>;

/// Also sees to it that a panic, of whichever thread, gives it back.
fn take_terminal() -> io::Result<Screen> {
    drop(ratatui::try_init()?);
    Terminal::new(CrosstermBackend::new(BufWriter::new(Waiting(io::stdout()))))
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    message::say(format_args!("top: {error}"));
    ExitCode::from(exit::FAILED)
}

fn watch(
    terminal: &mut Screen,
    taker: &mut Taker,
    model: &mut Model,
    ui: &mut Ui,
    events: &Events,
) -> io::Result<()> {
    let mut last_look = Instant::now();
    loop {
        draw(terminal, model, ui)?;
        let needs_look = match events.wait(time_left(model, ui, last_look)) {
            Event::Enough => return Ok(()),
            Event::Resize => false,
            Event::Ended => {
                taker.end();
                true
            }
            Event::Time => true,
            Event::Key(key) => match press(ui, model, key) {
                Action::Quit => return Ok(()),
                Action::Draw => false,
                Action::Look => true,
                // The number may be another thread's by now.
                Action::Stack(_) if model.now.process == Process::Ended => false,
                Action::Stack(tid) => {
                    ui.stack = Some((format!("thread {tid}"), taker.stack(tid)));
                    false
                }
                Action::Suspend => {
                    suspend(terminal)?;
                    true
                }
            },
        };
        if needs_look && !ui.is_paused {
            model.push(taker.sample().map_err(io::Error::other)?);
            last_look = Instant::now();
        }
    }
}

/// Until the next look. One who has paused looks no more, and nothing changes of a process that has
/// ended.
fn time_left(model: &Model, ui: &Ui, last_look: Instant) -> Duration {
    if ui.is_paused || model.now.process == Process::Ended {
        return Duration::from_secs(3600);
    }
    ui.interval.saturating_sub(last_look.elapsed())
}

fn draw(terminal: &mut Screen, model: &Model, ui: &mut Ui) -> io::Result<()> {
    terminal.autoresize()?;
    let size = terminal.size()?;
    ui.size = (size.width, size.height);
    let rows = table::visible(model, ui);
    view::scroll(ui, &rows);
    terminal.draw(|frame| view::draw(frame, model, ui))?;
    Ok(())
}

/// As the shell's Ctrl-Z does.
fn suspend(terminal: &mut Screen) -> io::Result<()> {
    terminal.show_cursor()?;
    ratatui::restore();
    kill_process(getpid(), Signal::TSTP)?;
    // Its screen is empty, and all is drawn. `clear` would ask the terminal for the cursor, whose
    // answer the thread gets that reads keys.
    *terminal = take_terminal()?;
    Ok(())
}
