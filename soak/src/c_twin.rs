//! The C twin: `c/soak.c`, compiled against the library and run.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::cli::CArgs;

#[expect(clippy::print_stderr, reason = "a failure is told to whoever runs this")]
pub(crate) fn run(args: &CArgs) -> ExitCode {
    match program(args) {
        Ok(program) => {
            let common = &args.common;
            let mut command = Command::new(program);
            let (seed, threads) = (common.seed(), common.threads());
            command.arg(common.secs.to_string()).arg(seed.to_string());
            command.arg(threads.to_string()).arg(common.patience.to_string());
            command.arg(u8::from(common.json).to_string()).arg(args.command(seed, threads));
            match watched(command) {
                Ok(true) => return ExitCode::SUCCESS,
                Ok(false) => eprintln!("soak in C: FAILED, see above"),
                Err(error) => eprintln!("soak: cannot run the program in C: {error}"),
            }
        }
        Err(error) => eprintln!("soak: {error}"),
    }
    ExitCode::FAILURE
}

/// Runs it, and passes on what it says: whether it ended well, and no thread panicked.
#[expect(clippy::print_stderr, reason = "what the program says is passed on")]
fn watched(mut command: Command) -> io::Result<bool> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut has_panicked = false;
    if let Some(said) = child.stderr.take() {
        for line in BufReader::new(said).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            has_panicked |= line.contains(" panicked at ");
            eprintln!("{line}");
        }
    }
    Ok(child.wait()?.success() && !has_panicked)
}

/// Compiles it.
fn program(args: &CArgs) -> io::Result<PathBuf> {
    let lib = args.lib.clone().map_or_else(built, Ok)?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = lib.join("cmwq-soak-c");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]);
    cc.args(["-fno-omit-frame-pointer", "-rdynamic"]).args(&args.cflag);
    cc.arg("-I").arg(here.join("../crates/cmwq-capi/include")).arg(here.join("c/soak.c"));
    cc.arg(lib.join("libcmwq.a")).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    succeed(cc)?;
    Ok(program)
}

/// Builds the library for release; returns where it is.
fn built() -> io::Result<PathBuf> {
    // target/release/cmwq-soak
    let exe = std::env::current_exe()?;
    let target = exe.parent().and_then(Path::parent).ok_or(io::ErrorKind::NotFound)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--lib", "--package", "cmwq-capi"]);
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    succeed(cargo)?;
    Ok(target.join("release"))
}

fn succeed(mut command: Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {status}")))
}
