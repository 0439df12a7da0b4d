//! What `install.sh` puts where, as a package maker would call it, and that every example is built
//! and runs with what is installed: with the shared library, with the archive, and without any
//! shared library.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{built, compiler, crate_dir, not_tested, run, scratch, soname, succeed};
use crate::symbols::{exported, listed};

const PREFIX: &str = "/opt/cmwq";

/// The folder that everything was installed below; `None` without a compiler.
pub(crate) fn destdir() -> Option<&'static Path> {
    static DESTDIR: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        compiler("cc")?;
        let destdir = scratch("installed");
        let mut install = Command::new(crate_dir().join("install.sh"));
        install.args(["--prefix", PREFIX, "--destdir"]).arg(&destdir);
        succeed(install.arg("--archive").arg(built("libcmwq.a")));
        Some(destdir)
    };
    DESTDIR.get_or_init(install).as_deref()
}

/// A folder below the prefix.
pub(crate) fn installed(destdir: &Path, name: &str) -> PathBuf {
    destdir.join(PREFIX.trim_start_matches('/')).join(name)
}

/// What `pkg-config` says, or what it should say where there is none.
fn flags(destdir: &Path, wanted: &[&str]) -> Vec<String> {
    if let Some(said) = pkg_config(destdir, wanted) {
        // Words are quoted as for a shell where the repository's path has blanks.
        let words = said.replace("\\ ", "\0");
        return words.split_whitespace().map(|word| word.replace('\0', " ")).collect();
    }
    let include = format!("-I{}", installed(destdir, "include/cmwq").display());
    let lib = format!("-L{}", installed(destdir, "lib").display());
    [&include, &lib, "-lcmwq", "-lpthread", "-ldl", "-lm"].map(str::to_owned).to_vec()
}

/// `None`: there is no `pkg-config`.
fn pkg_config(destdir: &Path, wanted: &[&str]) -> Option<String> {
    if Command::new("pkg-config").arg("--version").output().is_err() {
        not_tested("there is no pkg-config");
        return None;
    }
    let mut config = Command::new("pkg-config");
    config.env("PKG_CONFIG_LIBDIR", installed(destdir, "lib/pkgconfig"));
    config.env("PKG_CONFIG_SYSROOT_DIR", destdir).env_remove("PKG_CONFIG_PATH");
    let output = succeed(config.args(wanted).arg("libcmwq"));
    Some(String::from_utf8(output.stdout).expect("it is text"))
}

/// All files below a folder, as paths relative to it, sorted.
fn files(dir: &Path) -> Vec<String> {
    fn collect(dir: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("it is there").is_dir() {
                collect(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    collect(dir, "", &mut found);
    found.sort();
    found
}

#[test]
fn everything_is_in_its_place() {
    let Some(destdir) = destdir() else { return };
    let version = env!("CARGO_PKG_VERSION");
    let major = soname();
    let mut expected = vec![
        "lib/libcmwq.a".to_owned(),
        "lib/libcmwq.so".to_owned(),
        format!("lib/libcmwq.so.{major}"),
        format!("lib/libcmwq.so.{version}"),
        "lib/pkgconfig/libcmwq.pc".to_owned(),
    ];
    let headers = files(&crate_dir().join("include"));
    assert!(headers.contains(&"linux/workqueue.h".to_owned()), "{headers:?}");
    expected.extend(headers.iter().map(|name| format!("include/cmwq/{name}")));
    let texts = ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "README.md"];
    expected.extend(texts.map(|name| format!("share/doc/libcmwq/{name}")));
    expected.sort();
    let below = PREFIX.trim_start_matches('/');
    let all = files(destdir);
    let found = all.iter().map(|name| {
        let name = name.strip_prefix(below).and_then(|name| name.strip_prefix('/'));
        name.unwrap_or_else(|| panic!("outside of the prefix: {all:?}"))
    });
    let found: Vec<_> = found.filter(|name| !name.starts_with("share/man/")).collect();
    assert_eq!(found, expected);
    for file in &all {
        let text = std::fs::read(destdir.join(file)).expect("a link leads to a file");
        assert!(!text.is_empty(), "{file}");
    }
}

/// A program that stands for the command: it says of itself what `install.sh` asks.
const STAND_IN: &str = r#"#!/bin/sh
case $1 in
man) mkdir -p "$2" && echo page >"$2/cmwq.1" ;;
*) echo "$*" ;;
esac
"#;

#[test]
fn libraries_go_where_a_distribution_wants_them_and_the_command_with_its_pages() {
    if compiler("cc").is_none() {
        return;
    }
    let destdir = scratch("libdir");
    let command = destdir.join("stand-in");
    std::fs::write(&command, STAND_IN).unwrap();
    std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut install = Command::new(crate_dir().join("install.sh"));
    install.args(["--prefix=/usr", "--libdir", "/usr/lib/some-linux-gnu", "--no-strip"]);
    install.arg("--destdir").arg(&destdir).arg("--archive").arg(built("libcmwq.a"));
    // What a package maker sets is heeded.
    install.env("LDFLAGS", "-Wl,--build-id=0x0123456789abcdef");
    succeed(install.arg("--command").arg(&command));
    let lib = destdir.join("usr/lib/some-linux-gnu");
    let notes = succeed(Command::new("readelf").arg("-n").arg(lib.join("libcmwq.so")));
    assert!(String::from_utf8_lossy(&notes.stdout).contains("0123456789abcdef"));
    let text = std::fs::read_to_string(lib.join("pkgconfig/libcmwq.pc")).unwrap();
    assert!(text.contains("\nlibdir=${prefix}/lib/some-linux-gnu\n"), "{text}");
    for file in [
        "bin/cmwq",
        "share/man/man1/cmwq.1",
        "share/bash-completion/completions/cmwq",
        "share/zsh/site-functions/_cmwq",
        "share/fish/vendor_completions.d/cmwq.fish",
    ] {
        let text = std::fs::read(destdir.join("usr").join(file));
        assert!(text.is_ok_and(|text| !text.is_empty()), "{file}");
    }
}

#[test]
fn wrong_usage_of_the_installer_is_said_and_installs_nothing() {
    let destdir = scratch("wrong_usage");
    let root = destdir.to_str().unwrap();
    for (args, said) in [
        (&["--prefix"][..], "--prefix needs a value"),
        (&["--libdir="], "--libdir needs a value"),
        (&["--prefix", "usr"], "must begin with /"),
        (&["--archive", "/nowhere/libcmwq.a"], "there is no file '/nowhere/libcmwq.a'"),
        (&["--no-such-option"], "there is no option '--no-such-option'"),
        (&["install"], "there is no option 'install'"),
    ] {
        let mut install = Command::new(crate_dir().join("install.sh"));
        let output = run(install.args(["--destdir", root]).args(args));
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said) && text.contains("--help"), "{args:?}: {text}");
    }
    let output = run(Command::new(crate_dir().join("install.sh")).arg("--help"));
    assert!(output.status.success() && output.stdout.starts_with(b"usage: install.sh"));
    assert_eq!(files(&destdir), Vec::<String>::new());
}

#[test]
fn symbols_have_versions_and_the_library_a_name() {
    let Some(destdir) = destdir() else { return };
    let library = installed(destdir, "lib/libcmwq.so");
    assert_eq!(exported(&library), listed());
    let symbols = succeed(Command::new("nm").args(["-D", "--with-symbol-versions"]).arg(&library));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    for line in symbols.lines().filter(|line| line.contains(" T ") || line.contains(" D ")) {
        assert!(line.contains("@@CMWQ_"), "a symbol without a version: {line}");
    }
    let dynamic = succeed(Command::new("readelf").arg("-d").arg(&library));
    let soname = format!("[libcmwq.so.{}]", soname());
    assert!(String::from_utf8_lossy(&dynamic.stdout).contains(&soname), "no soname {soname}");
}

#[test]
fn pkg_config_knows_the_library() {
    let Some(destdir) = destdir() else { return };
    let file = installed(destdir, "lib/pkgconfig/libcmwq.pc");
    let text = std::fs::read_to_string(file).expect("it is there");
    assert!(text.contains(&format!("prefix={PREFIX}\n")) && !text.contains('@'), "{text}");

    let Some(version) = pkg_config(destdir, &["--modversion"]) else { return };
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let include = format!("-I{}", installed(destdir, "include/cmwq").display());
    let lib = format!("-L{}", installed(destdir, "lib").display());
    assert_eq!(flags(destdir, &["--cflags"]), [include]);
    assert_eq!(flags(destdir, &["--libs"]), [lib, "-lcmwq".to_owned()]);
    let all = flags(destdir, &["--libs", "--static"]);
    assert!(all.contains(&"-lpthread".to_owned()), "{all:?}");
}

/// How a program gets at the library.
#[derive(Clone, Copy, Debug)]
enum Linking {
    Shared,
    Archive,
    Static,
}

fn link(destdir: &Path, example: &Path, linking: Linking) -> Option<PathBuf> {
    let name = example.file_stem().expect("it has a name").to_string_lossy();
    let program = scratch(&format!("example_{name}_{linking:?}")).join(&*name);
    let mut cc = compiler("cc")?;
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"]).arg(example);
    match linking {
        Linking::Shared => cc.args(flags(destdir, &["--cflags", "--libs"])),
        Linking::Archive => {
            let archive = installed(destdir, "lib/libcmwq.a").display().to_string();
            let flags = flags(destdir, &["--cflags", "--libs", "--static"]).into_iter();
            cc.args(flags.map(|flag| if flag == "-lcmwq" { archive.clone() } else { flag }))
        }
        // The linker warns of what in a static program needs shared libraries of its own.
        Linking::Static => {
            let flags = flags(destdir, &["--cflags", "--libs", "--static"]).into_iter();
            cc.arg("-static").args(flags)
        }
    };
    succeed(cc.arg("-o").arg(&program));
    Some(program)
}

/// Whether there is a C library to link statically with.
fn has_static_libc() -> bool {
    let Some(mut cc) = compiler("cc") else { return false };
    let dir = scratch("static_libc");
    let source = dir.join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a source");
    let output = cc.arg("-static").arg(&source).arg("-o").arg(dir.join("empty")).output();
    let has = output.is_ok_and(|output| output.status.success());
    if !has {
        not_tested("there is no static C library");
    }
    has
}

/// Builds an example in each way and has `check` look at how to run it.
fn each_way(name: &str, check: impl Fn(&dyn Fn() -> Command)) {
    let Some(destdir) = destdir() else { return };
    let example = crate_dir().join("examples/c").join(format!("{name}.c"));
    let mut ways = vec![Linking::Shared, Linking::Archive];
    if has_static_libc() {
        ways.push(Linking::Static);
    }
    for linking in ways {
        let Some(program) = link(destdir, &example, linking) else { return };
        check(&|| {
            let mut command = Command::new(&program);
            if matches!(linking, Linking::Shared) {
                command.env("LD_LIBRARY_PATH", installed(destdir, "lib"));
            }
            command
        });
    }
}

/// The example prints this, whatever it is linked with.
fn prints(name: &str, expected: &str) {
    each_way(name, |command| {
        let output = run(&mut command());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
    });
}

#[test]
fn example_hello() {
    prints("hello", "the sum of the squares is 285\n");
}

#[test]
fn example_delayed() {
    prints("delayed", "saved 5 changes\ncancelled: yes\nbeat 1\nbeat 2\nbeat 3\n");
}

#[test]
fn example_ordered() {
    let mut expected = String::new();
    let mut balance = 0;
    for step in 0..10 {
        balance = balance * 2 + step % 2;
        expected += &format!("step {step}: {balance}\n");
    }
    prints("ordered", &expected);
}

#[test]
fn example_flush_and_drain() {
    prints(
        "flush_and_drain",
        "flushed: at least one pass: yes\n\
         drained: 5 passes\n\
         queued while disabled: no\n\
         enabled by one call: no\n\
         after all: 6 passes\n",
    );
}

/// A program that knows of `<cmwq/simple.h>` only may have the kernel's names for its own functions
/// and variables: they are those of the program, and the library does without.
#[test]
fn a_program_may_have_the_kernels_names() {
    let Some(destdir) = destdir() else { return };
    let own: Vec<_> = listed().into_iter().filter(|name| !name.starts_with("cmwq_")).collect();
    assert!(own.len() > 80, "{own:?}");
    let mut text =
        "#include <cmwq/simple.h>\n#include <linux/cpumask.h>\nstatic int runs, calls;\n\
                    static void run(void *arg) { (void)arg; __atomic_add_fetch(&runs, 1, 5); }\n"
            .to_owned();
    for name in &own {
        text += &if name.ends_with("_wq") && name.starts_with("system_") {
            format!("int {name};\n")
        } else {
            format!("int {name}(void);\nint {name}(void) {{ return ++calls; }}\n")
        };
    }
    text += "int main(void)\n{\n\
             struct workqueue_struct *wq = cmwq_create(\"own\");\n\
             if (!wq || cmwq_queue(wq, run, 0) != 0 || cmwq_queue(0, run, 0) != 0)\n\
             return 2;\n\
             cmwq_flush(wq);\ncmwq_destroy(wq);\n\
             if (cmwq_shutdown(60000) != 0)\nreturn 3;\n\
             return runs == 2 && calls == 0 && queue_work() == 1 && system_wq == 0 ? 0 : 4;\n}\n";
    text = text.replace("int main", "int cmwq_shutdown(unsigned int timeout_ms);\nint main");
    let source = scratch("own_names_source").join("own_names.c");
    std::fs::write(&source, text).expect("a source");
    let mut ways = vec![Linking::Shared];
    if Command::new("objcopy").arg("--version").output().is_ok() {
        ways.push(Linking::Archive);
        ways.extend(has_static_libc().then_some(Linking::Static));
    }
    for linking in ways {
        let Some(program) = link(destdir, &source, linking) else { return };
        let lib = installed(destdir, "lib");
        let output = run(Command::new(program).env("LD_LIBRARY_PATH", lib));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{linking:?}: {}\n{said}", output.status);
    }
}

/// Cycles of a kind in the load generator's report.
fn cycles(report: &str, kind: &str) -> u64 {
    let line = report.lines().find(|line| line.starts_with(kind));
    let fields: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    assert_eq!(fields.len(), 7, "no line for {kind}:\n{report}");
    fields[2].parse().expect("a number of cycles")
}

/// Starts are never early (the program fails if one is), and each kind that has works runs.
#[test]
fn example_perf_wq() {
    each_way("perf-wq", |command| {
        let queue = ["percpu", "unbound", "managed"];
        // A longer run only where nothing came to run in the shorter one.
        let works = ["-w", "short=4:20/1/5", "-w", "medium=2:20/2/10", "-w", "long=0"];
        for queue in queue {
            let done = ["0.2", "2", "20"].into_iter().any(|seconds| {
                let output =
                    run(command().args(["-t", seconds, "-s", "7", "-q", queue]).args(works));
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}\n{said}", output.status);
                let report = String::from_utf8_lossy(&output.stdout).into_owned();
                let head = format!("perf-wq -t {seconds} -s 7 -q {queue} -m 0\n");
                assert!(report.starts_with(&head), "{report}");
                assert_eq!(cycles(&report, "long"), 0);
                cycles(&report, "short") > 0 && cycles(&report, "medium") > 0
            });
            assert!(done, "nothing runs on a {queue} queue");
        }
        let output = run(command().arg("-h"));
        assert!(output.status.success() && output.stdout.starts_with(b"usage: perf-wq"));
        let parts =
            ["short", "short=5x", "short=10:", "short=10:50", "short=10:50/1/10x", "short="];
        let wrong = [["-q", "none"], ["-t", "x"], ["-s", "abc"], ["-s", "-1"], ["-s", "7x"]];
        let wrong = wrong.into_iter().chain(parts.map(|part| ["-w", part]));
        for wrong in wrong.map(Vec::from).chain([vec!["-z"], vec!["more"]]) {
            let output = run(command().args(&wrong));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2) && said.contains("usage:"), "{wrong:?} {said}");
        }
    });
}

/// An example that nobody runs is an example that stops working.
#[test]
fn every_example_is_run() {
    let tests = include_str!("installed.rs");
    for file in files(&crate_dir().join("examples/c")) {
        let name = file.trim_end_matches(".c").replace('-', "_");
        assert!(tests.contains(&format!("fn example_{name}()")), "no test runs {file}");
    }
}

/// `cargo cinstall`, where cargo-c is installed: the same files, but for the links between pages.
#[test]
fn cargo_c_installs_the_same() {
    let mut cinstall = Command::new(env!("CARGO"));
    if !cinstall.args(["cinstall", "--version"]).output().is_ok_and(|said| said.status.success()) {
        return not_tested("there is no cargo-c");
    }
    let Some(ours) = destdir() else { return };
    let theirs = scratch("cargo_c");
    let mut cinstall = Command::new(env!("CARGO"));
    cinstall.args(["cinstall", "--profile", "dev", "--prefix", PREFIX, "--libdir", "lib"]);
    cinstall.arg("--target-dir").arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/cargo_c_target"));
    succeed(cinstall.arg("--destdir").arg(&theirs).current_dir(crate_dir()));
    let is_link =
        |name: &String| std::fs::read(ours.join(name)).is_ok_and(|text| text.starts_with(b".so "));
    let expected: Vec<_> = files(ours).into_iter().filter(|name| !is_link(name)).collect();
    assert_eq!(files(&theirs), expected);
    assert_eq!(exported(&installed(&theirs, "lib/libcmwq.so")), listed());
    if let Some(flags) = pkg_config(&theirs, &["--cflags", "--libs"]) {
        let ours = pkg_config(ours, &["--cflags", "--libs"]).unwrap_or_default();
        assert_eq!(flags.replace("/cargo_c/", "/installed/"), ours);
    }
}
