//! The command: `thumbs` serves, `thumbs bench` compares pools.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use thumbs::bench;
use thumbs::limits::{Limits, at_least_one};
use thumbs::pool::{Kind, Pool};
use thumbs::server::Server;
use thumbs::service::Service;
use thumbs::signals::Signals;
use thumbs::store::{self, Slow};
use tokio::net::TcpListener;

/// Stores pictures and makes them smaller, over HTTP.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The same service on other pools, under load: throughput, refusals and latency.
    Bench(bench::Options),
}

#[derive(Args, Debug)]
struct Serve {
    /// Where to listen; port 0 is any that is free.
    #[arg(long, env = "THUMBS_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// A PostgreSQL server to keep pictures in, as postgres://USER@HOST/NAME, without TLS [default:
    /// SQLite].
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The file of SQLite.
    #[arg(long, env = "THUMBS_FILE", default_value = "thumbs.db")]
    file: PathBuf,
    /// How many requests may wait; more are answered with 429.
    #[arg(long, env = "THUMBS_PLACES", default_value_t = 64, value_parser = at_least_one)]
    places: u32,
    /// Where the work is done: cmwq, blocking:THREADS, semaphore:JOBS or rayon:THREADS. As many
    /// connections to the database are used, 32 with cmwq; PostgreSQL takes 100 by itself. With
    /// blocking:THREADS its host has to be an address: a name is looked up on the same threads.
    #[arg(long, default_value_t = Kind::Cmwq)]
    pool: Kind,
    /// Lets every call of the database take so much longer, to see what a slow disk does.
    #[arg(long, default_value_t = 0)]
    slow_disk_ms: u64,
    #[command(flatten)]
    limits: Limits,
}

fn main() -> anyhow::Result<()> {
    let Cli { command, serve } = Cli::parse();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Kind::Blocking(threads) = serve.pool {
        runtime.max_blocking_threads(threads);
    }
    let runtime = runtime.enable_all().build().context("starting a runtime")?;
    let ended = match command {
        Some(Command::Bench(options)) => runtime.block_on(bench::run(&options)),
        None => runtime.block_on(run(serve)),
    };
    // A thread may still wait for a name server, or work for a client who went away. To drop the
    // runtime would wait for it, without a limit and deaf to signals.
    runtime.shutdown_background();
    ended
}

async fn run(serve: Serve) -> anyhow::Result<()> {
    let limits = serve.limits;
    let mut signals = Signals::new().context("watching for signals")?;
    // Files with variables for containers have empty ones for what is not wanted.
    let address = serve.database_url.as_deref().filter(|address| !address.is_empty());
    let mut store = store::open(address, limits.database_timeout, &serve.file)?;
    if serve.slow_disk_ms > 0 {
        store = Arc::new(Slow::new(store, Duration::from_millis(serve.slow_disk_ms)));
    }
    let pool = Pool::new(serve.pool, serve.places)?;
    let service = Service::new(pool.clone(), store, &limits);
    let listener = TcpListener::bind(serve.listen)
        .await
        .with_context(|| format!("listening on {}; choose another by --listen", serve.listen))?;
    // The first line is what programs wait for.
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let mut server = Server::new(listener, service.router(), &limits);
    tokio::select! {
        never = server.run() => match never {},
        _ = signals.next() => {}
    }
    let finish = async {
        server.finish().await;
        pool.close().await;
    };
    tokio::select! {
        () = finish => Ok(()),
        () = tokio::time::sleep(limits.shutdown_timeout) => leave(1, &format!(
            "what was not finished in {} is left; --shutdown-timeout gives more time",
            humantime::format_duration(limits.shutdown_timeout),
        )),
        signal = signals.next() => leave(128 + signal, "a second signal: nothing is finished"),
    }
}

/// Ends the program, whatever still runs: what was answered with "stored" is on the disk.
fn leave(status: i32, why: &str) -> ! {
    // There may be nobody to read it.
    let _ = writeln!(std::io::stderr(), "thumbs: {why}");
    std::process::exit(status)
}
