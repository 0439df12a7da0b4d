//! The binary interface as a text, `abi.txt`: what programs that were compiled before rely on. A
//! change of it is seen in review; `CMWQ_BLESS=1 cargo test -p cmwq-capi --test it abi` writes it
//! anew.
//!
//! Why: docs/decisions/abi-text.md

use std::fmt::Write as _;
use std::process::Command;

use crate::c_names::{EVERYTHING, Names};
use crate::installed::{destdir, installed};
use crate::support::{compiler, crate_dir, include_dir, run, scratch, soname, succeed};
use crate::symbols::{exported, listed};

const HEAD: &str = "\
# The binary interface of libcmwq on 64-bit Linux, made by a test (tests/it/abi.rs) from the \
headers and the library.
# Lines that go or change break programs that are compiled already.
";

/// Symbols of the installed library with their kinds and versions.
fn symbols(text: &mut String) -> Option<()> {
    let library = installed(destdir()?, "lib/libcmwq.so");
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library);
    let output = String::from_utf8(succeed(&mut nm).stdout).expect("symbols are ASCII");
    let mut lines: Vec<_> = output
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = match words.next()? {
                "T" => "function",
                "D" | "B" | "R" => "object",
                // The version's own name.
                "A" => return None,
                other => panic!("symbol of kind {other}: {line}"),
            };
            let (name, version) = words.next()?.split_once("@@").expect("all have a version");
            Some(format!("{version} {kind} {name}\n"))
        })
        .collect();
    lines.sort();
    *text += "\n[symbols]\n";
    text.extend(lines);
    Some(())
}

/// A C program that prints sizes, offsets and values.
fn probe(names: &Names, is_constant: impl Fn(&str) -> bool) -> String {
    let mut program = format!("{EVERYTHING}#include <stdio.h>\nint main(void) {{\n");
    program += "puts(\"\\n[structs]\");\n";
    for (name, members) in &names.structs {
        let _ = writeln!(
            program,
            "printf(\"{name} size %zu align %zu\\n\", sizeof({name}), _Alignof({name}));"
        );
        for member in members {
            let _ = writeln!(
                program,
                "printf(\"{name}.{member} offset %zu size %zu\\n\", offsetof({name}, {member}), \
                 sizeof((({name} *)0)->{member}));"
            );
        }
    }
    program += "puts(\"\\n[constants]\");\n";
    let constants = names.macros.keys().filter(|name| is_constant(name));
    for name in names.enumerators.iter().chain(constants) {
        let _ = writeln!(program, "printf(\"{name} = %lld\\n\", (long long)({name}));");
    }
    program + "return 0;\n}\n"
}

/// Whether a program compiles.
fn compiles(text: &str) -> bool {
    let dir = scratch("abi_try");
    let source = dir.join("try.c");
    std::fs::write(&source, text).expect("a source");
    let mut cc = compiler("cc").expect("it was there before");
    cc.args(["-std=gnu11", "-fsyntax-only", "-I"]).arg(include_dir()).arg(&source);
    cc.output().is_ok_and(|output| output.status.success())
}

fn is_constant(name: &str) -> bool {
    // Not an address, which cannot be multiplied.
    let text = format!("{EVERYTHING}enum {{ PROBE = ({name}) * 0 }};\n");
    !name.contains('(') && compiles(&text)
}

/// `None`: no compiler.
fn snapshot() -> Option<String> {
    let names = Names::of_headers()?;
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "\n[library]\nsoname libcmwq.so.{}", soname());
    symbols(&mut text)?;

    let dir = scratch("abi");
    let (source, program) = (dir.join("probe.c"), dir.join("probe"));
    std::fs::write(&source, probe(&names, is_constant)).expect("a source");
    let mut cc = compiler("cc")?;
    cc.args(["-std=gnu11", "-Wno-deprecated-declarations", "-I"]).arg(include_dir());
    succeed(
        cc.arg(&source)
            .arg("-L")
            .arg(installed(destdir()?, "lib"))
            .args(["-lcmwq", "-o"])
            .arg(&program),
    );
    let output = run(Command::new(program).env("LD_LIBRARY_PATH", installed(destdir()?, "lib")));
    assert!(output.status.success());
    text += &String::from_utf8(output.stdout).expect("names are ASCII");

    text += "\n[declarations]\n";
    for declaration in names.declared.values() {
        let _ = writeln!(text, "{declaration}");
    }
    text += "\n[macros]\n";
    for (name, value) in &names.macros {
        let _ = writeln!(text, "{}", format!("{name} {value}").trim_end());
    }
    Some(text)
}

#[test]
fn the_interface_is_what_was_blessed() {
    let Some(now) = snapshot() else { return };
    let path = crate_dir().join("abi.txt");
    if std::env::var_os("CMWQ_BLESS").is_some() {
        std::fs::write(&path, &now).expect("abi.txt can be written");
    }
    let blessed = std::fs::read_to_string(&path).unwrap_or_default();
    let gone: Vec<_> = blessed.lines().filter(|line| !now.lines().any(|l| l == *line)).collect();
    let new: Vec<_> = now.lines().filter(|line| !blessed.lines().any(|l| l == *line)).collect();
    assert!(
        blessed == now,
        "the interface is not that of abi.txt.\ngone: {gone:#?}\nnew: {new:#?}\n\
         If that is meant: CMWQ_BLESS=1 cargo test -p cmwq-capi --test it abi"
    );
}

/// Lines of a released interface that compiled programs rely on and that are gone or changed.
/// Declarations and macros are for compilers, except that a changed declaration is a changed call.
fn breaks<'a>(released: &'a str, now: &str) -> Vec<&'a str> {
    let mut is_binary = false;
    let relied_on = released.lines().filter(|line| {
        if line.starts_with('[') {
            is_binary = ["[symbols]", "[structs]", "[constants]", "[declarations]"].contains(line);
        }
        is_binary && !line.is_empty()
    });
    relied_on.filter(|line| !now.lines().any(|other| other == *line)).collect()
}

fn soname_of(text: &str) -> Option<&str> {
    text.lines().find(|line| line.starts_with("soname "))
}

/// What was released and what is: who breaks the first gives the library another name, so that old
/// programs do not start with it.
fn complaint(released: &str, now: &str) -> Option<String> {
    let gone = breaks(released, now);
    let is_other = soname_of(released) != soname_of(now);
    (!gone.is_empty() && !is_other).then(|| {
        format!(
            "programs that are compiled rely on what is gone: {gone:#?}\nCount up the number \
                 in `soname`."
        )
    })
}

/// `abi-released.txt` is the interface of the last release (`.ci/release`); before the first there
/// is none.
#[test]
fn a_break_of_what_was_released_changes_the_soname() {
    let read = |name: &str| std::fs::read_to_string(crate_dir().join(name));
    let now = read("abi.txt").expect("it is there");
    if let Ok(released) = read("abi-released.txt") {
        assert_eq!(complaint(&released, &now), None);
    }
    // The rule itself.
    assert_eq!(complaint(&now, &now), None);
    let more = now.replace("\n[structs]", "CMWQ_0.2 function cmwq_new\n\n[structs]");
    assert_eq!(complaint(&now, &more), None, "what is added breaks nobody");
    let fewer = now.replace("CMWQ_0.1 function __init_work\n", "");
    assert_ne!(fewer, now);
    assert!(complaint(&now, &fewer).is_some_and(|said| said.contains("__init_work")));
    let renamed = fewer.replace("\nsoname libcmwq.so.", "\nsoname libcmwq.so.1");
    assert_eq!(complaint(&now, &renamed), None);
}

/// Sections of docs/compat.md whose names are not C's: files, parameters, tools.
const NOT_C: [&str; 3] = ["Parameters", "sysfs", "Tracing and tools"];

/// The names of docs/compat.md that are marked same or differs, with the line they are in.
fn present() -> Vec<(String, String)> {
    let path = crate_dir().join("../../docs/compat.md");
    let text = std::fs::read_to_string(path).expect("it is there");
    let mut found = Vec::new();
    let mut is_c = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            is_c = !NOT_C.contains(&title);
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        if !is_c
            || columns.len() < 5
            || !["same", "differs"].iter().any(|state| columns[3].starts_with(state))
        {
            continue;
        }
        let names = columns[1].split('`').skip(1).step_by(2);
        found.extend(names.map(|name| (name.to_owned(), line.to_owned())));
    }
    found
}

/// What is the same as in the kernel, or differs, can be named in C: exported, or in a header.
#[test]
fn what_is_compatible_is_there() {
    let Some(names) = Names::of_headers() else { return };
    let (listed, present) = (listed(), present());
    assert!(present.len() > 100, "docs/compat.md has its tables: {}", present.len());
    let missing: Vec<_> =
        present.iter().filter(|(name, _)| !listed.contains(name) && !names.has(name)).collect();
    assert!(missing.is_empty(), "present by docs/compat.md, and not in C: {missing:#?}");
}

/// A function that a header declares is in the library, and what the library exports is declared.
#[test]
fn headers_and_library_agree() {
    let (Some(names), Some(destdir)) = (Names::of_headers(), destdir()) else { return };
    let exported = exported(&installed(destdir, "lib/libcmwq.so"));
    for (name, declaration) in &names.declared {
        let is_inline = declaration.contains("static inline");
        // By another name: of the C library.
        let is_foreign = declaration.contains("__asm__");
        let is_there = is_inline || is_foreign || exported.contains(name);
        assert!(is_there, "declared and not exported: {declaration}");
    }
    for name in &exported {
        assert!(names.declared.contains_key(name), "exported and in no header: {name}");
    }
}
