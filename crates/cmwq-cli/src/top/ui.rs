//! What the user has chosen to see. Plain values, changed by [`input`](super::input).

use std::time::Duration;

use regex::Regex;

use super::table::{Column, RowId, columns};

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tab {
    Queues,
    Pools,
    Workers,
    Decisions,
}

impl Tab {
    pub(super) const ALL: [Self; 4] = [Self::Queues, Self::Pools, Self::Workers, Self::Decisions];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Queues => "Queues",
            Self::Pools => "Pools",
            Self::Workers => "Workers",
            Self::Decisions => "Decisions",
        }
    }

    pub(super) const fn place(self) -> usize {
        self as usize
    }
}

/// What is looked into: the lists show what has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Queue(u32),
    Pool(u32),
}

/// How a list is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort {
    /// A place in the list's columns.
    pub(super) column: usize,
    /// The other way round than is usual for the column.
    pub(super) is_reversed: bool,
}

/// Of one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListState {
    pub(super) sort: Sort,
    /// The row under the cursor; `None`: the first.
    pub(super) selected: Option<RowId>,
    /// How many rows are above the screen.
    pub(super) scrolled: usize,
}

/// See the module header.
#[derive(Clone, Debug)]
pub(super) struct Ui {
    pub(super) tab: Tab,
    pub(super) lists: [ListState; Tab::ALL.len()],
    /// Innermost last, each with the list to go back to.
    pub(super) focus: Vec<(Focus, Tab)>,
    pub(super) filter: Option<Regex>,
    /// The expression that is being typed.
    pub(super) typing: Option<String>,
    pub(super) is_paused: bool,
    pub(super) needs_help: bool,
    /// Of a thread: a title, and lines.
    pub(super) stack: Option<(String, Vec<String>)>,
    pub(super) interval: Duration,
    /// Columns and lines of the screen.
    pub(super) size: (u16, u16),
    pub(super) has_colours: bool,
    /// What is to be said once.
    pub(super) message: Option<String>,
}

impl Ui {
    pub(super) fn new(tab: Tab, interval: Duration) -> Self {
        let mut lists = [ListState::default(); Tab::ALL.len()];
        for tab in Tab::ALL {
            lists[tab.place()].sort.column =
                columns(tab).iter().position(|column| column.is_first_choice).unwrap_or(0);
        }
        Self {
            tab,
            lists,
            focus: Vec::new(),
            filter: None,
            typing: None,
            is_paused: false,
            needs_help: false,
            stack: None,
            interval,
            size: (80, 24),
            has_colours: true,
            message: None,
        }
    }

    pub(super) fn list(&self) -> &ListState {
        &self.lists[self.tab.place()]
    }

    pub(super) fn list_mut(&mut self) -> &mut ListState {
        &mut self.lists[self.tab.place()]
    }

    pub(super) fn focused(&self) -> Option<Focus> {
        self.focus.last().map(|(focus, _)| *focus)
    }

    /// Columns that there is room for, with their places.
    pub(super) fn shown_columns(&self) -> impl Iterator<Item = (usize, &'static Column)> {
        let width = self.size.0;
        columns(self.tab).iter().enumerate().filter(move |(_, column)| column.from <= width)
    }
}
