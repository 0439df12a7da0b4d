//! Keys change what is seen. Pure.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use regex::Regex;

use super::model::Model;
use super::table::{RowId, visible};
use super::ui::{Focus, Tab, Ui};
use super::view;

/// What is left to do for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing but to draw.
    Draw,
    /// Another look at the process, now.
    Look,
    /// Where this thread is, for [`Ui::stack`].
    Stack(u32),
    /// The terminal's ordinary screen, until the shell continues us.
    Suspend,
    Quit,
}

/// Steps of `+` and `-`, in milliseconds.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// A key was pressed.
pub(super) fn press(ui: &mut Ui, model: &Model, key: KeyEvent) -> Action {
    ui.message = None;
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Action::Quit,
            KeyCode::Char('z') => Action::Suspend,
            KeyCode::Char('l') => Action::Look,
            _ => Action::Draw,
        };
    }
    if ui.typing.is_some() {
        type_filter(ui, key.code);
        return Action::Draw;
    }
    if ui.needs_help || ui.stack.is_some() {
        (ui.needs_help, ui.stack) = (false, None);
        return Action::Draw;
    }
    command(ui, model, key.code)
}

fn command(ui: &mut Ui, model: &Model, code: KeyCode) -> Action {
    let page = usize::from(view::list_height(ui.size)).max(1);
    match code {
        KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => ui.needs_help = true,
        KeyCode::Up | KeyCode::Char('k') => step(ui, model, |at, _| at.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => step(ui, model, |at, _| at + 1),
        KeyCode::PageUp => step(ui, model, |at, _| at.saturating_sub(page)),
        KeyCode::PageDown => step(ui, model, |at, _| at + page),
        KeyCode::Home | KeyCode::Char('g') => step(ui, model, |_, _| 0),
        KeyCode::End | KeyCode::Char('G') => step(ui, model, |_, len| len),
        KeyCode::Tab | KeyCode::Right => turn(ui, 1),
        KeyCode::BackTab | KeyCode::Left => turn(ui, Tab::ALL.len() - 1),
        KeyCode::Char(digit @ '1'..='4') => ui.tab = Tab::ALL[digit as usize - '1' as usize],
        KeyCode::Char('s') => next_column(ui),
        KeyCode::Char('S') => {
            let sort = &mut ui.list_mut().sort;
            sort.is_reversed = !sort.is_reversed;
        }
        KeyCode::Char('/') => {
            ui.typing = Some(ui.filter.as_ref().map_or(String::new(), |it| it.as_str().to_owned()));
        }
        KeyCode::Char('p' | ' ') => {
            ui.is_paused = !ui.is_paused;
            return if ui.is_paused { Action::Draw } else { Action::Look };
        }
        KeyCode::Enter => enter(ui, model),
        KeyCode::Char('t') => return stack(ui, model),
        KeyCode::Backspace => {
            if let Some((_, tab)) = ui.focus.pop() {
                ui.tab = tab;
            }
        }
        KeyCode::Char('+' | '=') => change_interval(ui, true),
        KeyCode::Char('-') => change_interval(ui, false),
        _ => {}
    }
    Action::Draw
}

/// Where the cursor is among the rows.
pub(super) fn cursor(ui: &Ui, rows: &[super::table::Row]) -> usize {
    let selected = ui.list().selected;
    rows.iter().position(|row| Some(row.id) == selected).unwrap_or(0)
}

fn step(ui: &mut Ui, model: &Model, to: impl FnOnce(usize, usize) -> usize) {
    let rows = visible(model, ui);
    let to = to(cursor(ui, &rows), rows.len()).min(rows.len().saturating_sub(1));
    ui.list_mut().selected = rows.get(to).map(|row| row.id);
}

fn turn(ui: &mut Ui, by: usize) {
    ui.tab = Tab::ALL[(ui.tab.place() + by) % Tab::ALL.len()];
}

fn next_column(ui: &mut Ui) {
    let shown: Vec<usize> = ui.shown_columns().map(|(place, _)| place).collect();
    let sort = &mut ui.list_mut().sort;
    let next = shown.iter().copied().find(|place| *place > sort.column);
    sort.column = next.or(shown.first().copied()).unwrap_or(0);
    sort.is_reversed = false;
}

/// Looks into what is under the cursor.
fn enter(ui: &mut Ui, model: &Model) {
    let rows = visible(model, ui);
    let Some(row) = rows.get(cursor(ui, &rows)) else { return };
    let pool_of = |place: usize| model.now.workers.get(place)?.pool;
    let (focus, tab) = match row.id {
        RowId::Queue(key) => (Focus::Queue(key), Tab::Workers),
        RowId::Pool(id) => (Focus::Pool(id), Tab::Decisions),
        RowId::Decision(id, ..) => (Focus::Pool(id), Tab::Workers),
        RowId::Worker(_, place) => match pool_of(place) {
            Some(id) => (Focus::Pool(id), Tab::Decisions),
            None => return,
        },
    };
    if ui.focused() != Some(focus) {
        ui.focus.push((focus, ui.tab));
        ui.tab = tab;
    }
}

/// Of the worker under the cursor.
fn stack(ui: &mut Ui, model: &Model) -> Action {
    let rows = visible(model, ui);
    match rows.get(cursor(ui, &rows)).map(|row| row.id) {
        Some(RowId::Worker(tid, _)) if tid != 0 => return Action::Stack(tid),
        _ => ui.message = Some("stacks are those of workers: Tab leads to them".to_owned()),
    }
    Action::Draw
}

fn type_filter(ui: &mut Ui, code: KeyCode) {
    let Some(mut typed) = ui.typing.take() else { return };
    match code {
        KeyCode::Esc => return,
        KeyCode::Enter if typed.is_empty() => {
            ui.filter = None;
            return;
        }
        KeyCode::Enter => match Regex::new(&typed) {
            Ok(filter) => {
                ui.filter = Some(filter);
                return;
            }
            // The parser draws a picture; its last line says what is wrong.
            Err(error) => {
                ui.message = error.to_string().lines().last().map(str::to_owned);
            }
        },
        KeyCode::Backspace => {
            typed.pop();
        }
        KeyCode::Char(letter) => typed.push(letter),
        _ => {}
    }
    ui.typing = Some(typed);
}

fn change_interval(ui: &mut Ui, is_longer: bool) {
    let now = u64::try_from(ui.interval.as_millis()).unwrap_or(u64::MAX);
    let next = if is_longer {
        INTERVALS.into_iter().find(|step| *step > now)
    } else {
        INTERVALS.into_iter().rev().find(|step| *step < now)
    };
    if let Some(next) = next {
        ui.interval = Duration::from_millis(next);
    }
}

#[cfg(test)]
mod tests;
