//! What the libraries export: what `libcmwq.map` lists, all of it and nothing else.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{built, compiler, crate_dir, succeed};

/// The names between `global:` and `local:`.
pub(crate) fn listed() -> BTreeSet<String> {
    let map = std::fs::read_to_string(crate_dir().join("libcmwq.map")).expect("it is there");
    let global = map.split("global:").nth(1).and_then(|rest| rest.split("local:").next());
    let names = global.expect("the list has a global part").split_whitespace();
    names.map(|name| name.trim_end_matches(';').to_owned()).collect()
}

/// Defined dynamic symbols, without versions and the names of those.
pub(crate) fn exported(library: &Path) -> BTreeSet<String> {
    let output =
        succeed(Command::new("nm").args(["--dynamic", "--defined-only", "--no-sort"]).arg(library));
    let text = String::from_utf8(output.stdout).expect("symbols are ASCII");
    let symbols = text.lines().filter(|line| !line.contains(" A "));
    let names = symbols.filter_map(|line| line.split_whitespace().last());
    names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

#[test]
fn the_shared_library_exports_what_is_listed() {
    if compiler("cc").is_none() {
        return;
    }
    assert_eq!(exported(&built("libcmwq.so")), listed());
}
