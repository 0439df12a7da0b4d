//! A program closes all descriptors that it does not know, and opens files of its own by their
//! numbers: the library closes none of those, and writes nothing there.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, joined, managed, percpu, procfs, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("closed_files::forks", forks),
    ("closed_files::writes", writes),
    ("closed_files::ends", ends),
    ("closed_files::leaves", leaves),
];

/// Names the program's file.
const FILE: &str = "CMWQ_IT_FILE";
const TRACE: &str = "memfd:cmwq-trace";
/// More than the control words of a trace, behind which its rings begin.
const LEN: usize = 64 << 10;

/// The numbers of this process's descriptors that lead to something of this name.
fn numbers_of(name: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let leads_there = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains(name))
    };
    let number = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    entries.filter(leads_there).map(number).collect()
}

fn leads_to(number: i32, file: &impl AsRawFd) -> bool {
    let identity = |number: i32| {
        fs::metadata(format!("/proc/self/fd/{number}")).map(|meta| (meta.dev(), meta.ino())).ok()
    };
    identity(number).is_some() && identity(number) == identity(file.as_raw_fd())
}

#[test]
fn a_child_has_all_of_the_program_s_files() {
    Stage::new("closed_files::forks").play();
}

fn forks() {
    joined(managed("before").queue(|| ()));
    let (reader, _writer) = io::pipe().unwrap();
    let numbers = [numbers_of(TRACE), numbers_of("memfd:cmwq ")].concat();
    assert_eq!(numbers.len(), 2, "what is shown, and what is traced");
    numbers.iter().for_each(|number| sys::put(&reader, *number));
    let status = sys::fork(|| {
        for number in &numbers {
            assert!(leads_to(*number, &reader), "{number}");
        }
    });
    assert_eq!(status, 0);
}

/// Plays the scene, which is traced, with a file of the program's, that is to stay as it is.
fn play_beside_a_file(scene: &'static str) {
    let name = scene.replace("::", "-");
    let directory = std::env::temp_dir().join(format!("cmwq-{name}-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let file = directory.join("data");
    fs::write(&file, [0xaa; LEN]).unwrap();
    let stage = Stage::new(scene).env("CMWQ_TRACE", directory.join("trace"));
    stage.env(FILE, &file).play();
    let is_as_before = fs::read(&file).unwrap() == [0xaa; LEN];
    fs::remove_dir_all(&directory).unwrap();
    assert!(is_as_before, "the program's file was written to");
}

fn file_of_program() -> File {
    File::options().read(true).write(true).open(std::env::var_os(FILE).unwrap()).unwrap()
}

#[test]
fn no_trace_is_written_to_the_program_s_file() {
    play_beside_a_file("closed_files::writes");
}

fn writes() {
    let wq = managed("traced");
    joined(wq.queue(|| ()));
    let file = file_of_program();
    let trace = std::env::var("CMWQ_TRACE").unwrap();
    let numbers = numbers_of(&trace);
    assert_eq!(numbers.len(), 1);
    numbers.into_iter().for_each(|number| sys::put(&file, number));
    let is_written_to = || fs::read(std::env::var_os(FILE).unwrap()).unwrap() != [0xaa; LEN];
    eventually("the trace ends, or is written to the file", || {
        joined(wq.queue(|| ()));
        procfs::tid_of("cmwq/trace").is_none() || is_written_to()
    });
}

#[test]
fn no_part_of_the_program_s_file_is_given_back_at_the_end_of_a_trace() {
    play_beside_a_file("closed_files::ends");
}

fn ends() {
    joined(managed("traced").queue(|| ()));
    let file = file_of_program();
    let numbers = numbers_of(TRACE);
    assert_eq!(numbers.len(), 2, "the library's and its reader's");
    numbers.into_iter().for_each(|number| sys::put(&file, number));
    // What ends the trace is the end of the process.
}

#[test]
fn a_worker_that_leaves_takes_no_file_of_the_program_s_along() {
    for source in ["tick", "perf"] {
        Stage::new("closed_files::leaves").detect(source).params("idle_timeout=0.2").play();
    }
}

fn leaves() {
    const ITEMS: usize = 8;
    // Nobody looks at the workers of unbound queues.
    let (wq, cpu) = (percpu("crowd"), sys::allowed_cpus()[0]);
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let opened = Opened(&gate);
    let item = |_| {
        let (gate, peak) = (gate.clone(), Arc::clone(&peak));
        wq.queue_on(cpu, move || {
            let _inside = peak.enter();
            gate.pass();
        })
    };
    let items: Vec<_> = (0..ITEMS).map(item).collect();
    eventually("each has a worker", || peak.now() == ITEMS);
    let (reader, _writer) = io::pipe().unwrap();
    // Of the kind that has no file of its own behind it, as the kernel's events.
    let event = sys::event();
    let (states, events) = (numbers_of("/stat"), numbers_of("perf_event"));
    assert!(states.len().max(events.len()) >= ITEMS, "{states:?}, {events:?}");
    states.iter().for_each(|number| sys::put(&reader, *number));
    events.iter().for_each(|number| sys::put(&event, *number));
    drop(opened);
    items.into_iter().for_each(joined);
    let of_cpu = format!("kworker/{cpu}:");
    eventually("the surplus has left", || procfs::workers(&of_cpu).len() <= 2);
    for number in states {
        assert!(leads_to(number, &reader), "{number} of {reader:?}");
    }
    for number in events {
        assert!(leads_to(number, &event), "{number} of {event:?}");
    }
}
