//! Finding a scenario: a file, standard input, or one that comes with the command.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use cmwq_sim::{Scenario, named};

use super::file;
use crate::meant::did_you_mean;
use crate::written::{Place, place_of};

/// The files of the scenarios that [`named`] describes.
const SHIPPED: [(&str, &str); 4] = [
    ("doc-max3", include_str!("../../scenarios/doc-max3.toml")),
    ("doc-max2", include_str!("../../scenarios/doc-max2.toml")),
    ("doc-max1", include_str!("../../scenarios/doc-max1.toml")),
    ("doc-intensive", include_str!("../../scenarios/doc-intensive.toml")),
];

/// Reads and checks a scenario. A name that the command knows wins over a file of that name.
pub(crate) fn load(name: &Path) -> Result<Scenario, String> {
    let text = match shipped(name) {
        Some(text) => text.to_owned(),
        None => read(name)?,
    };
    file::parse(&text).map_err(|wrong| wrong.shown(name.display(), &text))
}

fn shipped(name: &Path) -> Option<&'static str> {
    let name = name.to_str()?;
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Where the file is that [`load`] reads, if it reads one. It is not opened: a pipe would wait.
pub(super) fn place(name: &Path) -> Option<Place> {
    if shipped(name).is_some() {
        return None;
    }
    if name == Path::new("-") {
        return place_of(io::stdin());
    }
    let about = fs::metadata(name).ok().filter(fs::Metadata::is_file)?;
    Some((about.dev(), about.ino()))
}

fn read(name: &Path) -> Result<String, String> {
    let text = if name == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(name)
    };
    text.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                let known = named::NAMES.iter().map(|(name, _)| *name);
                let meant = did_you_mean(&name.to_string_lossy(), known);
                meant + "; `cmwq scenario --list` shows the names it knows"
            }
            _ => String::new(),
        };
        format!("{}: {error}{hint}", name.display())
    })
}

/// The names, one per line, or as a JSON document.
pub(super) fn list(as_json: bool) -> String {
    if as_json {
        let names = named::NAMES
            .iter()
            .map(|(name, about)| serde_json::json!({ "name": name, "about": about }));
        return format!("{}\n", serde_json::json!({ "scenarios": names.collect::<Vec<_>>() }));
    }
    let mut text = String::new();
    for (name, about) in named::NAMES {
        let _ = writeln!(text, "{name:<14}  {about}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_files_say_what_the_simulator_means_by_their_names() {
        let names: Vec<_> = named::NAMES.iter().map(|(name, _)| *name).collect();
        let shipped: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
        assert_eq!(shipped, names);
        for (name, text) in SHIPPED {
            assert_eq!(file::parse(text), Ok(named::find(name).expect(name)), "{name}");
        }
    }

    #[test]
    fn a_missing_file_leads_to_the_list() {
        let error = load(Path::new("/nowhere/at-all.toml")).unwrap_err();
        assert!(error.contains("/nowhere/at-all.toml") && error.contains("--list"), "{error}");
    }
}
