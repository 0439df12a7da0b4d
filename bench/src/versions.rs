//! Which versions of the peers were measured.

use crate::external::External;
use crate::report::Section;
use crate::systems::System;

/// What this program was built with.
const LOCK: &str = include_str!("../../Cargo.lock");

/// Of the systems in these tables, each once.
pub(crate) fn of(sections: &[Section], external: &External) -> Vec<String> {
    let systems = sections.iter().flat_map(|section| &section.rows);
    let mut versions: Vec<String> = Vec::new();
    for version in systems.filter_map(|row| version(row.measured()?, external)) {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// One line for all of them, empty if there are none.
pub(crate) fn line(versions: &[String]) -> String {
    if versions.is_empty() { String::new() } else { format!("With {}.", versions.join(", ")) }
}

fn version(system: System, external: &External) -> Option<String> {
    let name = match system {
        System::Rayon => "rayon",
        System::CmwqTokio
        | System::Tokio
        | System::TokioBlocking
        | System::TokioInplace
        | System::TokioAsync => "tokio",
        System::Blocking => "blocking",
        System::Crossbeam => "crossbeam-channel",
        other => return external.version(other),
    };
    Some(format!("{name} {}", of_crate(name, LOCK)?))
}

fn of_crate<'a>(name: &str, lock: &'a str) -> Option<&'a str> {
    let rest = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?.1;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_the_version_of_the_lockfile() {
        let lock = "[[package]]\nname = \"rayon-core\"\nversion = \"2.0.0\"\n\n\
                    [[package]]\nname = \"rayon\"\nversion = \"1.12.3\"\nsource = \"registry\"\n";
        assert_eq!(of_crate("rayon", lock), Some("1.12.3"));
        assert_eq!(of_crate("tokio", lock), None);
        for system in [System::Rayon, System::Tokio, System::Blocking, System::Crossbeam] {
            assert!(version(system, &External::default()).is_some(), "{system:?}");
        }
        assert_eq!(version(System::Cmwq, &External::default()), None);
    }

    #[test]
    fn versions_are_one_line() {
        assert_eq!(line(&[]), "");
        assert_eq!(line(&["a 1".to_owned(), "b 2".to_owned()]), "With a 1, b 2.");
    }
}
