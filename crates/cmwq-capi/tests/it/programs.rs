//! Programs in `tests/c`, each with its own checks.

use std::process::Command;

use crate::support::{built, crate_dir, program, run};

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
fn delayed_items() {
    check("delayed", &[]);
}

#[test]
fn delayed_items_of_a_program_with_another_hz() {
    check_as("delayed_hz", "delayed", &["-DHZ=1000"]);
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

#[test]
fn system_queues() {
    let Some(said) = check("system", &[]) else { return };
    let deprecated = said.lines().filter(|line| line.contains("deprecated")).count();
    assert_eq!(deprecated, 1, "said once:\n{said}");
}

#[test]
fn queues_that_go() {
    let Some(said) = check("destroy", &[]) else { return };
    assert!(said.contains("is being drained, destroyed or shut down"), "{said}");
    assert!(said.contains("a system workqueue is destroyed"), "{said}");
}

#[test]
fn an_item_that_waits_in_a_pool_that_was_just_closed() {
    check("closing", &[]);
}

#[test]
fn flags_and_names() {
    let Some(said) = check("flags", &[]) else { return };
    for part in ["neither WQ_PERCPU nor WQ_UNBOUND", "both WQ_PERCPU and WQ_UNBOUND", "too long"] {
        assert_eq!(said.matches(part).count(), 1, "'{part}' is said once:\n{said}");
    }
}

#[test]
fn what_a_function_may_ask() {
    check("context", &[]);
}

#[test]
fn attributes() {
    check("attrs", &[]);
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
