//! How long others are waited for, and how many of them there may be.

use std::num::ParseIntError;
use std::time::Duration;

use clap::Args;
use humantime::parse_duration;

/// A number of an option's, of which nothing makes no sense.
///
/// # Errors
/// If it is none, or zero.
pub fn at_least_one(text: &str) -> Result<u32, String> {
    let number: u32 = text.parse().map_err(|error: ParseIntError| error.to_string())?;
    if number == 0 { Err("at least 1 is needed".to_owned()) } else { Ok(number) }
}

/// Limits of time, for clients, for the database, and for the program's own end, written as `30s`
/// or `500ms`; and of number.
#[derive(Args, Clone, Copy, Debug)]
pub struct Limits {
    /// How long a client may take to send the head of a request; also how long a connection is kept
    /// between two of them, and how long a client may still send what was refused. Short: who does
    /// nothing keeps one of the connections.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub head_timeout: Duration,
    /// How long a client may take to send its picture.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub body_timeout: Duration,
    /// How many pictures may be on their way at once, each with up to 20 MiB of memory; further
    /// ones are answered with 429.
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    pub bodies: u32,
    /// How long a client may take nothing of its answer, which lies in memory for so long.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub answer_timeout: Duration,
    /// How many connections are open at once; further ones wait until one is closed. Each may have
    /// a picture of 20 MiB and half a MiB of buffers in memory, and takes one of the files that may
    /// be open.
    #[arg(long, default_value_t = 256, value_parser = at_least_one)]
    pub connections: u32,
    /// How long PostgreSQL may take to answer, connecting included.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub database_timeout: Duration,
    /// How long requests may take to be finished when the program is asked to end. Less than
    /// whoever asked waits before it kills: Kubernetes 30 s, Docker 10 s.
    #[arg(long, default_value = "8s", value_parser = parse_duration)]
    pub shutdown_timeout: Duration,
}
