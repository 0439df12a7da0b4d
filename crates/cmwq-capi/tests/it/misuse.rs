//! What the library says of misuse, word for word but for addresses.

use std::process::Command;

use crate::support::{crate_dir, program, run};

/// Runs a case of `tests/c/misuse.c`; what was said, with `0xN` for addresses.
fn said(case: &str, debug: &str, flags: &[&str]) -> Option<String> {
    let source = crate_dir().join("tests/c/misuse.c");
    let name = format!("misuse_{case}{debug}{}", flags.len());
    let flags = [&["-rdynamic"], flags].concat();
    let program = program(&name, &source, &flags)?;
    let mut command = Command::new(&program);
    command.arg(case).env("CMWQ_DEBUG", debug).env_remove("CMWQ_QUIET");
    let output = run(&mut command);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{case}: {}\n{text}", output.status);
    let mut parts = text.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    Some(parts.fold(first, |text, part| {
        text + "0xN" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit())
    }))
}

fn check(case: &str, debug: &str, expected: &[&str]) {
    check_with(&[], case, debug, expected);
}

fn check_with(flags: &[&str], case: &str, debug: &str, expected: &[&str]) {
    let Some(said) = said(case, debug, flags) else { return };
    let ours: Vec<_> = said.lines().filter(|line| line.starts_with("cmwq: ")).collect();
    let expected: Vec<_> = expected.iter().map(|line| format!("cmwq: {line}")).collect();
    assert_eq!(ours, expected, "{said}");
}

#[test]
fn items_that_were_never_initialised() {
    let never = "and was never initialised: nothing is done";
    let lines = ["queued", "flushed", "cancelled", "queued", "disabled", "asked about"];
    let lines = lines.map(|what| format!("work item 0xN is {what} {never}"));
    check("zeroed", "", &lines.each_ref().map(String::as_str));
}

#[test]
fn items_on_a_list_of_somebody_else() {
    let line = "work item 0xN (count_run) is queued while its entry is on a list of somebody \
                else's: it is not queued";
    check("linked", "", &[line]);
    check("linked", "objects", &[line]);
}

#[test]
fn waiting_for_oneself() {
    let queue = "workqueue 'line' is flushed from inside one of its own items (item 0xN, \
                 flush_itself), which would wait for \
                 itself for ever; the call returns without waiting";
    let item = "a work item of workqueue 'line' is flushed from inside its own function (item \
                0xN, flush_itself) and would wait \
                for itself for ever; the call returns without waiting";
    check("itself", "", &[queue, item]);
}

#[test]
fn queueing_on_a_destroyed_queue() {
    let line = "workqueue 'gone' is being drained, destroyed or shut down and takes only what its \
                own items queue: count_run was \
                not queued, and will not be said again";
    check("destroyed", "", &[line]);
}

#[test]
fn destroying_a_queue_twice() {
    let line = |name| format!("workqueue '{name}' is destroyed twice: nothing is done");
    check("twice", "", &[&line("gone"), &line("gone"), &line("simple")]);
}

#[test]
fn destroying_a_queue_that_is_being_destroyed() {
    let refused = "workqueue 'gone' is being drained, destroyed or shut down and takes only what \
                   its own items queue: count_run was not queued, and will not be said again";
    let twice = "workqueue 'gone' is destroyed twice: nothing is done";
    check("twice_at_once", "", &[refused, twice, twice, twice]);
}

#[test]
fn what_is_executed_later_is_an_item() {
    check("execute", "objects", &[]);
    let line = "work item 0xN (count_run): it is initialised again while it is queued on \
                workqueue 'line'; it is cancelled first";
    check("execute_again", "objects", &[line]);
}

#[test]
fn a_job_that_waits_for_itself() {
    let line = |function| {
        format!(
            "{function}: a job is waited for from inside its own function (wait_for_itself), which \
             would wait for itself for ever; the job is let go of, and the call returns without \
             waiting"
        )
    };
    let lines = ["cmwq_job_wait", "cmwq_job_wait_for", "cmwq_job_cancel"].map(line);
    check("job", "", &lines.each_ref().map(String::as_str));
}

#[test]
fn declared_items_that_are_disabled_first() {
    check("disabled", "objects", &[]);
}

#[test]
fn initialising_a_live_item() {
    check(
        "again",
        "objects",
        &[
            "work item 0xN (count_run): it is initialised again while it is queued on workqueue \
             'line'; it is cancelled first",
            "work item 0xN (count_run): it is initialised again while its timer is armed; it is \
             cancelled first",
        ],
    );
}

const FREED: [&str; 3] = [
    "work item 0xN (count_run): it is freed while it is queued on workqueue 'line'; it is \
     cancelled first",
    "work item 0xN (count_run): it is freed while its timer is armed; it is cancelled first",
    "work item 0xN (count_run): it is freed while it waits for a grace period, which cannot be \
     cancelled",
];

#[test]
fn freeing_a_live_item() {
    check("freed", "objects,other", &FREED);
}

/// Also while the library itself holds a lock and frees something.
#[test]
fn freeing_with_a_wrapped_free() {
    check_with(&["-DWRAPPED_FREE", "-Wl,--wrap=free"], "freed", "objects", &FREED);
}

#[test]
fn queueing_what_is_unknown() {
    let line = "work item 0xN is queued and was not initialised, or its memory was freed since: \
                it is not queued";
    check("unknown", "objects", &[line]);
}

#[test]
fn leaving_a_live_item_on_the_stack() {
    check(
        "on_stack",
        "objects",
        &[
            "work item on a stack 0xN (count_run): its stack frame is left while it is queued on \
             workqueue 'line'; it is \
             cancelled first",
            "work item on a stack 0xN (count_run): its stack frame is left while its timer is \
             armed; it is cancelled first",
        ],
    );
}
