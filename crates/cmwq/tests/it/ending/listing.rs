//! The library's public calls, by its sources: so that no list of them is forgotten.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// `Type::method`, `function`, `module::function`; `Type::drop` and `Type::poll` where the type has
/// its own.
pub(super) fn public_calls() -> BTreeSet<String> {
    let src = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut found = BTreeSet::new();
    let mut types = BTreeSet::new();
    for (module, names) in exports(&read(&src.join("lib.rs"))) {
        let file = src.join(module.replace("::", "/")).with_extension("rs");
        if names.is_empty() {
            whole_module(&read(&file), module.rsplit("::").next().unwrap(), &mut found, &mut types);
        }
        for name in names {
            sort(&name, "", &mut found, &mut types);
        }
    }
    for room in ["api", "detect", "engine", "observe", "os", "record"] {
        methods_below(&src.join(room), &types, &mut found);
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sort(name: &str, prefix: &str, calls: &mut BTreeSet<String>, types: &mut BTreeSet<String>) {
    if name.starts_with(|first: char| first.is_uppercase()) {
        types.insert(name.to_owned());
    } else {
        calls.insert(format!("{prefix}{name}"));
    }
}

/// What a text exports by `pub use`, without what is hidden: modules, each with names, or none for
/// the module itself.
fn exports(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut is_hidden = false;
    for statement in text.split(';').flat_map(|part| part.rsplit("\n\n").next()) {
        let Some((before, path)) = statement.split_once("pub use ") else { continue };
        is_hidden |= before.contains("#[doc(hidden)]");
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        let path: String = path.split_whitespace().collect::<Vec<_>>().join(" ");
        let (module, names) = match path.split_once("::{") {
            Some((module, names)) => (module, names.trim_end_matches('}').to_owned()),
            None => path.rsplit_once("::").map(|(module, name)| (module, name.to_owned())).unwrap(),
        };
        let names: Vec<_> = names
            .split(',')
            .map(|name| name.rsplit(" as ").next().unwrap().trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        let whole = format!("{module}::{}", names[0]);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/").to_owned();
        if Path::new(&format!("{file}{}.rs", whole.replace("::", "/"))).exists()
            && !module.contains("control")
            && ["legacy", "system", "control", "metrics", "sysfs", "watchdog"]
                .contains(&names[0].as_str())
        {
            found.push((whole, Vec::new()));
        } else {
            found.push((module.to_owned(), names));
        }
    }
    found
}

fn whole_module(
    text: &str,
    name: &str,
    calls: &mut BTreeSet<String>,
    types: &mut BTreeSet<String>,
) {
    let prefix = format!("{name}::");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub fn ") {
            calls.insert(format!("{prefix}{}", word(rest)));
        }
        for kind in ["pub struct ", "pub enum "] {
            types.extend(line.strip_prefix(kind).map(|rest| word(rest).to_owned()));
        }
        // The queues of the system, which a macro makes.
        if let Some((queue, _)) = line.trim_start().split_once(" = \"events") {
            calls.insert(format!("{prefix}{queue}"));
        }
    }
    for (_, names) in exports(text) {
        for name in names {
            sort(&name, &prefix, calls, types);
        }
    }
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()
}

fn methods_below(path: &Path, types: &BTreeSet<String>, calls: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            methods_below(&entry.unwrap().path(), types, calls);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        methods(&read(path), types, calls);
    }
}

/// What follows `impl`, by its type: `impl<T> Drop for X<T> {` is `X`, with `drop`.
fn methods(text: &str, types: &BTreeSet<String>, calls: &mut BTreeSet<String>) {
    // The types that the file's macro makes methods for.
    let made: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("embedded_item!("))
        .map(|rest| word(rest).to_owned())
        .collect();
    let mut within: Vec<String> = Vec::new();
    let mut is_trait = false;
    for line in text.lines() {
        let code = line.trim_start();
        if let Some(rest) = code.strip_prefix("impl") {
            let rest = match rest.strip_prefix('<') {
                Some(generic) => generic.split_once("> ").map_or("", |(_, rest)| rest),
                None => rest.trim_start(),
            };
            let own = match rest.split_once(" for ") {
                Some((implemented, subject)) => {
                    let method = match implemented {
                        "Drop" => "drop",
                        "Future" => "poll",
                        _ => "",
                    };
                    if !method.is_empty() && types.contains(word(subject)) {
                        calls.insert(format!("{}::{method}", word(subject)));
                    }
                    ""
                }
                None => rest,
            };
            within = match own.strip_prefix("$name") {
                Some(_) => made.clone(),
                None => vec![word(own).to_owned()],
            };
            is_trait = false;
        } else if let Some(rest) = code.strip_prefix("pub trait ") {
            (within, is_trait) = (vec![word(rest).to_owned()], true);
        } else if line == "}" {
            within.clear();
        }
        let function = code.strip_prefix("pub fn ").or_else(|| code.strip_prefix("fn "));
        let Some(name) = function.map(word).filter(|_| is_trait || code.starts_with("pub ")) else {
            continue;
        };
        for owner in within.iter().filter(|owner| types.contains(*owner)) {
            calls.insert(format!("{owner}::{name}"));
        }
    }
}
