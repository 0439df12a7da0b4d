//! Which process is meant: a number, a name, or the only one.

use cmwq::foreign::harmless;
use cmwq_observe::inspect::{OpenError, Target};

use super::others::{self, Others};
use crate::meant::did_you_mean;

/// LIMIT: processes that a message names.
const NAMED: usize = 8;

/// A process, as an argument says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// `-`, or nothing: the only one that uses cmwq and can be looked into.
    Only,
    Pid(u32),
    Name(String),
}

impl Which {
    /// Reads an argument.
    ///
    /// # Errors
    /// A number that no process can have.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "-" || text.is_empty() {
            return Ok(Self::Only);
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self::Name(text.to_owned()));
        }
        let pid = text.parse::<i32>().ok().filter(|pid| *pid > 0);
        let pid = pid.ok_or_else(|| format!("{text} is not the number of a process"))?;
        Ok(Self::Pid(pid.unsigned_abs()))
    }

    /// The number, if it was said.
    pub(crate) fn number(&self) -> Option<u32> {
        if let Self::Pid(pid) = self { Some(*pid) } else { None }
    }

    /// The process's number.
    ///
    /// # Errors
    /// Why it is not known which process that is, in one line.
    pub(crate) fn find(&self) -> Result<u32, String> {
        super::bound_memory();
        match self {
            Self::Pid(pid) => Ok(*pid),
            Self::Only => only(),
            Self::Name(name) => named(name),
        }
    }
}

fn only() -> Result<u32, String> {
    let found = Others::look(|target| Ok(target.pid()))?;
    the_one(&found.taken, found.denied)
}

fn the_one(pids: &[u32], denied: u32) -> Result<u32, String> {
    match pids {
        [pid] => Ok(*pid),
        [] if denied > 0 => Err(format!(
            "no process that you may look into uses cmwq; {} may not be looked into",
            counted(denied)
        )),
        [] => Err("no process uses cmwq".to_owned()),
        _ => Err(format!(
            "{} processes use cmwq: {}; say which by its number or name",
            pids.len(),
            listed(pids)
        )),
    }
}

fn counted(processes: u32) -> String {
    if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") }
}

fn named(name: &str) -> Result<u32, String> {
    let pids = others::pids()?;
    let named: Vec<u32> = pids
        .into_iter()
        .filter(|pid| others::names(*pid).iter().any(|known| known == name))
        .collect();
    let mut refused = None;
    let mut open = Vec::new();
    for pid in &named {
        match Target::open(*pid) {
            Ok(_) => open.push(*pid),
            // One with that name that shows nothing may be a thread's or shell's namesake, another
            // one tells more.
            Err(OpenError::NotCmwq) if refused.is_some() => {}
            Err(error) => refused = Some(format!("process {pid} ({name}): {error}")),
        }
    }
    match (&open[..], refused) {
        ([pid], _) => Ok(*pid),
        ([], Some(error)) => Err(error),
        ([], None) => Err(nobody(name)),
        (several, _) => Err(format!(
            "{} processes are called {}: {}; say which by its number",
            several.len(),
            name.escape_debug(),
            listed(several)
        )),
    }
}

fn nobody(name: &str) -> String {
    let found = Others::look(|target| Ok(others::names(target.pid())));
    let known: Vec<String> = found.map_or_else(|_| Vec::new(), |found| found.taken.concat());
    let meant = did_you_mean(name, known.iter().map(String::as_str));
    let hint = if meant.is_empty() { "; `cmwq ps` lists those that use cmwq" } else { &meant };
    format!("there is no process called '{}'{hint}", name.escape_debug())
}

/// `4711 (postgres), 4712 (sh)`
fn listed(pids: &[u32]) -> String {
    let shown = pids.iter().take(NAMED).map(|pid| {
        let name = others::names(*pid).first().cloned().unwrap_or_default();
        // Which may have a line's end in it.
        format!("{pid} ({})", harmless(&name))
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if pids.len() > NAMED {
        text += &format!(" and {} more", pids.len() - NAMED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers_names_or_nothing() {
        assert_eq!(Which::parse("4711"), Ok(Which::Pid(4711)));
        assert_eq!(Which::parse("-"), Ok(Which::Only));
        assert_eq!(Which::parse("7zip"), Ok(Which::Name("7zip".to_owned())));
        for bad in ["0", "99999999999"] {
            assert!(Which::parse(bad).unwrap_err().contains("number"), "{bad}");
        }
    }

    #[test]
    fn the_only_one_is_the_one_unless_there_are_more_or_none() {
        assert_eq!(the_one(&[4711], 3), Ok(4711));
        assert_eq!(the_one(&[], 0).unwrap_err(), "no process uses cmwq");
        assert!(the_one(&[], 1).unwrap_err().ends_with("; 1 process may not be looked into"));
        let all: Vec<u32> = (1..=10).map(|n| n + (1 << 30)).collect();
        let error = the_one(&all, 0).unwrap_err();
        assert!(error.starts_with("10 processes use cmwq: 1073741825 ("), "{error}");
        assert!(error.contains(" and 2 more; say which"), "{error}");
    }
}
