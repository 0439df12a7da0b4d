//! Processes whose mapping is not the library's, but something made of it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc;
use std::time::Duration;

use cmwq::Workqueue;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::{MEMORY, MIB, Outcome, run};
use crate::looking::{Victim, stay};

/// Words in front of the tables' own; for each table so many.
const TABLES_AT: usize = 64;
const TABLE_WORDS: usize = 8;
const POOLS: usize = 0;
const WORKERS: usize = 2;
const QUEUES: usize = 3;
const PWQS: usize = 4;
const NODES: usize = 5;
const MASKS: usize = 7;
const NR_TABLES: usize = 8;
/// Words of a queue's record: what was counted of ways into pools that are gone.
const STARTED: usize = 17;
const COMPLETED: usize = 18;

/// A text that would move, hide and colour what a terminal shows.
const EVIL: &str = "\u{1b}[2J\u{9b}31m\u{202e}x\u{2066}\u{200b}\u{feff}\u{7f}";

/// What a terminal obeys, or what makes a text look like another one.
pub(super) fn check_harmless(what: &str, text: &str) {
    let is_harmful = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(*c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let harmful: Vec<char> = text.chars().filter(is_harmful).collect();
    assert!(harmful.is_empty(), "{what} prints {harmful:?}: {text:?}");
}

/// A copy of this process's mapping, which takes its place.
struct Forged {
    words: Vec<u64>,
}

impl Forged {
    /// Takes the mapping: the process goes on with its own, which nobody else can find.
    fn take() -> Self {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let path = entries
            .map(|entry| entry.path())
            .find(|path| {
                std::fs::read_link(path).is_ok_and(|to| to.as_os_str() == "/memfd:cmwq (deleted)")
            })
            .unwrap();
        let mut bytes = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        let number: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        // SAFETY: the runtime keeps the number and never uses it again, but in a forked child.
        assert_eq!(unsafe { libc::close(number) }, 0);
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        Self { words: words.collect() }
    }

    /// A word about table `kind`: 1 its offset, 2 the stride, 3 the capacity, 4 how many were used.
    fn table(&mut self, kind: usize, word: usize) -> &mut u64 {
        &mut self.words[TABLES_AT + kind * TABLE_WORDS + word]
    }

    fn records(&mut self, kind: usize) -> Vec<&mut [u64]> {
        let [offset, stride, used] = [1, 2, 4].map(|word| *self.table(kind, word) as usize);
        self.words[offset / 8..].chunks_mut(stride).take(used).collect()
    }

    /// Every record of the table is like the one `make` makes of a zeroed one.
    fn fill(&mut self, kind: usize, make: impl Fn(u64, &mut [u64])) {
        let capacity = *self.table(kind, 3);
        *self.table(kind, 4) = capacity;
        for (record, number) in self.records(kind).into_iter().zip(0..) {
            record.fill(0);
            record[1] = 1;
            make(number, record);
        }
    }

    /// Puts it where tools look, with `bytes` in all.
    fn publish(&mut self, bytes: u64) {
        self.words[2] = bytes;
        let memory = memfd_create("cmwq", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        let file = File::from(memory);
        file.set_len(bytes).unwrap();
        for (page, words) in self.words.chunks(512).enumerate() {
            if words.iter().any(|word| *word != 0) {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                file.write_all_at(&bytes, page as u64 * 4096).unwrap();
            }
        }
        fcntl_add_seals(file.as_fd(), SealFlags::SHRINK | SealFlags::GROW).unwrap();
        // It stays open.
        std::mem::forget(file);
    }

    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}

/// A queue with an item that runs until the process ends.
fn busy() -> Workqueue {
    let wq = Workqueue::builder("busy").mem_reclaim().build().unwrap();
    let (said, is_there) = mpsc::channel();
    drop(wq.queue(move || {
        said.send(()).unwrap();
        loop {
            std::thread::park();
        }
    }));
    is_there.recv().unwrap();
    wq
}

/// The program: what to do is its environment's.
#[test]
#[ignore = "a program for other tests"]
fn tables_that_overlap() {
    let _wq = busy();
    let mut forged = Forged::take();
    let bytes = 1_u64 << 26;
    for kind in 0..NR_TABLES {
        *forged.table(kind, 1) = 4096;
        *forged.table(kind, 2) = 2;
        *forged.table(kind, 3) = (bytes - 4096) / 16;
        *forged.table(kind, 4) = u64::MAX;
    }
    forged.publish(bytes);
    stay();
}

#[test]
#[ignore = "a program for other tests"]
fn tables_that_are_too_large() {
    let _wq = busy();
    let mut forged = Forged::take();
    let end = forged.len();
    *forged.table(MASKS, 1) = end;
    *forged.table(MASKS, 3) = 1 << 20;
    *forged.table(MASKS, 4) = 1 << 20;
    let bytes = end + *forged.table(MASKS, 2) * 8 * (1 << 20);
    forged.publish(bytes);
    stay();
}

/// As many records as there is room for, all ways lead from a few queues, each pool and queue has
/// all the CPUs that a mask can have, and each worker has CPU time to settle.
#[test]
#[ignore = "a program for other tests"]
fn all_records_used() {
    let _wq = busy();
    let mut forged = Forged::take();
    let tid = forged.records(WORKERS).iter().find(|record| record[2] != 0).unwrap()[9];
    let [pool, pwq, queue] = [POOLS, PWQS, QUEUES].map(|kind| {
        forged.records(kind).into_iter().find(|record| record[1] != 0).unwrap().to_vec()
    });
    for mask in 11..15 {
        forged.words[mask] = 0;
    }
    forged.fill(MASKS, |_, record| {
        record[2] = 64;
        record[3..67].fill(u64::MAX);
    });
    forged.fill(POOLS, |number, record| {
        record.copy_from_slice(&pool);
        record[2] = number;
    });
    forged.fill(QUEUES, |number, record| {
        record.copy_from_slice(&queue);
        record[2] = number;
    });
    let way = |number: u64| (number % 4096) << 32 | number;
    forged.fill(PWQS, |number, record| {
        record.copy_from_slice(&pwq);
        record[12] = number % 16;
        record[13] = way(number);
    });
    forged.fill(NODES, |number, record| {
        record[5] = number % 1000;
        record[6] = number;
    });
    forged.fill(WORKERS, |number, record| {
        record[2..5].fill(1);
        record[6..8].fill(number);
        record[9] = tid;
        record[11] = way(number);
    });
    let bytes = forged.len();
    forged.publish(bytes);
    stay();
}

/// Names of queues, workers and functions.
#[test]
#[ignore = "a program for other tests"]
fn names_that_are_commands() {
    let _wq = busy();
    let mut forged = Forged::take();
    let pack = |to: &mut [u64], text: &str| {
        for (word, bytes) in to.iter_mut().zip(text.as_bytes().chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(eight);
        }
    };
    for record in forged.records(QUEUES) {
        pack(&mut record[3..7], EVIL);
    }
    let mut function = 0;
    for record in forged.records(WORKERS) {
        function = function.max(record[2]);
        pack(&mut record[14..16], EVIL);
    }
    let functions = forged.words[21] as usize / 8;
    let name = EVIL.repeat(4);
    forged.words[functions] = function;
    forged.words[functions + 1] = name.len() as u64;
    let len = name.len().div_ceil(8);
    pack(&mut forged.words[functions + 2..functions + 2 + len], &name);
    let bytes = forged.len();
    forged.publish(bytes);
    rustix::thread::set_name(c"\x1b[31mcomm").unwrap();
    std::fs::write("/proc/self/comm", EVIL).unwrap();
    stay();
}

/// Says that a thread of another process is a worker.
#[test]
#[ignore = "a program for other tests"]
fn a_thread_of_somebody_else() {
    let _wq = busy();
    let mut forged = Forged::take();
    let parent = u64::from(std::os::unix::process::parent_id());
    for record in forged.records(WORKERS) {
        record[9] = parent;
    }
    let bytes = forged.len();
    forged.publish(bytes);
    stay();
}

/// A library of this process, which becomes shorter and longer all the time, has the function that
/// an item runs.
#[test]
#[ignore = "a program for other tests"]
fn code_that_comes_and_goes() {
    let _wq = busy();
    let mut forged = Forged::take();
    let whole = std::fs::read("/proc/self/exe").unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&whole).unwrap();
    let access = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping, which nobody reads.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), whole.len(), access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(at, libc::MAP_FAILED);
    for record in forged.records(WORKERS) {
        if record[2] != 0 {
            record[2] = at as u64 + whole.len() as u64 / 2;
        }
    }
    let bytes = forged.len();
    forged.publish(bytes);
    std::thread::spawn(move || {
        loop {
            file.set_len(0).unwrap();
            file.write_all_at(&whole, 0).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    stay();
}

fn victim(name: &str) -> Victim {
    Victim::run(&format!("hostile::forge::{name}"))
}

/// Every way to look at a process once.
const LOOKS: [&[&str]; 8] = [
    &["dump"],
    &["dump", "--json"],
    &["dump", "--stuck"],
    &["dump", "--stuck", "--json"],
    &["monitor", "-i0"],
    &["monitor", "-i0", "--json"],
    &["top", "--once"],
    &["top", "--once", "--json"],
];

/// What the command says of the victim.
fn look(victim: &Victim, verb: &[&str]) -> Outcome {
    run(&[verb, &[&victim.pid()]].concat(), MEMORY)
}

#[test]
fn forged_tables_are_damage_and_take_no_memory() {
    for (name, why) in [
        ("tables_that_overlap", "damaged"),
        ("tables_that_are_too_large", "not one of this library's"),
    ] {
        let victim = victim(name);
        for verb in [&["dump"][..], &["dump", "--stuck"], &["monitor", "-i0"], &["top", "--once"]] {
            look(&victim, verb).refused(why);
        }
    }
}

#[test]
fn a_full_mapping_takes_seconds_and_is_shown_in_part() {
    let victim = victim("all_records_used");
    for verb in LOOKS {
        let outcome = look(&victim, verb);
        let shown = outcome.done();
        assert!(shown.len() < 64 << 20, "{verb:?} prints {} bytes", shown.len());
        let told = shown.to_lowercase() + &outcome.stderr.to_lowercase();
        let is_told = ["left out", "left_out", "not shown", "not_shown"];
        assert!(is_told.iter().any(|words| told.contains(words)), "{verb:?}");
    }
}

#[test]
fn names_send_nothing_to_the_terminal() {
    let victim = victim("names_that_are_commands");
    let others: [&[&str]; 5] = [
        &["top", "--once", "--view", "workers"],
        &["trace", "-d0.1", "--output=-", "--format=text"],
        &["trace", "-d0.1", "--output=-", "--format=json"],
        &["trace", "-d0.1", "--output=-", "--format=spans"],
        &["trace", "-d0.1", "--svg=-"],
    ];
    for verb in LOOKS.into_iter().chain(others) {
        let outcome = look(&victim, verb);
        check_harmless(&verb.join(" "), outcome.done());
        check_harmless(&verb.join(" "), &outcome.stderr);
        let is_about_names = verb[0] != "trace";
        assert!(!is_about_names || outcome.stdout.contains('x'), "{}", outcome.stdout);
    }
}

/// Each of two queues says that as many items are in flight as a number can be.
#[test]
#[ignore = "a program for other tests"]
fn counts_without_end() {
    let _wq = busy();
    let mut forged = Forged::take();
    let queue = forged.records(QUEUES).into_iter().find(|record| record[1] != 0).unwrap().to_vec();
    forged.fill(QUEUES, |number, record| {
        record.copy_from_slice(&queue);
        record[2] = number;
        record[STARTED] = u64::MAX;
        record[COMPLETED] = 0;
    });
    let bytes = forged.len();
    forged.publish(bytes);
    stay();
}

/// Whether what `ps` says of a process is said of this one.
fn is_of(process: &serde_json::Value, victim: &Victim) -> bool {
    process["pid"] == victim.pid().parse::<u64>().unwrap()
}

#[test]
fn sums_of_numbers_without_end_are_numbers() {
    let victim = victim("counts_without_end");
    // Others may have something that cannot be read.
    let shown = run(&["ps", "--json"], MEMORY).stdout;
    let document: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let processes = document["processes"].as_array().unwrap();
    let it = processes.iter().find(|it| is_of(it, &victim)).unwrap();
    assert_eq!(it["in_flight"], u64::MAX, "{it}");
}

/// With as much memory as it takes to look at one process, any number is looked at.
#[test]
fn processes_are_looked_at_one_after_the_other() {
    let run_victim = || Victim::run("processes::has_a_queue");
    let one = run_victim();
    let is_listed = |victim: &Victim, memory: u64| {
        let shown = run(&["ps", "--json"], memory).stdout;
        let document: Option<serde_json::Value> = serde_json::from_str(&shown).ok();
        document.is_some_and(|document| {
            let mut processes = document["processes"].as_array().unwrap().iter();
            processes.any(|it| is_of(it, victim))
        })
    };
    let enough = (8..256).map(|step| step * 4 * MIB).find(|memory| is_listed(&one, *memory));
    let enough = enough.expect("a gigabyte is enough") + 4 * MIB;
    let two = run_victim();
    assert!(is_listed(&one, enough) && is_listed(&two, enough), "with {} MiB", enough / MIB);
}

#[test]
fn only_threads_of_the_process_are_stopped() {
    let victim = victim("a_thread_of_somebody_else");
    let outcome = look(&victim, &["dump", "--stuck"]);
    assert!(
        outcome.done().contains("no stack: it is no thread of the process"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_file_that_is_cut_off_while_it_is_read_ends_nothing() {
    let victim = victim("code_that_comes_and_goes");
    for _ in 0..8 {
        for verb in [&["dump", "--stuck"][..], &["top", "--once"]] {
            let outcome = run(&[verb, &[&victim.pid()]].concat(), 4 * MEMORY);
            outcome.done();
        }
    }
}
