//! What queues and pools are doing, as text.

use std::thread;

use cmwq::{Work, Workqueue};

use crate::support::wait::Opened;
use crate::support::{Gate, eventually, joined, percpu};

/// The lines about a queue, if it is busy.
fn paragraph(name: &str) -> Vec<String> {
    let text = cmwq::report().expect("a queue was used").to_string();
    let head = format!("workqueue {name}: ");
    let lines = text.lines().skip_while(|line| !line.starts_with(&head));
    let is_of_it = |line: &&str| line.starts_with(&head) || line.starts_with(' ');
    lines.take_while(is_of_it).map(str::to_owned).collect()
}

/// What follows `title` in the only line that has it.
fn after(lines: &[String], title: &str) -> Option<String> {
    let found: Vec<_> = lines.iter().filter_map(|line| line.split_once(title)).collect();
    assert!(found.len() <= 1, "{title} twice: {lines:#?}");
    found.first().map(|(_, rest)| (*rest).to_owned())
}

#[test]
fn what_users_call_things_makes_no_lines() {
    let wq = percpu("made up\nworkqueue forged: ");
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let (theirs, is_in) = (gate.clone(), entered.clone());
    let running = wq.queue(move || {
        cmwq::set_worker_desc("idle\nworkqueue forged: \x1b[2J");
        is_in.open();
        theirs.pass();
    });
    entered.pass();
    let text = cmwq::report().expect("it is busy").to_string();
    assert!(text.contains("workqueue made up?workqueue forged: : flags="), "{text}");
    assert!(!text.contains("\nworkqueue forged") && !text.contains('\x1b'), "{text}");
    gate.open();
    joined(running);
}

#[test]
fn running_waiting_and_waited_for_items_are_told_apart() {
    let wq = Workqueue::builder("shown line").ordered().build().unwrap();
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let first = Work::new({
        let (gate, entered) = (gate.clone(), entered.clone());
        move || {
            cmwq::set_worker_desc("the first");
            entered.open();
            gate.pass();
        }
    });
    assert!(paragraph("shown line").is_empty(), "nothing to say of an idle queue");
    assert!(wq.queue_work(&first));
    entered.pass();
    let rest: Vec<_> = (0..3).map(|_| wq.queue(|| ())).collect();
    let lines = paragraph("shown line");
    assert_eq!(lines[0], "workqueue shown line: flags=0x20002", "unbound, ordered");
    assert!(lines[1].contains(" active=1/1 refcnt=5"), "{lines:#?}");
    let running = after(&lines, "in-flight: ").expect("one runs");
    let (tid, what) = running.split_once(':').expect("thread and function");
    assert!(std::path::Path::new(&format!("/proc/self/task/{tid}")).exists(), "{running}");
    assert!(what.contains("(the first)") && !what.contains("BAR"), "{running}");
    assert_eq!(after(&lines, "pending: "), None);
    let inactive = after(&lines, "inactive: ").expect("three wait");
    assert!(inactive.starts_with("3*"), "neighbours of one kind are counted: {inactive}");
    assert!(inactive.contains("are_told_apart::{{closure}}"), "and named: {inactive}");

    let flusher = thread::spawn({
        let first = first.clone();
        move || first.flush()
    });
    eventually("somebody waits for the first", || {
        after(&paragraph("shown line"), "in-flight: ")
            .is_some_and(|running| running.ends_with(" BAR"))
    });
    gate.open();
    assert!(flusher.join().unwrap());
    rest.into_iter().for_each(joined);
    wq.flush();
    assert!(paragraph("shown line").is_empty(), "idle again");
}

#[test]
fn items_behind_a_running_one_are_pending() {
    let wq = percpu("shown percpu");
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    // It keeps its CPU busy, so that the others of that CPU wait for it.
    let running = wq.queue_on(crate::support::sys::allowed_cpus()[0], {
        let (gate, entered) = (gate.clone(), entered.clone());
        move || {
            entered.open();
            cmwq::blocking(|| gate.pass());
        }
    });
    entered.pass();
    eventually("it is seen to block", || {
        after(&paragraph("shown percpu"), "in-flight: ")
            .is_some_and(|line| line.ends_with(" blocked"))
    });
    let text = cmwq::report().unwrap().to_string();
    let pwq = after(&paragraph("shown percpu"), "  pwq ").unwrap();
    let pool = pwq.split(':').next().unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("pool {pool}: ")));
    assert!(line.is_some_and(|line| line.contains(" workers=")), "its pool has a line:\n{text}");
    gate.open();
    joined(running);
}

#[test]
fn a_report_leaves_no_trace() {
    let wq = Workqueue::builder("shown idle").unbound().build().unwrap();
    cmwq::show_one_workqueue(&wq);
    let before = wq.stats();
    for _ in 0..100 {
        let _ = cmwq::report();
        wq.queue(|| ()).join().unwrap();
    }
    wq.flush();
    assert_eq!(wq.stats().completed - before.completed, 100);
}
