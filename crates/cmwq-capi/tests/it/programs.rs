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
fn a_program_with_types_of_its_own() {
    check("own_types", &["-DCMWQ_NO_KERNEL_SHIMS"]);
}

/// Code carried over from a kernel, with the small headers that come with the library and with those that such code
/// brings itself, which the library's then give way to.
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
