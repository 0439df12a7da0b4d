//! The `cmwq` command. Everything is in the library, where fuzzing can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    cmwq_cli::main()
}
