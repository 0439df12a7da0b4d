//! What is printed.

use cmwq::sysfs::Attribute;
use cmwq_observe::control::{ConnectError, Item, Listing, Target};
use os_display::Quotable as _;
use serde_json::{Map, Value, json};

/// An attribute that was set.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) attribute: String,
    pub(super) was: String,
    pub(super) is: String,
}

/// Why something was not.
#[derive(Debug)]
pub(super) struct Failure {
    kind: String,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(kind: &str, text: String) -> Self {
        Self { kind: kind.to_owned(), text }
    }

    pub(super) fn connecting(error: &ConnectError) -> Self {
        let kind = match error {
            ConnectError::NoProcess(_) => "no-process",
            ConnectError::NotListening(_) => "not-listening",
            ConnectError::Denied { .. } => "denied",
            ConnectError::NotFound { .. } => "not-found",
            _ => "failed",
        };
        Self::new(kind, error.to_string())
    }
}

/// A queue in a listing.
struct Queue<'a> {
    name: &'a str,
    is_writable: bool,
    items: Vec<&'a Item>,
}

/// The attributes of the process, and the queues.
fn sorted(listing: &Listing) -> (Vec<&Item>, Vec<Queue<'_>>) {
    let (mut global, mut queues): (Vec<&Item>, Vec<Queue<'_>>) = Default::default();
    for item in &listing.items {
        let Target::Queue(name) = &item.target else {
            global.push(item);
            continue;
        };
        // Queues of one name follow each other, and each begins with its first attribute.
        let is_new = item.attribute == Attribute::ALL[0].name();
        match queues.last_mut().filter(|queue| !is_new && queue.name == name) {
            Some(queue) => queue.items.push(item),
            None => {
                let is_writable = item.mode != "-";
                queues.push(Queue { name, is_writable, items: vec![item] });
            }
        }
    }
    (global, queues)
}

/// A table of queues, below what is the process's.
pub(super) fn listing_text(listing: &Listing) -> String {
    let (global, queues) = sorted(listing);
    let mut text = String::new();
    for item in &global {
        let note = if item.mode == "rw" { "" } else { "  (read only)" };
        text += &format!("{} = {}{note}\n", item.attribute, item.value);
    }
    if !global.is_empty() && !queues.is_empty() {
        text.push('\n');
    }
    let head = ["WORKQUEUE", "WRITABLE"].map(str::to_owned);
    let mut rows = vec![
        head.into_iter().chain(Attribute::ALL.map(|a| a.name().to_owned())).collect::<Vec<_>>(),
    ];
    for queue in &queues {
        let value = |attribute: Attribute| {
            let item = queue.items.iter().find(|item| item.attribute == attribute.name());
            item.map_or_else(|| "-".to_owned(), |item| item.value.clone())
        };
        let writable = if queue.is_writable { "yes" } else { "no" };
        let start = [queue.name.maybe_quote().to_string(), writable.to_owned()];
        rows.push(start.into_iter().chain(Attribute::ALL.map(value)).collect());
    }
    if !queues.is_empty() {
        text += &table(&rows);
    }
    if listing.left_out > 0 {
        text += &format!("… and {} more; name one to see it\n", listing.left_out);
    }
    text
}

fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

pub(super) fn listing_json(pid: u32, listing: &Listing) -> String {
    let (global, queues) = sorted(listing);
    let values = |items: &[&Item]| -> Map<String, Value> {
        items.iter().map(|item| (item.attribute.clone(), item.value.clone().into())).collect()
    };
    let queues = queues.iter().map(|queue| {
        let attributes = values(&queue.items);
        json!({"name": queue.name, "writable": queue.is_writable, "attributes": attributes})
    });
    let queues: Vec<Value> = queues.collect();
    let global = values(&global);
    document(
        json!({"pid": pid, "global": global, "workqueues": queues, "left_out": listing.left_out}),
    )
}

pub(super) fn changes_text(target: &Target, changed: &[Changed]) -> String {
    let name = match target {
        Target::Queue(name) => name.maybe_quote().to_string(),
        _ => ".".to_owned(),
    };
    let lines = changed.iter().map(|Changed { attribute, was, is }| {
        let was = if was == is { "as before".to_owned() } else { format!("was {was}") };
        format!("{name} {attribute}={is} ({was})\n")
    });
    lines.collect()
}

pub(super) fn changes_json(
    pid: u32,
    target: Option<&Target>,
    changed: &[Changed],
    failure: Option<&Failure>,
) -> String {
    let name = match target {
        Some(Target::Queue(name)) => Some(name.as_str()),
        Some(Target::Process) => Some("."),
        None => None,
    };
    let set = changed.iter().map(
        |Changed { attribute, was, is }| json!({"attribute": attribute, "was": was, "is": is}),
    );
    let set: Vec<Value> = set.collect();
    let error = failure.map(|failure| json!({"kind": failure.kind, "text": failure.text}));
    document(json!({"pid": pid, "name": name, "set": set, "error": error}))
}

fn document(value: Value) -> String {
    format!("{value:#}\n")
}
