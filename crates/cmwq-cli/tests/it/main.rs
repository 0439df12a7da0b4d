//! The `cmwq` command from outside.

mod containers;
mod doctor;
mod enough;
mod errors;
mod hostile;
mod impatient_output;
mod json;
mod launching;
mod looking;
mod manual;
mod pictures;
mod processes;
mod refusing;
mod run;
mod set;
mod sum_failures;
mod sum_json;
mod sum_like_sha256sum;
mod sum_terminal;
mod support;
mod top;
mod trace;
mod tracing_others;
mod usage;
