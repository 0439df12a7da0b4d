//! The command: searches scopes by name, says how many states there are, and prints what it finds.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cmwq_explore::{Limits, Outcome, Progress, Rule, Scope, explain, scopes, search};

const USAGE: &str = "\
cmwq-explore: every small history of the scheduling core

    cmwq-explore [NAME]...          the scopes of the gate, or those named
        --long                      the larger scopes, instead of the gate's; they may be cut off
        --list                      what there is
        --without RULE              with that rule of the core taken out
        --mutations                 each rule taken out in turn: which scope notices, and how
        --states N                  stop after so many states of a scope
        --mib N                     stop when a search has so much memory (default 8192)
        --secs N                    stop after so long, in each scope
        --threads N                 (default: as many as CPUs)
        --progress                  a line every ten seconds
";

/// With one of these a search that is cut off is none that has failed.
const CUT_OFF: [&str; 4] = ["--long", "--states", "--mib", "--secs"];

#[derive(Default)]
struct Args {
    names: Vec<String>,
    limits: Limits,
    is_long: bool,
    lists: bool,
    mutates: bool,
    shows_progress: bool,
    /// Somebody has said how far to go, or that a scope may have no end.
    may_be_cut_off: bool,
}

fn parse() -> Result<Args, String> {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        args.may_be_cut_off |= CUT_OFF.contains(&word.as_str());
        let mut value = || words.next().ok_or(format!("{word} what?"));
        match word.as_str() {
            "--long" => args.is_long = true,
            "--list" => args.lists = true,
            "--mutations" => args.mutates = true,
            "--progress" => args.shows_progress = true,
            "--without" => args.limits.without = Some(rule(&value()?)?),
            "--states" => args.limits.states = number(&value()?)?,
            "--mib" => args.limits.bytes = number(&value()?)? << 20,
            "--secs" => args.limits.time = Duration::from_secs(number(&value()?)? as u64),
            "--threads" => args.limits.threads = number(&value()?)?,
            "--help" => return Err(String::new()),
            name if !name.starts_with('-') => args.names.push(word),
            _ => return Err(format!("what is {word}?")),
        }
    }
    Ok(args)
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn rule(name: &str) -> Result<Rule, String> {
    let found = Rule::ALL.iter().find(|rule| format!("{rule:?}") == name);
    found.copied().ok_or_else(|| format!("there is no rule {name}"))
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let known = if args.is_long { scopes::long() } else { scopes::gate() };
    let chosen: Vec<Scope> = known
        .into_iter()
        .filter(|scope| args.names.is_empty() || args.names.iter().any(|n| n == scope.name))
        .collect();
    if chosen.is_empty() || args.lists {
        for scope in &chosen {
            println!("{:<18} {}", scope.name, scope.about);
        }
        return if args.lists { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let is_fine = if args.mutates { mutate(&chosen, &args) } else { run(&chosen, &args) };
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(chosen: &[Scope], args: &Args) -> bool {
    let (begun, mut is_fine, mut states) = (Instant::now(), true, 0);
    for scope in chosen {
        let outcome = search(scope, &args.limits, &mut |progress| tell(scope, args, progress));
        println!("{}", line(scope, &outcome));
        states += outcome.states;
        is_fine &= outcome.is_complete || args.may_be_cut_off;
        if let Some(violation) = &outcome.violation {
            is_fine = false;
            println!("{}: {}", scope.name, violation.what);
            println!("{}", explain(scope, args.limits.without, &violation.history));
        }
    }
    println!("{states} states of {} scopes in {:.0?}", chosen.len(), begun.elapsed());
    is_fine
}

fn mutate(chosen: &[Scope], args: &Args) -> bool {
    let mut unnoticed = Vec::new();
    for &rule in Rule::ALL {
        let limits = Limits { without: Some(rule), ..args.limits };
        let noticed = chosen.iter().find_map(|scope| {
            let outcome = search(scope, &limits, &mut |_| ());
            Some((scope.name, outcome.states, outcome.violation?))
        });
        match noticed {
            Some((name, states, violation)) => {
                let length = violation.history.len();
                let what = violation.what.lines().next().unwrap_or_default();
                println!("{rule:?}: {name}, {length} events, {states} states: {what}");
            }
            None => unnoticed.push(rule),
        }
    }
    println!("unnoticed: {unnoticed:?}");
    unnoticed.is_empty()
}

fn line(scope: &Scope, outcome: &Outcome) -> String {
    let end = if outcome.is_complete { "complete" } else { "cut off" };
    format!(
        "{:<18} {:>9} states {:>10} transitions, depth {:>3}, {:>5.1} s, {end}",
        scope.name,
        outcome.states,
        outcome.transitions,
        outcome.depth,
        outcome.time.as_secs_f64(),
    )
}

fn tell(scope: &Scope, args: &Args, progress: Progress) {
    thread_local! {
        static LAST: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    let tens = progress.time.as_secs() / 10;
    if !args.shows_progress || LAST.replace(tens) == tens {
        return;
    }
    let rate = progress.states as f64 / progress.time.as_secs_f64();
    eprintln!(
        "{}: {} states, depth {}, {} left there, {rate:.0} states/s, {} MiB",
        scope.name,
        progress.states,
        progress.depth,
        progress.left,
        progress.bytes >> 20
    );
}
