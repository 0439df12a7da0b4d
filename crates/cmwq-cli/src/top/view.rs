//! The screen: a function of what is known and what is to be seen. Pure.
//!
//! From the top: the process; its sum or what is looked into; the lists' names; one list; the row
//! under the cursor in words; keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell as TableCell, Clear, Paragraph, Row as TableRow, Table, Wrap};

use super::about::{about, plural, queue};
use super::format::{duration, rate};
use super::input::cursor;
use super::model::{Model, State};
use super::sample::Process;
use super::table::{Column, Row, columns, visible};
use super::theme::Theme;
use super::ui::{Focus, Tab, Ui};
use super::why;

/// Lines about the row under the cursor.
const ABOUT: u16 = 3;
/// All but the rows of the list: three above, the list's titles, and keys below.
pub(super) const FRAME: u16 = 5 + ABOUT;
/// The least that a column without a width gets.
const LEAST: u16 = 10;

const KEYS: &str = "q quit  ? help  Tab list  Enter into  t stack  s sort  / filter  p pause";

const HELP: &str = "\
\x20 Tab, Left, Right, 1-4   queues, pools, workers, decisions
  Up, Down, j, k          move; also Page Up, Page Down, Home, End
  Enter                   look into a queue or a pool: only what belongs to it
  Backspace               back from there
  s                       sort by the next column;  S  the other way round
  /                       show only rows that a regular expression matches;
                          Enter applies it (an empty one: all), Esc forgets it
  p, Space                pause, go on
  t                       where a worker is: its stack (it stops for a moment)
  +, -                    look less often, more often
  q, Esc, Ctrl-C          quit;  Ctrl-Z  suspend

  ACT/MAX  12+/16: 12 items are admitted of 16, and others wait behind them
  RUN/MAX  workers that count as running, and how many may run at once
  WAITS    work waits, and nothing was started for so long
  States   runs; preempted: wants a CPU and has none; waits: sleeps in its
           item; waits (D): not to be interrupted; !: hogs the CPU
  Why      + one more worker went to work    = none, although there was work
           ~ one that ran counts no more     - one fewer    ! no thread";

/// Rows of a list on a screen of that size.
pub(super) fn list_height((_, lines): (u16, u16)) -> u16 {
    lines.saturating_sub(FRAME)
}

/// Keeps the cursor on the screen.
pub(super) fn scroll(ui: &mut Ui, rows: &[Row]) {
    let (at, height) = (cursor(ui, rows), usize::from(list_height(ui.size)).max(1));
    let list = ui.list_mut();
    let least = (at + 1).saturating_sub(height);
    list.scrolled =
        list.scrolled.clamp(least, at).min(rows.len().saturating_sub(height).max(least));
}

/// The whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, ui: &Ui) {
    let theme = Theme::new(ui.has_colours);
    let lines = [1, 1, 1].map(Constraint::Length);
    let below = [Constraint::Min(1), Constraint::Length(ABOUT), Constraint::Length(1)];
    let areas = Layout::vertical(lines.into_iter().chain(below)).split(frame.area());
    let [title_at, sum_at, tabs_at, list_at, about_at, keys_at] = *areas else { return };
    let rows = visible(model, ui);
    frame.render_widget(Paragraph::new(title(model, ui, theme)), title_at);
    frame.render_widget(Paragraph::new(sum(model, ui)), sum_at);
    frame.render_widget(Paragraph::new(tabs(ui, rows.len(), theme)), tabs_at);
    frame.render_widget(list(ui, &rows, list_at.width, theme), list_at);
    let under_cursor = rows.get(cursor(ui, &rows)).map(|row| about(model, row.id));
    let text = under_cursor.unwrap_or_else(|| nothing(model, ui));
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), about_at);
    frame.render_widget(Paragraph::new(bottom(ui, theme)), keys_at);
    if let Some((of, lines)) = &ui.stack {
        overlay(frame, theme, &format!(" {of}: any key goes back "), &lines.join("\n"));
    }
    if ui.needs_help {
        overlay(frame, theme, " cmwq top: any key goes back ", HELP);
    }
}

/// The first line.
fn title(model: &Model, ui: &Ui, theme: Theme) -> Line<'static> {
    let now = &model.now;
    let age = duration(now.taken_ns.saturating_sub(now.born_ns));
    let cpus = if now.cpus == 1 { "CPU" } else { "CPUs" };
    let mut spans = vec![
        Span::styled(format!("cmwq top {} {}", now.pid, now.command), theme.title()),
        Span::raw(format!("  {} {cpus}, {}, up {age}, ", now.cpus, now.detect)),
        Span::raw(format!("every {}", seconds(ui))),
    ];
    let mut mark = |text: &str| {
        spans.push(Span::raw("  "));
        spans.push(Span::styled(text.to_owned(), theme.alarm()));
    };
    match now.process {
        Process::Runs => {}
        Process::Stopped => mark("STOPPED"),
        Process::Ended => mark("ENDED"),
    }
    let marks = [(now.is_frozen, "FROZEN"), (now.is_shut, "SHUT DOWN"), (ui.is_paused, "PAUSED")];
    marks.into_iter().filter(|(is_so, _)| *is_so).for_each(|(_, text)| mark(text));
    if now.not_shown > 0 {
        mark(&format!("{} NOT SHOWN", now.not_shown));
    }
    Line::from(spans)
}

fn seconds(ui: &Ui) -> String {
    let ms = ui.interval.as_millis();
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

/// The second line: everything, or what is looked into.
fn sum(model: &Model, ui: &Ui) -> String {
    match ui.focused() {
        Some(Focus::Queue(key)) => {
            model.queue(key).map_or_else(|| "In a queue that is gone.".to_owned(), queue)
        }
        Some(Focus::Pool(id)) => model
            .pool(id)
            .map_or_else(|| "In a pool that is gone.".to_owned(), |pool| why::stands(pool) + "."),
        None => {
            let now = &model.now;
            let workers = model.workers();
            let of = |state: State| workers.iter().filter(|row| row.state == state).count();
            format!(
                "{}  {}  {}: {} run, {} preempted, {} wait, {} idle  {}/s",
                plural(now.queues.len() as u64, "queue"),
                plural(now.pools.len() as u64, "pool"),
                plural(workers.len() as u64, "worker"),
                of(State::Runs),
                of(State::Preempted),
                of(State::Waits) + of(State::WaitsHard),
                of(State::Idle),
                rate(model.rate(), 7),
            )
        }
    }
}

/// The third line: the lists' names, and what is seen of the one.
fn tabs(ui: &Ui, nr_rows: usize, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for tab in Tab::ALL {
        let text =
            if tab == ui.tab { format!("[{}]", tab.title()) } else { format!(" {} ", tab.title()) };
        let style = if tab == ui.tab { theme.title() } else { Style::new() };
        spans.push(Span::styled(text, style));
    }
    let sort = ui.list().sort;
    let by = columns(ui.tab).get(sort.column);
    let mut text = format!("  {}", plural(nr_rows as u64, "row"));
    if let Some(by) = by {
        let arrow = if by.is_descending == sort.is_reversed { '▲' } else { '▼' };
        text += &format!(", by {} {arrow}", by.title);
    }
    if let Some(filter) = &ui.filter {
        text += &format!(", /{filter}/");
    }
    spans.push(Span::raw(text));
    Line::from(spans)
}

/// What each shown column gets.
fn widths(shown: &[(usize, &Column)], width: u16) -> Vec<u16> {
    let gaps = u16::try_from(shown.len().saturating_sub(1)).unwrap_or(0);
    let fixed: u16 = shown.iter().map(|(_, column)| column.width).sum();
    let rest = width.saturating_sub(fixed + gaps).max(LEAST);
    shown.iter().map(|(_, column)| if column.width == 0 { rest } else { column.width }).collect()
}

/// At most so many characters. Of a name that is too long the end stays.
fn cut(text: &str, width: u16, keeps_end: bool) -> String {
    let (len, width) = (text.chars().count(), usize::from(width));
    if len <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(1);
    if keeps_end {
        return std::iter::once('…').chain(text.chars().skip(len - keep)).collect();
    }
    text.chars().take(keep).chain(['…']).collect()
}

fn aligned(text: &str, width: u16, column: &Column, keeps_end: bool) -> String {
    let (text, wide) = (cut(text, width, keeps_end), usize::from(width));
    if column.is_right { format!("{text:>wide$}") } else { format!("{text:wide$}") }
}

fn list(ui: &Ui, rows: &[Row], width: u16, theme: Theme) -> Table<'static> {
    let shown: Vec<_> = ui.shown_columns().collect();
    let widths = widths(&shown, width);
    let titles = shown
        .iter()
        .zip(&widths)
        .map(|((_, column), width)| TableCell::from(aligned(column.title, *width, column, false)));
    let header = TableRow::new(titles).style(theme.title());
    let at = cursor(ui, rows);
    let lines = rows.iter().enumerate().skip(ui.list().scrolled).map(|(place, row)| {
        let cells = shown.iter().zip(&widths).map(|((place, column), width)| {
            let cell = &row.cells[*place];
            TableCell::from(aligned(&cell.text, *width, column, cell.keeps_end))
        });
        let style = if place == at { theme.bar() } else { theme.tone(row.tone) };
        TableRow::new(cells).style(style)
    });
    let lines: Vec<_> = lines.take(usize::from(list_height(ui.size)).max(1)).collect();
    Table::new(lines, widths.into_iter().map(Constraint::Length)).header(header).column_spacing(1)
}

/// Why a list is empty.
fn nothing(model: &Model, ui: &Ui) -> String {
    let has_ended = model.now.process == Process::Ended;
    let what = match (&ui.filter, ui.focused()) {
        (Some(filter), _) => format!("Nothing matches /{filter}/."),
        (None, Some(_)) => "Nothing of it here.".to_owned(),
        (None, None) if has_ended => "What was here has gone.".to_owned(),
        (None, None) => "Nothing here yet.".to_owned(),
    };
    if has_ended { what + " The process has ended." } else { what }
}

/// The last line.
fn bottom(ui: &Ui, theme: Theme) -> Line<'static> {
    let complaint =
        ui.message.as_ref().map(|text| Span::styled(format!("  {text}"), theme.alarm()));
    match &ui.typing {
        Some(typed) => {
            let line = Line::from(vec![
                Span::styled("Filter: ", theme.title()),
                Span::raw(format!("{typed}▏")),
            ]);
            complaint.into_iter().fold(line, |mut line, span| {
                line.push_span(span);
                line
            })
        }
        None => complaint.map_or_else(|| Line::from(KEYS), Line::from),
    }
}

/// Above everything else, as large as it must be, and the screen is.
fn overlay(frame: &mut Frame<'_>, theme: Theme, title: &str, text: &str) {
    let whole = frame.area();
    let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let columns = u16::try_from(longest).unwrap_or(u16::MAX).max(60);
    let area = Rect {
        height: lines.saturating_add(2).min(whole.height),
        width: columns.saturating_add(2).min(whole.width),
        ..whole
    };
    let block = Block::bordered().title(title.to_owned()).title_style(theme.title());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text.to_owned()).block(block), area);
}

#[cfg(test)]
mod tests;
