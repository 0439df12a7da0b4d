//! Programs in `tests/c`, each with its own checks.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use cmwq_observe::inspect::Target;

use crate::support::{
    DIALECTS, built, compiler, crate_dir, not_tested, program, program_in, run, scratch,
};
use crate::symbols::listed;

/// Runs `tests/c/NAME.c`, which says what is wrong and fails; returns what the library said.
fn check(name: &str, flags: &[&str]) -> Option<String> {
    check_as(name, name, flags)
}

fn check_as(name: &str, source: &str, flags: &[&str]) -> Option<String> {
    let source = crate_dir().join("tests/c").join(format!("{source}.c"));
    let program = program(name, &source, flags)?;
    let output = run(Command::new(&program).env_remove("CMWQ_QUIET"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {}\n{said}", output.status);
    Some(said)
}

#[test]
fn queueing() {
    check("queueing", &[]);
}

#[test]
fn what_is_asked_before_the_first_use_starts_nothing() {
    let Some(said) = check("unstarted", &[]) else { return };
    assert_eq!(said, "", "there is nothing to say");
}

#[test]
fn delayed_items() {
    check("delayed", &[]);
}

#[test]
fn delayed_items_of_a_program_with_another_hz() {
    check_as("delayed_hz", "delayed", &["-DHZ=1000"]);
}

#[test]
fn a_program_without_standard_streams() {
    let path = crate_dir().join("tests/c/streams.c");
    let Some(program) = program("streams", &path, &[]) else { return };
    let trace = program.with_extension("trace");
    let others = [("CMWQ_CONTROL", "1"), ("CMWQ_TRACE", trace.to_str().unwrap())];
    let sources = ["perf", "sentinel", "tick"].map(|source| ("CMWQ_DETECT", source));
    for (name, value) in sources.into_iter().chain(others) {
        let output = run(Command::new(&program).env(name, value));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}={value}: {}\n{said}", output.status);
    }
}

/// Its threads are in its code when a program closes it.
#[test]
fn a_library_that_is_closed_stays_loaded() {
    let source = crate_dir().join("tests/c/unload.c");
    let Some(program) = program("unload", &source, &[]) else { return };
    let output = run(Command::new(&program).arg(built("libcmwq.so")));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "still here\n");
}

#[test]
fn items_are_what_both_sides_think() {
    check("layout", &[]);
}

#[test]
fn cancelling_and_disabling() {
    check("cancel", &[]);
}

/// Lines that say that a queue is deprecated.
fn deprecated(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains("deprecated")).collect()
}

/// Once of each function that queues on each, by its name, and not if the program is to be quiet.
#[test]
fn system_queues() {
    let Some(said) = check("system", &["-rdynamic"]) else { return };
    let on = |queue: &str, other: &str| {
        let queue = format!("{queue}, a deprecated system workqueue");
        format!("cmwq: count_run is queued on {queue}; use {other}")
    };
    let expected = [on("system_wq", "system_percpu_wq"), on("system_unbound_wq", "system_dfl_wq")];
    assert_eq!(deprecated(&said), expected);
    let source = crate_dir().join("tests/c/system.c");
    let program = program("system_quiet", &source, &[]).expect("as before");
    let output = run(Command::new(program).env("CMWQ_QUIET", "1"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn queues_that_go() {
    let Some(said) = check("destroy", &[]) else { return };
    assert!(said.contains("is being drained, destroyed or shut down"), "{said}");
    assert!(said.contains("a system workqueue is destroyed"), "{said}");
}

/// What was freed is overwritten, so that whoever still uses it is found out.
#[test]
fn items_use_a_queue_that_one_of_them_has_destroyed() {
    let source = crate_dir().join("tests/c/destroy.c");
    let Some(program) = program("destroyed_inside", &source, &[]) else { return };
    let mut command = Command::new(program);
    command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").env("MALLOC_PERTURB_", "165");
    let output = run(&mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
}

/// Before, in the middle of and after `cmwq_shutdown`, whichever of them is the first use; and in a
/// thread that has given up what is local to it.
#[test]
fn every_function_returns_in_a_shutdown_and_after_it() {
    let source = crate_dir().join("tests/c/ending.c");
    let Some(program) = program("ending", &source, &[]) else { return };
    for mode in ["used", "in_it", "after_it", "never_used", "thread_ends"] {
        let output = run(Command::new(&program).arg(mode));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}: {}\n{said}", output.status);
    }
}

#[test]
fn every_function_is_called_there() {
    let source = include_str!("../c/ending.c");
    let elsewhere = [
        // Once, before the first use: `rcu` and `urcu`.
        "cmwq_set_rcu",
    ];
    for name in listed() {
        let is_there = source.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == name);
        assert!(is_there != elsewhere.contains(&&*name), "{name}: is it called?");
    }
}

#[test]
fn an_item_that_waits_in_a_pool_that_was_just_closed() {
    check("closing", &[]);
}

#[test]
fn flags_and_names() {
    let Some(said) = check("flags", &[]) else { return };
    for part in ["both WQ_PERCPU and WQ_UNBOUND", "too long"] {
        assert_eq!(said.matches(part).count(), 1, "'{part}' is said once:\n{said}");
    }
    // Once of each queue, by its name, however often it is made.
    for queue in ["q", "another"] {
        let line = format!("workqueue '{queue}' has neither WQ_PERCPU nor WQ_UNBOUND");
        assert_eq!(said.matches(&line).count(), 1, "said once of '{queue}':\n{said}");
    }
    for (queue, flag) in [("managed", "WQ_UNBOUND"), ("other", "WQ_PERCPU")] {
        let line = format!("workqueue '{queue}' has both CMWQ_MANAGED and {flag}; {flag} dropped");
        assert_eq!(said.matches(&line).count(), 1, "said once of '{queue}':\n{said}");
    }
}

#[test]
fn what_a_function_may_ask() {
    check("context", &[]);
}

#[test]
fn attributes() {
    let Some(said) = check("attrs", &[]) else { return };
    for part in [
        "apply_workqueue_attrs: affn_scope 7 is none: nothing is done",
        "apply_workqueue_attrs: cmwq_policy 77 with cmwq_rt_priority 0 is none: nothing is done",
        "apply_workqueue_attrs: a null pointer in place of a set of attributes: nothing is done",
        "nice 20",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn limits_and_freezing() {
    check("limits", &[]);
}

#[test]
fn items_after_a_grace_period() {
    let Some(said) = check("rcu", &[]) else { return };
    assert_eq!(said.matches("cannot be disabled or cancelled").count(), 1, "{said}");
    assert_eq!(said.matches("waited for inside of rcu_read_lock").count(), 1, "{said}");
    assert_eq!(said.matches("rcu_read_unlock without rcu_read_lock").count(), 1, "{said}");
}

#[test]
fn a_function_that_returns_inside_of_a_section_is_named_once() {
    let Some(said) = check("left_open", &[]) else { return };
    let names = ["leaves", "events_bh", "a timer", "call_rcu"];
    for name in names {
        let says =
            |line: &str| line.contains(name) && line.contains("returned inside of rcu_read_lock");
        assert_eq!(said.lines().filter(|line| says(line)).count(), 1, "{name}: {said}");
    }
    assert_eq!(said.lines().count(), names.len(), "{said}");
}

/// Numbers of threads and pools, and what depends on the machine, as `N`.
fn anonymous(said: &str) -> String {
    let words = |line: &str| {
        let words = line.split(' ').map(|word| match word.split_once('=') {
            Some((name @ ("cpus" | "workers"), _)) => format!("{name}=N"),
            _ => word.to_owned(),
        });
        words.filter(|word| !word.starts_with("node=")).collect::<Vec<_>>().join(" ")
    };
    let mut text = String::new();
    for line in said.lines().map(words) {
        let is_place =
            ["pool ", "  pwq ", "    in-flight: "].iter().any(|start| line.starts_with(start));
        if !is_place {
            text.push_str(&format!("{line}\n"));
            continue;
        }
        let (title, rest) =
            line.split_at(line.find(|c: char| c.is_ascii_digit()).unwrap_or(line.len()));
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        text.push_str(&format!("{title}N{rest}\n"));
    }
    text
}

#[test]
fn what_queues_and_workers_do() {
    let Some(said) = check("show", &["-rdynamic"]) else { return };
    let expected = "\
Showing busy workqueues and worker pools:
workqueue line: flags=0x20002
  pwq N: cpus=N flags=0x4 nice=0 active=1/1 refcnt=5
    in-flight: N:wait_at_gate(waits)
    inactive: 2*count_run, count_again
pool N: cpus=N flags=0x4 nice=0 workers=N
Showing freezable workqueues that are still busy:
Showing a busy workqueue:
workqueue line: flags=0x20002
  pwq N: cpus=N flags=0x4 nice=0 active=1/1 refcnt=5
    in-flight: N:wait_at_gate(waits)
    inactive: 2*count_run, count_again
Workqueue: line wait_at_gate (waits)
Workqueue: line wait_at_gate (waits)
workqueue line: idle
";
    let said = anonymous(&said);
    // How many workers are idle, and whether one is being created, is the pool's business.
    let said = said.replace(" flags=0x6 ", " flags=0x4 ");
    let said = said.lines().map(|line| match line.split_once(" workers=N") {
        Some((pool, _)) => format!("{pool} workers=N\n"),
        None => format!("{line}\n"),
    });
    assert_eq!(said.collect::<String>(), expected);
}

/// Calls with an argument are known by their function, inside of the program and from outside.
#[test]
fn calls_are_known_by_their_functions() {
    let source = crate_dir().join("tests/c/known.c");
    let Some(program) = program("known", &source, &["-rdynamic"]) else { return };
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if let Some((tid, func)) = line.trim_end().split_once(" 0x") {
        let tid: u32 = tid.parse().unwrap();
        let seen = Target::open(program.id()).unwrap().snapshot().unwrap();
        let worker = seen.workers.iter().find(|worker| worker.tid == tid).unwrap();
        let func = u64::from_str_radix(func, 16).unwrap();
        assert_eq!(worker.activity.map(|now| now.func), Some(func));
    }
    // The end of its input lets it go on.
    let output = program.wait_with_output().unwrap();
    let said = anonymous(&String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{line}{said}");
    for part in ["in-flight: N:held\n", "inactive: 2*behind\n", "Workqueue: line held\n"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn what_goes_beyond_the_kernel() {
    let source = crate_dir().join("tests/c/extensions.c");
    let Some(program) = program("extensions", &source, &[]) else { return };
    let params = "idle_ratio=9 idle_timeout=99";
    let output = run(Command::new(&program).env_remove("CMWQ_QUIET").env("CMWQ_PARAMS", params));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{said}", output.status);
    let is_refused = output.stdout == b"refused\n";
    assert_eq!(said.matches("is refused").count(), usize::from(is_refused), "said once:\n{said}");
}

/// In each dialect that the headers are for.
fn check_dialects(name: &str) {
    for dialect in DIALECTS {
        let source = crate_dir().join("tests/c").join(format!("{name}.c"));
        let standard = dialect.1.trim_start_matches("-std=").replace('+', "p");
        let program = program_in(dialect, &format!("{name}_{standard}"), &source, &[]);
        let Some(program) = program else { continue };
        let output = run(&mut Command::new(program));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {standard}: {}\n{said}", output.status);
    }
}

#[test]
fn lists() {
    check_dialects("lists");
}

#[test]
fn numbers_sets_and_jiffies() {
    check_dialects("numbers");
}

#[test]
fn sets_of_a_program_with_another_nr_cpus() {
    check_as("numbers_nr_cpus", "numbers", &["-DNR_CPUS=4"]);
}

/// A second has no whole number of milliseconds for each tick, or of nanoseconds.
#[test]
fn jiffies_of_a_program_with_another_hz() {
    for hz in ["300", "1024", "2000"] {
        check_as(&format!("numbers_{hz}"), "numbers", &[&format!("-DCMWQ_HZ={hz}")]);
    }
}

#[test]
fn functions_with_an_argument() {
    check_dialects("simple");
}

#[test]
fn timers_by_themselves() {
    let Some(said) = check("timers", &[]) else { return };
    assert_eq!(said.matches("which is armed: it stays as it was").count(), 1, "{said}");
    assert_eq!(said.matches("is deleted from inside its own function").count(), 1, "{said}");
}

#[test]
fn timers_of_a_program_with_another_hz() {
    check_as("timers_hz", "timers", &["-DHZ=1000"]);
}

#[test]
fn timers_and_callbacks_while_the_bh_queue_is_drained() {
    check("softirq", &[]);
}

#[test]
fn what_is_done_after_a_grace_period_and_at_the_end_of_a_device() {
    check("later", &[]);
}

#[test]
fn what_a_program_is_told() {
    let Some(said) = check("told", &[]) else { return };
    assert_eq!(said.matches("cmwq_set_thread_hooks: ").count(), 1, "{said}");
}

/// Two files of one program that do not agree on `HZ`.
#[test]
fn two_ideas_of_a_jiffy_are_said_once() {
    let source = crate_dir().join("tests/c/two_clocks.c");
    let Some(program) = program("two_clocks", &source, &[]) else { return };
    let output = run(Command::new(program).env_remove("CMWQ_QUIET"));
    let said = String::from_utf8_lossy(&output.stderr);
    let line = "cmwq: jiffies are 250 a second in one file of this program and 1000 in another: \
                define CMWQ_HZ as one number in all of them\n";
    assert!(output.status.success() && said == line, "{said}");
}

/// With liburcu, whose readers have to be registered threads.
#[test]
fn a_program_with_liburcu() {
    let Some(mut cc) = compiler("cc") else { return };
    let dir = scratch("urcu_try");
    std::fs::write(dir.join("try.c"), "#include <urcu.h>\n").expect("a source");
    let found = cc.arg("-fsyntax-only").arg(dir.join("try.c")).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return not_tested("there is no <urcu.h> (liburcu-dev)");
    }
    let source = crate_dir().join("tests/c/urcu.c");
    let program = program("urcu", &source, &["-lurcu"]).expect("there is a compiler");
    let output = run(&mut Command::new(program));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    assert_eq!(output.stdout, b"reclaimed 64\n", "{said}");
}

#[test]
fn queues_of_devices() {
    check("devres", &[]);
}

#[test]
fn a_program_with_types_of_its_own() {
    check("own_types", &["-DCMWQ_NO_KERNEL_SHIMS"]);
}

/// Code carried over from a kernel, with the small headers that come with the library and with
/// those that such code brings itself, which the library's then give way to.
#[test]
fn a_client_with_and_without_headers_of_its_own() {
    let source = crate_dir().join("tests/c/client.c");
    let shims = format!("-I{}", crate_dir().join("tests/c/shims").display());
    let with = [&*shims, "-DCMWQ_NO_KERNEL_SHIMS", "-include", "linux/kernel.h"];
    for (name, flags) in [("client", &[][..]), ("client_shims", &with)] {
        let Some(program) = program(name, &source, flags) else { return };
        let output = run(&mut Command::new(program));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.lines().last(), Some("answered 255"), "{name}");
    }
}
