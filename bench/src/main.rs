//! `cmwq-bench`: cmwq and its peers, measured side by side in one run.
//!
//! The parent process plans rounds and prints tables; every single measurement happens in a fresh
//! child process, so that one system's idle threads, warm caches or leaked memory cannot help or
//! hurt the next one.
//!
//! Reading order: [`systems`] (who takes part), [`peers`] (how each one is used), the `bench_*`
//! modules (what is measured), [`rounds`] and [`child`] (how rounds alternate), [`report`] (what is
//! printed).

#![deny(unsafe_code)]

mod bench_block;
mod bench_capi;
mod bench_crypt;
mod bench_delayed;
mod bench_hash;
mod bench_idle;
mod bench_items;
mod bench_mixed;
mod bench_perf_wq;
mod bench_pictures;
mod bench_power;
mod bench_queues;
mod bench_roundtrip;
mod bench_scaling;
mod bench_showing;
mod bench_sizes;
mod bench_tasks;
mod bench_ten;
mod bench_waits;
mod bench_woken;
mod child;
mod cli;
mod cold;
mod commit;
mod computing;
mod document;
mod external;
mod foreground;
mod foreign;
mod gate;
mod job;
mod machine;
mod original;
mod peers;
mod perf_wq;
mod plot;
mod report;
mod rounds;
mod stats;
mod sys;
mod systems;
mod timers;
mod versions;
mod write_up;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
