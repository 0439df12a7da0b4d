//! `ATTR=VALUE`, and what somebody may have meant.

use cmwq::sysfs::{Attribute, GlobalAttribute};
use cmwq_observe::control::Target;

use crate::meant::nearest;

/// What is to be set to what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) attribute: String,
    pub(super) value: String,
}

/// What is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    NoValue,
    NoAttribute(String),
}

impl Assignment {
    /// Reads an argument. Whether the value makes sense is for the process to say.
    pub(super) fn parse(word: &str, target: &Target) -> Result<Self, Wrong> {
        let (attribute, value) = word.split_once('=').ok_or(Wrong::NoValue)?;
        let known: Vec<&str> = match target {
            Target::Process => GlobalAttribute::ALL.map(GlobalAttribute::name).to_vec(),
            _ => Attribute::ALL.map(Attribute::name).to_vec(),
        };
        if known.contains(&attribute) {
            return Ok(Self { attribute: attribute.to_owned(), value: value.to_owned() });
        }
        let of = if *target == Target::Process { "the process" } else { "a workqueue" };
        let near = nearest(attribute, known.iter().copied());
        let meant = match &near[..] {
            [] => format!("has {}", known.join(", ")),
            near => format!("has {}", near.join(" or ")),
        };
        let shown: String = attribute.escape_debug().take(40).collect();
        Err(Wrong::NoAttribute(format!("there is no attribute '{shown}': {of} {meant}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_has_a_known_name() {
        let queue = Target::Queue("q".to_owned());
        let parse = |word, target| Assignment::parse(word, target);
        let taken = parse("affinity_scope=cache=x", &queue).unwrap();
        assert_eq!((&*taken.attribute, &*taken.value), ("affinity_scope", "cache=x"));
        assert_eq!(parse("nice", &queue), Err(Wrong::NoValue));
        for (word, target, part) in [
            ("max-active=1", &queue, "max_active"),
            ("niceness=1", &queue, "nice"),
            ("zzz=1", &queue, "per_cpu, max_active"),
            ("max_active=1", &Target::Process, "cpumask_requested"),
            ("default_scope=1", &Target::Process, "default_affinity_scope"),
        ] {
            let Err(Wrong::NoAttribute(text)) = parse(word, target) else { panic!("{word}") };
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn near_names_are_few_and_the_best_first() {
        let known = ["disk", "disk-2", "network", "events"];
        assert_eq!(nearest("dsk", known.into_iter()).first(), Some(&"disk"));
        assert_eq!(nearest("Network", known.into_iter()), ["network"]);
        assert!(nearest("zzzz", known.into_iter()).is_empty());
    }
}
