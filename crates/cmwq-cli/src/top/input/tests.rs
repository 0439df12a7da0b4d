//! Keys, at a process made for it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::top::fixture;
use crate::top::table::columns;

/// A user before a screen of 80×24.
struct User {
    ui: Ui,
    model: Model,
}

impl User {
    fn new() -> Self {
        Self { ui: Ui::new(Tab::Queues, Duration::from_secs(1)), model: fixture::model() }
    }

    fn key(&mut self, code: KeyCode) -> Action {
        press(&mut self.ui, &self.model, KeyEvent::from(code))
    }

    fn types(&mut self, text: &str) {
        for letter in text.chars() {
            assert_eq!(self.key(KeyCode::Char(letter)), Action::Draw);
        }
    }

    fn erases(&mut self, letters: usize) {
        for _ in 0..letters {
            self.key(KeyCode::Backspace);
        }
    }

    /// The rows' ids.
    fn rows(&self) -> Vec<RowId> {
        visible(&self.model, &self.ui).iter().map(|row| row.id).collect()
    }

    fn under_cursor(&self) -> RowId {
        let rows = visible(&self.model, &self.ui);
        rows[cursor(&self.ui, &rows)].id
    }
}

const FETCH: RowId = RowId::Queue(1);
const RENDER: RowId = RowId::Queue(2);
const LONG: RowId = RowId::Queue(3);

#[test]
fn q_escape_and_control_c_quit() {
    assert_eq!(User::new().key(KeyCode::Char('q')), Action::Quit);
    assert_eq!(User::new().key(KeyCode::Esc), Action::Quit);
    let mut user = User::new();
    let with_control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(press(&mut user.ui, &user.model, with_control('z')), Action::Suspend);
    user.types("/abc");
    assert_eq!(press(&mut user.ui, &user.model, with_control('c')), Action::Quit);
}

#[test]
fn tab_goes_round_the_lists() {
    let mut user = User::new();
    for expected in [Tab::Pools, Tab::Workers, Tab::Decisions, Tab::Queues] {
        user.key(KeyCode::Tab);
        assert_eq!(user.ui.tab, expected);
    }
    user.key(KeyCode::BackTab);
    assert_eq!(user.ui.tab, Tab::Decisions);
    user.types("2");
    assert_eq!(user.ui.tab, Tab::Pools);
}

#[test]
fn s_sorts_by_the_next_column_and_capital_s_turns_it_round() {
    let mut user = User::new();
    assert_eq!(user.rows(), [FETCH, RENDER, LONG], "by items per second, the most first");
    user.types("S");
    assert_eq!(user.rows(), [RENDER, LONG, FETCH], "those that are equal stay as they are");
    let shown = user.ui.shown_columns().count();
    let mut seen = Vec::new();
    for _ in 0..shown {
        user.types("s");
        assert!(!user.ui.list().sort.is_reversed, "another column is sorted as is usual for it");
        seen.push(user.ui.list().sort.column);
    }
    assert_eq!(seen, [3, 4, 5, 6, 7, 0, 1, 2], "only what is on the screen");
    user.types("ssssss");
    assert_eq!(columns(Tab::Queues)[user.ui.list().sort.column].title, "QUEUE");
    assert_eq!(user.rows(), [LONG, FETCH, RENDER], "by name");
}

#[test]
fn the_cursor_moves_and_stays_with_its_row() {
    let mut user = User::new();
    user.types("j");
    assert_eq!(user.under_cursor(), RENDER);
    user.types("S");
    assert_eq!(user.under_cursor(), RENDER, "wherever it is now");
    user.key(KeyCode::End);
    assert_eq!(user.under_cursor(), FETCH);
    user.key(KeyCode::Down);
    assert_eq!(user.under_cursor(), FETCH, "there is nothing below");
    user.key(KeyCode::Home);
    user.key(KeyCode::Up);
    assert_eq!(user.under_cursor(), RENDER);
    user.key(KeyCode::PageDown);
    assert_eq!(user.under_cursor(), FETCH);
    user.key(KeyCode::PageUp);
    assert_eq!(user.under_cursor(), RENDER);
}

#[test]
fn a_row_that_goes_leaves_the_cursor_at_the_first() {
    let mut user = User::new();
    user.types("jj");
    assert_eq!(user.under_cursor(), LONG);
    let mut sample = fixture::sample();
    sample.taken_ns += 1;
    sample.queues.pop();
    user.model.push(sample);
    assert_eq!(user.under_cursor(), user.rows()[0]);
}

#[test]
fn a_filter_is_an_expression() {
    let mut user = User::new();
    user.types("/^(f|r)e");
    assert_eq!(user.rows().len(), 3, "not before Enter");
    user.key(KeyCode::Enter);
    assert_eq!(user.rows(), [FETCH, RENDER]);
    user.types("/");
    assert_eq!(user.ui.typing.as_deref(), Some("^(f|r)e"), "it can be changed");
    user.key(KeyCode::Esc);
    assert_eq!(user.rows(), [FETCH, RENDER], "Escape leaves it");
    user.types("/");
    user.erases("^(f|r)e".len());
    user.key(KeyCode::Enter);
    assert_eq!(user.rows().len(), 3, "an empty one is none");
}

#[test]
fn letters_in_a_filter_are_no_commands() {
    let mut user = User::new();
    user.types("/qps ?");
    assert_eq!(user.ui.typing.as_deref(), Some("qps ?"));
    assert!(!user.ui.is_paused && !user.ui.needs_help);
}

#[test]
fn a_bad_expression_is_said_and_kept() {
    let mut user = User::new();
    user.types("/fe(");
    user.key(KeyCode::Enter);
    assert!(
        user.ui.message.as_ref().is_some_and(|text| text.contains("unclosed")),
        "{:?}",
        user.ui
    );
    assert_eq!(user.ui.typing.as_deref(), Some("fe("));
    user.key(KeyCode::Backspace);
    assert_eq!(user.ui.message, None);
    user.key(KeyCode::Enter);
    assert_eq!(user.rows(), [FETCH]);
}

#[test]
fn filters_find_workers_by_function_and_decisions_by_reason() {
    let mut user = User::new();
    user.types("/render_page");
    user.key(KeyCode::Enter);
    assert!(user.rows().is_empty(), "no queue is called so");
    user.ui.tab = Tab::Workers;
    assert_eq!(user.rows(), [RowId::Worker(103, 2), RowId::Worker(104, 3)]);
    user.types("/");
    user.erases(20);
    user.types("creation failed");
    user.key(KeyCode::Enter);
    user.ui.tab = Tab::Decisions;
    assert_eq!(user.rows().len(), 1);
}

#[test]
fn p_pauses_and_going_on_looks_at_once() {
    let mut user = User::new();
    assert_eq!(user.key(KeyCode::Char('p')), Action::Draw);
    assert!(user.ui.is_paused);
    assert_eq!(user.key(KeyCode::Char(' ')), Action::Look);
    assert!(!user.ui.is_paused);
}

#[test]
fn enter_looks_into_a_queue_and_backspace_comes_back() {
    let mut user = User::new();
    user.types("j");
    user.key(KeyCode::Enter);
    assert_eq!((user.ui.focused(), user.ui.tab), (Some(Focus::Queue(2)), Tab::Workers));
    assert_eq!(user.rows(), [RowId::Worker(103, 2), RowId::Worker(104, 3)], "what runs its items");
    user.types("2");
    assert_eq!(user.rows(), [RowId::Pool(0), RowId::Pool(3)], "where it leads");
    user.key(KeyCode::Enter);
    assert_eq!((user.ui.focused(), user.ui.tab), (Some(Focus::Pool(0)), Tab::Decisions));
    assert_eq!(user.rows().len(), 3, "this pool's");
    user.types("1");
    assert_eq!(user.rows(), [RENDER], "what leads there");
    user.key(KeyCode::Backspace);
    assert_eq!((user.ui.focused(), user.ui.tab), (Some(Focus::Queue(2)), Tab::Pools));
    user.key(KeyCode::Backspace);
    assert_eq!((user.ui.focused(), user.ui.tab), (None, Tab::Queues));
    user.key(KeyCode::Backspace);
    assert_eq!(user.ui.focused(), None);
}

#[test]
fn plus_and_minus_change_the_interval_in_steps() {
    let mut user = User::new();
    user.types("+");
    assert_eq!(user.ui.interval, Duration::from_secs(2));
    user.types("---");
    assert_eq!(user.ui.interval, Duration::from_millis(200));
    user.types("------");
    assert_eq!(user.ui.interval, Duration::from_millis(100), "no further");
    (0..20).for_each(|_| user.types("+"));
    assert_eq!(user.ui.interval, Duration::from_secs(60), "no further");
    user.ui.interval = Duration::from_millis(1_500);
    user.types("-");
    assert_eq!(user.ui.interval, Duration::from_secs(1), "to the next step");
}

#[test]
fn help_goes_with_any_key() {
    let mut user = User::new();
    user.types("?");
    assert!(user.ui.needs_help);
    assert_eq!(user.key(KeyCode::Char('q')), Action::Draw);
    assert!(!user.ui.needs_help);
}

#[test]
fn t_asks_for_the_stack_of_the_worker_under_the_cursor() {
    let mut user = User::new();
    assert_eq!(user.key(KeyCode::Char('t')), Action::Draw, "a queue has none");
    assert!(user.ui.message.is_some());
    user.types("3");
    assert_eq!(user.key(KeyCode::Char('t')), Action::Stack(106), "the first that runs");
    user.key(KeyCode::End);
    assert_eq!(user.key(KeyCode::Char('t')), Action::Draw, "no thread, no stack");
    user.ui.stack = Some(("thread 106".to_owned(), Vec::new()));
    assert_eq!(user.key(KeyCode::Char('q')), Action::Draw);
    assert_eq!(user.ui.stack, None, "any key goes back");
}

#[test]
fn nothing_to_see_is_no_trouble() {
    let mut user = User::new();
    user.types("/no such thing");
    user.key(KeyCode::Enter);
    for code in [KeyCode::Down, KeyCode::Up, KeyCode::End, KeyCode::Home, KeyCode::Enter] {
        assert_eq!(user.key(code), Action::Draw);
    }
    assert_eq!(user.ui.focused(), None);
}
