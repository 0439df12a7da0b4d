//! Peers in other languages: their sources travel inside this binary and are compiled when they are
//! first wanted.
//!
//! A missing compiler or library is not an error of the run: the peer's row says what is absent.

use std::cell::OnceCell;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, Result, bail};

use crate::systems::System;

const TBB_SOURCE: (&str, &str) = ("tbb.cpp", include_str!("../peers/tbb.cpp"));

const CAPI_SOURCE: (&str, &str) = ("capi.c", include_str!("../peers/capi.c"));

const GO_SOURCES: [(&str, &str); 10] = [
    ("go.mod", include_str!("../peers/go/go.mod")),
    ("main.go", include_str!("../peers/go/main.go")),
    ("sys.go", include_str!("../peers/go/sys.go")),
    ("mixed.go", include_str!("../peers/go/mixed.go")),
    ("block.go", include_str!("../peers/go/block.go")),
    ("items.go", include_str!("../peers/go/items.go")),
    ("roundtrip.go", include_str!("../peers/go/roundtrip.go")),
    ("delayed.go", include_str!("../peers/go/delayed.go")),
    ("idle.go", include_str!("../peers/go/idle.go")),
    ("perfwq.go", include_str!("../peers/go/perfwq.go")),
];

/// The programs of the external peers, built at most once per run.
#[derive(Debug, Default)]
pub(crate) struct External {
    tbb: OnceCell<Result<PathBuf, String>>,
    go: OnceCell<Result<PathBuf, String>>,
    capi: OnceCell<Result<[PathBuf; 2], String>>,
}

impl External {
    /// Why `system` cannot be measured here, if so. Builds it if that is what it takes to know.
    pub(crate) fn absent(&self, system: System) -> Option<String> {
        system.left_out().or_else(|| self.built(system)?.err().cloned())
    }

    /// The program to run for `system`, `None` if it runs inside this one.
    pub(crate) fn program(&self, system: System) -> Option<&Path> {
        self.built(system)?.ok()
    }

    /// The version of `system` and of what compiles it; `None` where it is none of those here.
    pub(crate) fn version(&self, system: System) -> Option<String> {
        let program = self.program(system)?;
        let said = |command: &mut Command| {
            let output = output(command).ok().filter(|output| output.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
        };
        match system {
            System::Tbb => Some(format!(
                "oneTBB {} by {}",
                said(Command::new(program).arg("--version"))?,
                said(Command::new(cxx()).arg("--version"))?
            )),
            System::Go | System::GoPark => {
                // As "go version go1.24 linux/amd64".
                Some(said(Command::new("go").arg("version"))?.split_whitespace().nth(2)?.to_owned())
            }
            _ => None,
        }
    }

    fn built(&self, system: System) -> Option<Result<&Path, &String>> {
        let describe = |error: anyhow::Error| format!("absent: {error:#}");
        match system {
            System::Tbb => Some(self.tbb.get_or_init(|| build_tbb().map_err(describe)).as_deref()),
            System::Go | System::GoPark => {
                Some(self.go.get_or_init(|| build_go().map_err(describe)).as_deref())
            }
            System::Capi | System::CapiStatic => {
                let built = self.capi.get_or_init(|| build_capi().map_err(describe)).as_ref();
                let index = usize::from(system == System::CapiStatic);
                Some(built.map(|programs| programs[index].as_path()))
            }
            _ => None,
        }
    }
}

fn cxx() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned())
}

fn build_tbb() -> Result<PathBuf> {
    let compiler = cxx();
    let folder = build_folder("tbb")?;
    let source = folder.join(TBB_SOURCE.0);
    let program = folder.join("tbb-peer");
    let changed = write_if_changed(&source, TBB_SOURCE.1)?;

    let mut probe = Command::new(&compiler);
    probe.args(["-std=c++20", "-fsyntax-only", "-x", "c++", "-include", "oneapi/tbb/task_arena.h"]);
    let probed = output(probe.arg("/dev/null")).with_context(|| {
        format!("no C++ compiler: `{compiler}` does not run (install g++, or set CXX)")
    })?;
    if !probed.status.success() {
        bail!("no oneTBB headers (Debian, Ubuntu: libtbb-dev; Fedora: tbb-devel)");
    }
    if changed || !program.exists() {
        let mut compile = Command::new(&compiler);
        compile
            .args(["-std=c++20", "-O2", "-pthread", "-o"])
            .arg(&program)
            .arg(&source)
            .arg("-ltbb");
        succeed(&mut compile).context("compiling the oneTBB peer")?;
    }
    Ok(program)
}

fn build_go() -> Result<PathBuf> {
    let folder = build_folder("go")?;
    let program = folder.join("go-peer");
    let mut changed = false;
    for (name, text) in GO_SOURCES {
        changed |= write_if_changed(&folder.join(name), text)?;
    }
    output(Command::new("go").arg("version")).context("`go` is not on PATH")?;
    if changed || !program.exists() {
        let mut compile = Command::new("go");
        compile.args(["build", "-o"]).arg(&program).arg(".").current_dir(&folder);
        // No module outside the standard library is used, so nothing is ever downloaded.
        compile.env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod").env("GOWORK", "off");
        succeed(&mut compile).context("compiling the Go peer")?;
    }
    Ok(program)
}

/// The C program with the shared library, as it is installed, and with the archive. Needs the
/// sources that this program was built from.
fn build_capi() -> Result<[PathBuf; 2]> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    output(Command::new(&compiler).arg("--version"))
        .with_context(|| format!("no C compiler: `{compiler}` does not run"))?;
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cmwq-capi");
    let this = std::env::current_exe().context("finding this program's own file")?;
    // target/release/cmwq-bench: the library is built as this program was.
    let profile = this.parent().context("this program is in a folder")?;
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.args(["build", "--quiet", "--lib", "--manifest-path"]).arg(crate_dir.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(profile.parent().context("in a folder of a folder")?);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    succeed(&mut cargo).context("building libcmwq")?;

    let archive = profile.join("libcmwq.a");
    let about = fs::metadata(&archive).context("looking at libcmwq.a")?;
    let made = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let all = build_folder("capi")?;
    let mut key = DefaultHasher::new();
    (about.len(), made, CAPI_SOURCE).hash(&mut key);
    let folder = all.join(format!("{:016x}", key.finish()));
    if !folder.exists() {
        // Others may be building the same, or running it: what has its final name is complete.
        let new = all.join(format!("new-{}", std::process::id()));
        build_capi_in(&new, &crate_dir, &archive, &compiler)?;
        if fs::rename(&new, &folder).is_err() {
            fs::remove_dir_all(&new).context("somebody else was first")?;
        }
    }
    Ok(["capi-peer", "capi-peer-static"].map(|name| folder.join(name)))
}

fn build_capi_in(folder: &Path, crate_dir: &Path, archive: &Path, compiler: &str) -> Result<()> {
    let mut install = Command::new(crate_dir.join("install.sh"));
    install.arg("--prefix").arg(folder).arg("--archive").arg(archive);
    succeed(&mut install).context("installing libcmwq")?;
    let source = folder.join(CAPI_SOURCE.0);
    fs::write(&source, CAPI_SOURCE.1).context("writing the C program")?;
    for (name, is_static) in [("capi-peer", false), ("capi-peer-static", true)] {
        let mut compile = Command::new(compiler);
        compile.args(["-std=gnu11", "-O2", "-I"]).arg(folder.join("include/cmwq"));
        compile.arg("-o").arg(folder.join(name)).arg(&source);
        if is_static {
            compile.arg(folder.join("lib/libcmwq.a")).args(["-lpthread", "-ldl", "-lm"]);
        } else {
            compile.arg("-L").arg(folder.join("lib")).args(["-lcmwq", "-Wl,-rpath,$ORIGIN/lib"]);
        }
        succeed(&mut compile).context("compiling the C program")?;
    }
    Ok(())
}

/// Beside this program, so that it goes away with the build directory.
pub(crate) fn build_folder(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("finding this program's own file")?;
    let folder = this.parent().unwrap_or(Path::new(".")).join("bench-peers").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

fn write_if_changed(path: &Path, text: &str) -> Result<bool> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(true)
}

fn output(command: &mut Command) -> Result<Output> {
    Ok(command.stdin(Stdio::null()).output()?)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = output(command)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // The first error says more than the first line, which is often only where it was included
        // from.
        let error = text.lines().find(|line| line.contains("error")).or(text.lines().next());
        bail!("{}", error.unwrap_or("the compiler failed and gave no message"));
    }
    Ok(())
}
