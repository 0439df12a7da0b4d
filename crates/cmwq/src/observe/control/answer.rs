//! Doing what a client wants.

use std::fmt::Write as _;

use super::protocol::{Request, Target, escape, one_line};
use super::session::error_line;
use crate::observe::sysfs::{
    self, Attribute, AttributeError, Entry, GlobalAttribute, Mode, show_global, store_global,
};

/// LIMIT: so many queues are told of in one reply; there may be millions.
const MAX_QUEUES: usize = 1000;

/// The reply to a line.
pub(crate) fn answer(line: &[u8]) -> String {
    match Request::parse(line) {
        Err(why) => error_line("request", why),
        Ok(Request::Names) => names(),
        Ok(Request::Show(target)) => show(target),
        Ok(Request::Get(target, attribute)) => reply(get(&target, &attribute)),
        Ok(Request::Set(target, attribute, value)) => {
            reply(set(&target, &attribute, &value).and_then(|()| get(&target, &attribute)))
        }
    }
}

/// Why there is nothing to say, and of what kind that is.
enum Wrong {
    NoQueue(String),
    Attribute(AttributeError),
}

impl From<AttributeError> for Wrong {
    fn from(error: AttributeError) -> Self {
        Self::Attribute(error)
    }
}

fn reply(outcome: Result<String, Wrong>) -> String {
    match outcome {
        Ok(value) => format!("ok {}\n", one_line(&value)),
        Err(Wrong::NoQueue(name)) => {
            error_line("no-queue", &format!("there is no workqueue '{name}'"))
        }
        Err(Wrong::Attribute(error)) => error_line(error.refusal().name(), &error.to_string()),
    }
}

fn find(name: &str) -> Result<Entry, Wrong> {
    sysfs::find(name).ok_or_else(|| Wrong::NoQueue(name.to_owned()))
}

fn get(target: &Target, attribute: &str) -> Result<String, Wrong> {
    Ok(match target {
        Target::Process => {
            let value = show_global(attribute.parse()?);
            value.map_err(AttributeError::from)?
        }
        Target::Queue(name) => find(name)?.show(attribute.parse::<Attribute>()?)?,
    })
}

fn set(target: &Target, attribute: &str, value: &str) -> Result<(), Wrong> {
    match target {
        Target::Process => store_global(attribute.parse()?, value)?,
        Target::Queue(name) => find(name)?.store(attribute.parse::<Attribute>()?, value)?,
    }
    Ok(())
}

/// `ro` and `rw` for what can be found by its name, else `-`.
fn mode(entry: &Entry, mode: Mode) -> &'static str {
    if entry.is_registered() { mode.name() } else { "-" }
}

fn names() -> String {
    let mut text = String::new();
    let entries = sysfs::entries();
    for entry in entries.iter().take(MAX_QUEUES) {
        let mode = mode(entry, Mode::ReadWrite);
        // Writing to a string does not fail.
        let _ = writeln!(text, "= {} {mode}", escape(entry.name()));
    }
    let left_out = entries.len().saturating_sub(MAX_QUEUES);
    let _ = writeln!(text, "ok {} {left_out}", entries.len() - left_out);
    text
}

fn show(target: Option<Target>) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, attribute: &str, mode: &str, value: String| {
        lines.push(format!("= {name} {attribute} {mode} {}\n", one_line(&value)));
    };
    if !matches!(target, Some(Target::Queue(_))) {
        for attribute in GlobalAttribute::ALL {
            match show_global(attribute) {
                Ok(value) => line(".", attribute.name(), attribute.mode().name(), value),
                Err(error) => return error_line("unavailable", &error.to_string()),
            }
        }
    }
    let entries = match &target {
        Some(Target::Process) => Vec::new(),
        Some(Target::Queue(name)) => sysfs::entries_named(name),
        None => sysfs::entries(),
    };
    if let (Some(Target::Queue(name)), true) = (&target, entries.is_empty()) {
        return reply(Err(Wrong::NoQueue(name.clone())));
    }
    for entry in entries.iter().take(MAX_QUEUES) {
        for (attribute, own_mode) in entry.attributes() {
            if let Ok(value) = entry.show(attribute) {
                line(&escape(entry.name()), attribute.name(), mode(entry, own_mode), value);
            }
        }
    }
    let (count, left_out) = (lines.len(), entries.len().saturating_sub(MAX_QUEUES));
    lines.concat() + &format!("ok {count} {left_out}\n")
}
