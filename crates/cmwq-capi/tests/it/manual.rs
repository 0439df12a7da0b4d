//! The manual: a page for each symbol, pages that are well-formed, and references that lead
//! somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use crate::installed::{destdir, installed};
use crate::support::{crate_dir, not_tested};
use crate::symbols::listed;

/// Pages of others that ours refer to.
const FOREIGN: [&str; 10] = [
    "_exit(2)",
    "fork(2)",
    "free(3)",
    "prctl(2)",
    "printf(3)",
    "pthreads(7)",
    "getauxval(3)",
    "longjmp(3)",
    "pthread_atfork(3)",
    "pthread_cancel(3)",
];

/// The source of each page, by its name with the section: `queue_work(3)`.
fn pages() -> BTreeMap<String, (PathBuf, String)> {
    let dir = std::fs::read_dir(crate_dir().join("man")).expect("the pages");
    let page = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("a page").path();
        let text = std::fs::read_to_string(&path).expect("a page is text");
        let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
        let (name, section) = name.rsplit_once('.').expect("the section follows a dot");
        (format!("{name}({section})"), (path.clone(), text))
    };
    dir.map(page).collect()
}

/// What a page is about: the names of its NAME section.
fn names(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| *line != ".SH NAME").skip(1);
    let section = lines.take_while(|line| !line.starts_with(".SH"));
    section.map(|line| line.split(" \\-").next().unwrap_or(line).trim_end_matches(',')).collect()
}

/// Everything that can be looked up, with its section.
fn known() -> BTreeSet<String> {
    let of_page = |(title, (_, text)): (&String, &(PathBuf, String))| {
        let section = title.rsplit('(').next().unwrap_or_default().to_owned();
        names(text).iter().map(|name| format!("{name}({section}")).collect::<Vec<_>>()
    };
    pages().iter().flat_map(of_page).collect()
}

#[test]
fn every_symbol_has_a_page() {
    let known = known();
    let missing: Vec<_> =
        listed().into_iter().filter(|name| !known.contains(&format!("{name}(3)"))).collect();
    assert!(missing.is_empty(), "not in any page of man/: {missing:?}");
}

/// A page is found by its own name first, and no name is that of two pages.
#[test]
fn names_are_of_one_page() {
    let mut owners = BTreeMap::new();
    for (title, (_, text)) in pages() {
        let names = names(&text);
        assert_eq!(title.split('(').next(), names.first().copied(), "{title} begins with it");
        for name in names {
            let other = owners.insert(name.to_owned(), title.clone());
            assert_eq!(other, None, "{name} is also in {title}");
        }
    }
}

#[test]
fn references_lead_somewhere() {
    let known = known();
    for (title, (_, text)) in pages() {
        let references = text.lines().filter_map(|line| line.strip_prefix(".BR "));
        for reference in references {
            let mut words = reference.split_whitespace();
            let (Some(name), Some(section)) = (words.next(), words.next()) else { continue };
            let Some(section) = section.strip_prefix('(').and_then(|s| s.split(')').next()) else {
                continue;
            };
            let target = format!("{name}({section})");
            let is_known = known.contains(&target) || FOREIGN.contains(&target.as_str());
            assert!(is_known, "{title} refers to {target}");
        }
    }
}

/// By what the machine has for it: `mandoc`, `groff`, or neither.
#[test]
fn pages_are_well_formed() {
    let linters: [(&str, &[&str]); 2] =
        [("mandoc", &["-T", "lint", "-W", "error"]), ("groff", &["-man", "-ww", "-Tutf8", "-z"])];
    for (program, arguments) in linters {
        for (title, (path, _)) in pages() {
            let Ok(output) = Command::new(program).args(arguments).arg(&path).output() else {
                not_tested(&format!("there is no {program}"));
                break;
            };
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(output.status.success() && said.trim().is_empty(), "{title}: {said}");
        }
    }
}

#[test]
fn pages_and_links_are_installed() {
    let Some(destdir) = destdir() else { return };
    let man = installed(destdir, "share/man");
    let read = |name: &str, section: &str| {
        let path = man.join(format!("man{section}/{name}.{section}"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    for (title, (_, text)) in pages() {
        let (page, section) = title.trim_end_matches(')').split_once('(').expect("as made above");
        assert_eq!(read(page, section), text, "{title}");
        for link in names(&text).into_iter().skip(1) {
            assert_eq!(read(link, section), format!(".so man{section}/{page}.{section}\n"));
        }
    }
    assert_eq!(read("mod_delayed_work", "3"), ".so man3/queue_delayed_work.3\n");
}
