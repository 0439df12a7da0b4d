//! `--json`, verb by verb: what the text says, the document says; what goes wrong is said on
//! standard error, with an exit code of which the verb's help tells.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::looking::Victim as Process;
use crate::set::Victim;
use crate::support::{check_code, stderr, tree};

/// Those that report nothing: what they print is for other programs as it is.
const SILENT: [&str; 3] = ["completions", "help", "man"];

fn cmwq(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(arguments).stdin(Stdio::null()).env("COLUMNS", "200").output().unwrap()
}

fn text(arguments: &[&str]) -> String {
    let output = cmwq(arguments);
    check_code(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

/// Behind the verb: what stands at the end may be a program's.
fn as_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&arguments[..1], &["--json"], &arguments[1..]].concat()
}

/// The document, or one for each line.
fn documents(arguments: &[&str]) -> Vec<Value> {
    let text = text(&as_json(arguments));
    let documents = serde_json::Deserializer::from_str(&text).into_iter();
    documents.map(|document| document.unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
}

/// A row of the table: a verb, what it is given here, the facts of which both tell, and how it
/// fails.
struct Row {
    arguments: Vec<String>,
    /// In the documents, as pointers (RFC 6901) that begin with the document's number.
    facts: &'static [&'static str],
    fails: Vec<String>,
    code: i32,
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

impl Row {
    fn verb(&self) -> &str {
        &self.arguments[0]
    }
}

struct Scene {
    victim: Victim,
    tree: TempDir,
}

impl Scene {
    /// All verbs that report. A fact that changes from one moment to the next is not among theirs.
    fn rows(&self) -> Vec<Row> {
        let (pid, tree) = (self.victim.pid(), self.tree.path().display().to_string());
        // After they are words: where temporary files are there may be blanks in the path.
        let of = |word: String| word.replace("PID", &pid).replace("TREE", &tree);
        let row = |arguments: &str, facts, fails: &str, code| {
            let [arguments, fails] =
                [arguments, fails].map(|line| words(line).into_iter().map(of).collect());
            Row { arguments, facts, fails, code }
        };
        vec![
            row("doctor --no-measure", &["0/verdict", "0/machine/kernel"], "doctor --color x", 2),
            row(
                "dump PID",
                &["0/workqueues/0/name", "0/workqueues/0/max_active"],
                "dump 4194304",
                1,
            ),
            row("monitor -i 0 PID", &["0/name", "0/started"], "monitor -i 0 4194304", 1),
            row("ps", &[], "ps --color x", 2),
            row(
                "run -k -- echo ::: one two",
                &["0/stdout", "1/stdout"],
                "run -- /no/such ::: a",
                127,
            ),
            row("sum TREE", &["0/files/0/path", "0/files/1/sha256"], "sum TREE/nothing", 1),
            row("scenario doc-max3 --on sim", &["0/events/0/work"], "scenario nothing", 1),
            row(
                "set PID --list",
                &["0/workqueues/0/name", "0/global/cpumask"],
                "set PID --list x",
                1,
            ),
            row("sim --seeds 0..3", &["0/seeds", "0/items", "0/events"], "sim --seed x", 2),
            row("top --once -i 0.05 PID", &["0/queues/0/name", "0/pid"], "top --once 4194304", 1),
            row("trace -d 0.01 -o TREE/t PID", &[], "trace -o TREE/t TREE/nothing", 1),
        ]
    }
}

fn scene() -> Scene {
    Scene { victim: Victim::listening(), tree: tree(&["a", "b"]) }
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// What a pointer leads to, as the text has it.
fn fact(documents: &[Value], pointer: &str) -> String {
    let (document, place) = pointer.split_at(pointer.find('/').unwrap());
    let found = documents[document.parse::<usize>().unwrap()].pointer(place);
    match found.unwrap_or_else(|| panic!("{pointer} is not in {documents:?}")) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn every_verb_that_reports_has_it() {
    let help = text(&["--help"]);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let listed = commands.lines().filter_map(|line| line.strip_prefix("  "));
    let mut verbs: Vec<_> = listed
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap())
        .filter(|verb| !SILENT.contains(verb))
        .collect();
    verbs.sort_unstable();
    let rows = scene().rows();
    let mut known: Vec<_> = rows.iter().map(Row::verb).collect();
    known.sort_unstable();
    assert_eq!(verbs, known, "each has a row");
    for verb in verbs {
        assert!(text(&[verb, "--help"]).contains("--json"), "{verb}");
    }
}

#[test]
fn the_document_says_what_the_text_says() {
    let scene = scene();
    for row in scene.rows() {
        let arguments = borrowed(&row.arguments);
        let documents = documents(&arguments);
        assert!(!documents.is_empty(), "{arguments:?}");
        let text = text(&arguments);
        for pointer in row.facts {
            let fact = fact(&documents, pointer);
            assert!(text.contains(&fact), "{arguments:?}: {pointer}, {fact:?}, is not in:\n{text}");
        }
    }
    // Of these the documents are about something else than what comes first.
    let processes = &documents(&["ps"])[0]["processes"];
    let pids: Vec<_> =
        processes.as_array().unwrap().iter().map(|it| it["pid"].to_string()).collect();
    assert!(pids.contains(&scene.victim.pid()) && text(&["ps"]).contains(&scene.victim.pid()));
    let trace = scene.tree.path().join("t").display().to_string();
    assert!(scene.tree.path().join("t").is_file(), "{trace}");
    let said = documents(&["trace", "-d", "0.01", "-o", &trace, &scene.victim.pid()]);
    assert_eq!(said[0]["files"][0], trace);
}

#[test]
fn what_goes_wrong_is_said_on_standard_error() {
    let scene = scene();
    for row in scene.rows() {
        let fails = borrowed(&row.fails);
        let arguments = as_json(&fails);
        let output = cmwq(&arguments);
        check_code(&output, row.code);
        assert!(!stderr(&output).trim().is_empty(), "{arguments:?}");
        // What was done besides may be told, in documents.
        let told = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        assert!(told.into_iter().all(|document| document.is_ok()), "{arguments:?}: {output:?}");
        let help = text(&[row.verb(), "--help"]);
        let codes = help.split_once("Exit code:\n").unwrap_or_else(|| panic!("{}", row.verb())).1;
        let codes = codes.split("\n\n").next().unwrap();
        let is_named = |line: &str| {
            line.trim_start().starts_with(&format!("{} ", row.code))
                || line.contains(&format!(" {}:", row.code))
        };
        assert!(codes.lines().any(is_named), "{} is not in:\n{codes}", row.code);
    }
}

/// The keys are promised, so each is explained: those that a process with busy workers has.
#[test]
fn every_key_of_dump_and_top_is_in_its_help() {
    let victim = Process::run("looking::deadlock");
    let pid = victim.pid();
    for arguments in
        [&["dump", &pid][..], &["dump", "--stuck", &pid], &["top", "--once", "-i", "0.05", &pid]]
    {
        let help = text(&[arguments[0], "--help"]);
        let explained = help.split_once("\nJSON:\n").expect("a section").1;
        let mut keys = BTreeSet::new();
        documents(arguments).iter().for_each(|document| collect(document, &mut keys));
        assert!(keys.len() > 10, "{arguments:?}: {keys:?}");
        for key in keys {
            assert!(explained.contains(&format!("\"{key}\": ")), "{arguments:?}: {key}");
        }
    }
}

/// All keys; those of scopes are names.
fn collect(document: &Value, keys: &mut BTreeSet<String>) {
    match document {
        Value::Array(values) => values.iter().for_each(|value| collect(value, keys)),
        Value::Object(map) => {
            for (key, value) in map {
                keys.insert(key.clone());
                match (key.as_str(), value.as_object()) {
                    ("scopes", Some(scopes)) => {
                        scopes.values().for_each(|pods| collect(pods, keys));
                    }
                    _ => collect(value, keys),
                }
            }
        }
        _ => {}
    }
}
