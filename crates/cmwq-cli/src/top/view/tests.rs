//! Screens of a process made for it, cell by cell, with their styles.
//!
//! `CMWQ_BLESS=1` writes them: then look at what has changed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Color, Modifier};

use super::*;
use crate::top::fixture;
use crate::top::input::press;
use crate::top::plain::text;

/// What is on a screen of that size after these keys; `\n` is Enter.
fn screen(model: &Model, size: (u16, u16), keys: &str, change: impl FnOnce(&mut Ui)) -> Buffer {
    let mut ui = Ui::new(Tab::Queues, Duration::from_secs(1));
    ui.size = size;
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        let _ = press(&mut ui, model, KeyEvent::from(code));
    }
    change(&mut ui);
    let rows = visible(model, &ui);
    scroll(&mut ui, &rows);
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw(frame, model, &ui)).unwrap();
    terminal.backend().buffer().clone()
}

/// A letter for a cell's style.
fn style(cell: &Cell) -> char {
    match (cell.fg, cell.modifier) {
        (_, Modifier::REVERSED) => '#',
        (Color::Reset, Modifier::BOLD) => 'b',
        (Color::Reset, Modifier::DIM) => 'd',
        (Color::Indexed(28), _) => 'g',
        (Color::Indexed(166), _) => 'o',
        (Color::Indexed(160), Modifier::BOLD) => 'r',
        (Color::Reset, modifier) if modifier.is_empty() => '.',
        _ => '?',
    }
}

fn styles(buffer: &Buffer) -> String {
    let lines = buffer.content.chunks(usize::from(buffer.area.width));
    lines.map(|line| line.iter().map(style).collect::<String>() + "\n").collect()
}

#[track_caller]
fn check(name: &str, buffer: &Buffer) {
    let shown = format!("{}---- styles\n{}", text(buffer), styles(buffer));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/view/screens").join(name);
    if std::env::var_os("CMWQ_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &shown).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == shown, "{name} should be\n{expected}\nand is\n{shown}");
}

#[track_caller]
fn check_keys(name: &str, size: (u16, u16), keys: &str) {
    check(name, &screen(&fixture::model(), size, keys, |_| ()));
}

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (120, 40);

#[test]
fn the_lists_on_a_small_screen() {
    check_keys("queues-80x24.txt", SMALL, "");
    check_keys("pools-80x24.txt", SMALL, "2j");
    check_keys("workers-80x24.txt", SMALL, "3j");
    check_keys("decisions-80x24.txt", SMALL, "4");
}

#[test]
fn the_lists_on_a_large_screen() {
    check_keys("queues-120x40.txt", LARGE, "j");
    check_keys("pools-120x40.txt", LARGE, "2");
    check_keys("workers-120x40.txt", LARGE, "3");
    check_keys("decisions-120x40.txt", LARGE, "4j");
}

#[test]
fn help_and_what_is_typed() {
    check_keys("help-80x24.txt", SMALL, "?");
    check_keys("typing-80x24.txt", SMALL, "/fe(\n");
    check_keys("filtered-80x24.txt", SMALL, "/re\nS");
}

#[test]
fn looking_into_a_queue_and_a_pool() {
    check_keys("in-queue-80x24.txt", SMALL, "j\n");
    check_keys("in-pool-80x24.txt", SMALL, "2jj\n");
}

#[test]
fn where_a_thread_is() {
    let lines = ["At src/main.rs:7 in program::spin", "  program::spin at src/main.rs:7"];
    let with_stack = |ui: &mut Ui| {
        ui.stack = Some(("thread 106".to_owned(), lines.map(str::to_owned).to_vec()));
    };
    check("stack-80x24.txt", &screen(&fixture::model(), SMALL, "3", with_stack));
}

#[test]
fn what_waits_outside_of_the_process() {
    let mut sample = fixture::sample();
    sample.queues[0].outside = 4_321;
    let model = Model::new(sample);
    let at = |size| text(&screen(&model, size, "", |_| ()));
    let (small, wide) = (at(SMALL), at((140, 40)));
    // Broken into lines.
    let told = small.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("4321 items wait outside of the process"), "{small}");
    assert!(!small.contains("OUTSIDE"), "{small}");
    let title = wide.lines().find(|line| line.ends_with("OUTSIDE")).expect(&wide);
    let row = wide.lines().find(|line| line.starts_with("fetch")).expect(&wide);
    assert_eq!(row.len(), title.len());
    assert!(row.ends_with("4321"), "{wide}");
}

#[test]
fn a_process_that_has_ended_while_paused() {
    let mut sample = fixture::sample();
    sample.process = Process::Ended;
    sample.is_frozen = true;
    sample.queues.clear();
    sample.not_shown = 3;
    let model = Model::new(sample);
    check("ended-80x24.txt", &screen(&model, SMALL, "p+", |_| ()));
}

#[test]
fn without_colours_all_is_the_terminals_own() {
    for tab in Tab::ALL {
        let buffer = screen(&fixture::model(), SMALL, "", |ui| {
            ui.has_colours = false;
            ui.tab = tab;
        });
        assert!(
            buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset))
        );
    }
}

#[test]
fn no_screen_is_too_small_or_too_large() {
    for columns in [1, 2, 20, 39, 79, 81, 300] {
        for lines in [1, 2, 3, 7, 9, 10, 200] {
            for keys in ["", "2", "3", "4", "?", "/abc", "j\n"] {
                let buffer = screen(&fixture::model(), (columns, lines), keys, |_| ());
                assert_eq!(buffer.area.area(), u32::from(columns) * u32::from(lines));
            }
        }
    }
}

#[test]
fn long_lists_scroll_with_the_cursor() {
    let mut sample = fixture::sample();
    sample.queues =
        (0..100).map(|key| fixture::queue(key, &format!("queue-{key:02}"), "percpu")).collect();
    let model = Model::new(sample);
    let mut ui = Ui::new(Tab::Queues, Duration::from_secs(1));
    let height = usize::from(list_height(ui.size));
    let mut go = |code: KeyCode| {
        let _ = press(&mut ui, &model, KeyEvent::from(code));
        let rows = visible(&model, &ui);
        scroll(&mut ui, &rows);
        (cursor(&ui, &rows), ui.list().scrolled)
    };
    assert_eq!(go(KeyCode::End), (99, 100 - height));
    assert_eq!(go(KeyCode::Up), (98, 100 - height), "the list stays while the cursor is in it");
    assert_eq!(go(KeyCode::Home), (0, 0));
    assert_eq!(go(KeyCode::PageDown), (height, 1));
}

#[test]
fn what_is_too_long_is_cut_where_it_tells_least() {
    assert_eq!(cut("abcdef", 6, false), "abcdef");
    assert_eq!(cut("abcdef", 4, false), "abc…");
    assert_eq!(cut("abcdef", 4, true), "…def");
    assert_eq!(cut("äöüß", 3, true), "…üß");
}
