//! The four lists: their columns, rows, sorting and filtering. Pure.

use std::cmp::Ordering;

use super::format::{count, duration, percent, rate};
use super::model::{DecisionRow, Effect, Model, PoolRow, QueueRow, State, WorkerRow};
use super::sample::Queue;
use super::ui::{Focus, Tab, Ui};

/// What a row is about, from one look to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowId {
    Queue(u32),
    Pool(u32),
    /// A thread, and the place of the record for those that have none.
    Worker(u32, usize),
    /// Pool, reason and time of the first.
    Decision(u32, cmwq_observe::inspect::Reason, u64),
}

/// A column of a list.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// 0: what the others leave.
    pub(super) width: u16,
    pub(super) is_right: bool,
    /// Shown on screens of so many columns.
    pub(super) from: u16,
    /// The greatest first, usually.
    pub(super) is_descending: bool,
    /// What the list is sorted by at first.
    pub(super) is_first_choice: bool,
}

const fn text(title: &'static str, width: u16) -> Column {
    let (is_right, is_descending) = (false, false);
    Column { title, width, is_right, from: 0, is_descending, is_first_choice: false }
}

const fn number(title: &'static str, width: u16) -> Column {
    Column { is_right: true, is_descending: true, ..text(title, width) }
}

const fn ascending(title: &'static str, width: u16) -> Column {
    Column { is_right: true, ..text(title, width) }
}

/// Only on wide screens.
const fn wide(column: Column) -> Column {
    Column { from: 110, ..column }
}

const fn first(column: Column) -> Column {
    Column { is_first_choice: true, ..column }
}

const QUEUES: &[Column] = &[
    text("QUEUE", 0),
    text("TYPE", 8),
    first(number("ITEMS/S", 7)),
    number("INFL", 5),
    number("ACT/MAX", 9),
    number("CPU%", 5),
    number("OLDEST", 6),
    number("TOTAL", 9),
    wide(number("CPUTIME", 8)),
    wide(number("CPUITSV", 7)),
    wide(number("CMW/RPR", 7)),
    wide(number("MAYDAY", 7)),
    wide(number("RESCUED", 7)),
    Column { from: 130, ..number("OUTSIDE", 7) },
];

const POOLS: &[Column] = &[
    first(ascending("POOL", 4)),
    text("CPUS", 7),
    text("KIND", 7),
    number("IDLE/W", 7),
    number("RUN/MAX", 7),
    number("WAITS", 5),
    wide(ascending("NICE", 4)),
    wide(number("CREATED", 7)),
    wide(number("CULLED", 7)),
    wide(number("FAILED", 7)),
    ascending("LAST", 5),
    text("WHY IT DID OR DID NOT GROW", 0),
];

const WORKERS: &[Column] = &[
    text("WORKER", 13),
    ascending("TID", 7),
    first(text("STATE", 9)),
    number("CPU%", 4),
    wide(number("WAIT%", 5)),
    number("FOR", 5),
    wide(ascending("POOL", 4)),
    wide(number("RUNS", 10)),
    text("QUEUE", 14),
    text("FUNCTION", 0),
];

const DECISIONS: &[Column] = &[
    first(ascending("LAST", 5)),
    number("FOR", 5),
    number("TIMES", 8),
    number("NEW", 6),
    ascending("POOL", 4),
    text("CPUS", 7),
    text("DECISION", 0),
];

/// Those of a list.
pub(super) const fn columns(tab: Tab) -> &'static [Column] {
    match tab {
        Tab::Queues => QUEUES,
        Tab::Pools => POOLS,
        Tab::Workers => WORKERS,
        Tab::Decisions => DECISIONS,
    }
}

/// How a row is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// Nothing goes on there.
    Faint,
    Good,
    Notable,
    Bad,
}

/// What a cell is sorted by.
#[derive(Clone, Debug, PartialEq)]
enum Order {
    Number(f64),
    Text(String),
}

/// One of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    /// The end is what tells such texts apart, if they must be cut.
    pub(super) keeps_end: bool,
    order: Order,
}

/// One of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) id: RowId,
    pub(super) cells: Vec<Cell>,
    pub(super) tone: Tone,
    /// What a filter is looked for in.
    searched: String,
    queues: Vec<u32>,
    pool: Option<u32>,
}

fn words(text: impl Into<String>) -> Cell {
    let text = text.into();
    Cell { order: Order::Text(text.clone()), text, keeps_end: false }
}

fn name(text: impl Into<String>) -> Cell {
    Cell { keeps_end: true, ..words(text) }
}

fn value(text: impl Into<String>, order: f64) -> Cell {
    Cell { text: text.into(), order: Order::Number(order), keeps_end: false }
}

fn number_cell(number: u64, width: usize) -> Cell {
    value(count(number, width), number as f64)
}

fn rate_cell(of: Option<f64>, width: usize) -> Cell {
    value(rate(of, width), of.unwrap_or(-1.0))
}

fn percent_cell(of: Option<f64>) -> Cell {
    value(percent(of), of.unwrap_or(-1.0))
}

fn time_cell(ns: Option<u64>) -> Cell {
    value(ns.map_or("-".to_owned(), duration), ns.map_or(-1.0, |ns| ns as f64))
}

fn or_dash(is_told: bool, number: u64, width: usize) -> Cell {
    if is_told { number_cell(number, width) } else { value("-", -1.0) }
}

/// The rows that are to be seen, in their order.
pub(super) fn visible(model: &Model, ui: &Ui) -> Vec<Row> {
    let mut rows: Vec<Row> = match ui.tab {
        Tab::Queues => model.queues().iter().map(queue_row).collect(),
        Tab::Pools => model.pools().iter().map(pool_row).collect(),
        Tab::Workers => worker_rows(model),
        Tab::Decisions => model.decisions().iter().map(|row| decision_row(model, row)).collect(),
    };
    if let Some(focus) = ui.focused() {
        rows.retain(|row| belongs(model, row, focus));
    }
    if let Some(filter) = &ui.filter {
        rows.retain(|row| filter.is_match(&row.searched));
    }
    let sort = ui.list().sort;
    let is_descending = columns(ui.tab).get(sort.column).is_some_and(|column| column.is_descending);
    rows.sort_by(|a, b| {
        let order = compare(&a.cells[sort.column].order, &b.cells[sort.column].order);
        if is_descending == sort.is_reversed { order } else { order.reverse() }
    });
    rows
}

fn compare(a: &Order, b: &Order) -> Ordering {
    match (a, b) {
        (Order::Number(a), Order::Number(b)) => a.total_cmp(b),
        (Order::Text(a), Order::Text(b)) => a.cmp(b),
        (Order::Number(_), Order::Text(_)) => Ordering::Less,
        (Order::Text(_), Order::Number(_)) => Ordering::Greater,
    }
}

fn belongs(model: &Model, row: &Row, focus: Focus) -> bool {
    match (focus, row.id) {
        (Focus::Queue(key), RowId::Queue(_) | RowId::Worker(..)) => row.queues.contains(&key),
        (Focus::Queue(key), _) => {
            let pools = model.queue(key).map(|queue| &queue.pools[..]).unwrap_or_default();
            row.pool.is_some_and(|pool| pools.contains(&pool))
        }
        (Focus::Pool(id), RowId::Queue(key)) => {
            model.queue(key).is_some_and(|queue| queue.pools.contains(&id))
        }
        (Focus::Pool(id), _) => row.pool == Some(id),
    }
}

fn queue_row(row: &QueueRow<'_>) -> Row {
    let queue = row.queue;
    let is_unbound = matches!(queue.kind, "unbound" | "ordered");
    let is_behind = !queue.behind.is_empty();
    // The plus: others wait behind the limit.
    let active =
        format!("{}{}/{}", queue.nr_active, if is_behind { "+" } else { "" }, queue.max_active);
    let tone = match row {
        _ if is_behind => Tone::Notable,
        QueueRow { in_flight: 0, rate, .. } if rate.is_none_or(|rate| rate == 0.0) => Tone::Faint,
        _ => Tone::Plain,
    };
    let or_rescuer = |number| or_dash(queue.is_mem_reclaim, number, 7);
    Row {
        id: RowId::Queue(queue.key),
        cells: vec![
            name(&*queue.name),
            words(queue.kind),
            rate_cell(row.rate, 7),
            number_cell(row.in_flight, 5),
            value(active, queue.nr_active as f64),
            percent_cell(row.cpu),
            time_cell(row.oldest_ns),
            number_cell(queue.started, 9),
            value(format!("{:.1}", queue.cpu_ns as f64 / 1e9), queue.cpu_ns as f64),
            or_dash(!is_unbound, queue.cpu_intensive, 7),
            number_cell(if is_unbound { queue.repatriated } else { queue.cm_wakeup }, 7),
            or_rescuer(queue.mayday),
            or_rescuer(queue.rescued),
            number_cell(queue.outside, 7),
        ],
        tone,
        searched: queue.name.clone(),
        queues: vec![queue.key],
        pool: None,
    }
}

fn names_of(queues: &[&Queue]) -> String {
    queues.iter().map(|queue| &*queue.name).collect::<Vec<_>>().join("\n")
}

fn pool_row(row: &PoolRow<'_>) -> Row {
    let pool = row.pool;
    let limit = pool.concurrency.map_or("-".to_owned(), |limit| limit.to_string());
    let (ago, why) = match row.last {
        None => (value("-", f64::MAX), words("")),
        Some(last) => {
            let sign = Effect::of(last.reason).sign();
            (time_cell(row.last_ago_ns), words(format!("{sign} {}", last.reason)))
        }
    };
    Row {
        id: RowId::Pool(pool.id),
        cells: vec![
            number_cell(pool.id.into(), 4),
            words(&*pool.cpus),
            words(pool.kind),
            value(format!("{}/{}", pool.nr_idle, pool.nr_workers), pool.nr_workers.into()),
            value(format!("{}/{limit}", pool.nr_running), pool.nr_running.into()),
            time_cell(row.waits_ns),
            value(pool.nice.to_string(), pool.nice.into()),
            number_cell(pool.created, 7),
            number_cell(pool.culled, 7),
            number_cell(pool.failed, 7),
            ago,
            why,
        ],
        tone: match row {
            _ if pool.failed > 0 => Tone::Bad,
            _ if pool.work_waits => Tone::Notable,
            _ if pool.nr_idle == pool.nr_workers => Tone::Faint,
            _ => Tone::Plain,
        },
        searched: names_of(&row.queues),
        queues: row.queues.iter().map(|queue| queue.key).collect(),
        pool: Some(pool.id),
    }
}

/// Of those that are equal otherwise, who has been at it for longest comes first.
fn worker_rows(model: &Model) -> Vec<Row> {
    let workers = model.workers();
    let mut rows: Vec<_> = workers.iter().enumerate().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.since_ns));
    rows.into_iter().map(worker_row).collect()
}

fn worker_row((place, row): (usize, &WorkerRow<'_>)) -> Row {
    let worker = row.worker;
    let queue = row.queue.map_or("", |queue| &*queue.name);
    let function = row.function.as_deref().unwrap_or_default();
    let pool = worker.pool.map_or(value("-", -1.0), |pool| number_cell(pool.into(), 4));
    Row {
        id: RowId::Worker(worker.tid, place),
        cells: vec![
            name(&*worker.name),
            number_cell(worker.tid.into(), 7),
            state_cell(row),
            percent_cell(row.cpu),
            percent_cell(row.wait),
            time_cell((row.since_ns > 0).then_some(row.since_ns)),
            pool,
            number_cell(worker.runs, 10),
            name(queue),
            name(function),
        ],
        tone: match row.state {
            State::Runs if worker.is_hog => Tone::Bad,
            State::Runs => Tone::Good,
            State::Preempted | State::WaitsHard | State::Stopped => Tone::Notable,
            State::Waits => Tone::Plain,
            State::Idle | State::NoThread => Tone::Faint,
        },
        searched: format!("{}\n{queue}\n{function}", worker.name),
        queues: row.queue.map(|queue| queue.key).into_iter().collect(),
        pool: worker.pool,
    }
}

fn state_cell(row: &WorkerRow<'_>) -> Cell {
    let mark = if row.worker.is_hog { "!" } else { "" };
    value(format!("{}{mark}", row.state.name()), f64::from(row.state as u8))
}

fn decision_row(model: &Model, row: &DecisionRow<'_>) -> Row {
    let (pool, decision) = (row.pool, row.decision);
    let effect = Effect::of(decision.reason);
    let queues = model.pool_row(pool).queues;
    let more = row.more.map_or(value("-", -1.0), |more| number_cell(more, 6));
    Row {
        id: RowId::Decision(pool.id, decision.reason, decision.first_ns),
        cells: vec![
            time_cell(Some(row.ago_ns)),
            time_cell(Some(row.span_ns)),
            number_cell(decision.count, 8),
            more,
            number_cell(pool.id.into(), 4),
            words(&*pool.cpus),
            words(format!("{} {}", effect.sign(), decision.reason)),
        ],
        tone: match effect {
            Effect::Alarm => Tone::Bad,
            Effect::Grew => Tone::Good,
            Effect::Stayed => Tone::Notable,
            Effect::Room | Effect::Shrank => Tone::Plain,
        },
        searched: format!("{}\n{}", decision.reason, names_of(&queues)),
        queues: queues.iter().map(|queue| queue.key).collect(),
        pool: Some(pool.id),
    }
}
