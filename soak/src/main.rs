//! `cmwq-soak`: every public operation of the library, at random, from many threads, for as long as
//! one likes, and from C.
//!
//! What is counted: each accepted item ran once or was taken back, none ran twice at once, each
//! panic was delivered once. What is watched: that each call returns in time, memory, threads. A
//! failure ends the program with a dump, the seed and the command that repeats it.
//!
//! Reading order: [`world`] (stations: a queue, its items, their books), [`subject`] (reusable
//! items), [`books`] (closures), [`body`] (what items do, and why they cannot wait for each other
//! in a circle), [`actor`] (what threads do), [`disturb`] (what the switches add), [`watch`] (who
//! ends it all), [`last`] (what the shutdown meets).

mod actor;
mod body;
mod books;
mod c_twin;
mod cli;
mod closures;
mod disturb;
mod forks;
mod last;
mod run;
mod short;
mod subject;
mod summary;
mod sys;
mod watch;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
