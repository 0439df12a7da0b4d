//! A server process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::pool::Kind;
use crate::process;

/// How many requests may wait. It is the same for all pools; how many may have begun is not.
pub(super) const PLACES: u32 = 64;
/// As many connections and bodies on their way as come: only the pools are compared.
const NO_LIMIT: &str = "1024";
/// How often its threads are counted.
const COUNT_EVERY: Duration = Duration::from_millis(50);

/// The database of which every server gets a copy.
pub(super) fn template(folder: &Path) -> PathBuf {
    folder.join("template.db")
}

/// A running server. It is killed if this is dropped.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    /// `http://ADDRESS`
    pub(super) address: String,
    most_threads: Arc<AtomicUsize>,
    counting: JoinHandle<()>,
    file: PathBuf,
}

impl ServerProcess {
    pub(super) async fn start(pool: Kind, folder: &Path, slow_ms: u64) -> anyhow::Result<Self> {
        let file = folder.join("served.db");
        std::fs::copy(template(folder), &file).context("copying the database")?;
        // Not while it is measured.
        File::open(&file)?.sync_all().context("writing the database")?;
        let program = std::env::current_exe().context("finding this program's own file")?;
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--pool", &pool.to_string()]);
        command.args(["--places", &PLACES.to_string(), "--bodies", NO_LIMIT]);
        // Nor is one closed at the moment at which a client uses it again.
        command.args(["--connections", NO_LIMIT, "--head-timeout", "1h"]);
        command.args(["--slow-disk-ms", &slow_ms.to_string()]).arg("--file").arg(&file);
        command.env_remove("DATABASE_URL").stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("starting a server")?;
        let out = child.stdout.take().context("no pipe from the server")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).await?;
        let address =
            line.trim().strip_prefix("listening on ").context("the server said nothing")?;
        let most_threads = Arc::new(AtomicUsize::new(0));
        let counting = tokio::spawn(count(child.id(), Arc::clone(&most_threads)));
        Ok(Self { address: address.to_owned(), child, most_threads, counting, file })
    }

    /// Most threads that it had at once, so far.
    pub(super) fn most_threads(&self) -> usize {
        self.most_threads.load(Ordering::Relaxed)
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.counting.abort();
        self.child.kill().await.context("ending a server")?;
        for end in ["", "-wal", "-shm"] {
            let mut file = self.file.clone().into_os_string();
            file.push(end);
            // Those of the log may not be there.
            let _ = std::fs::remove_file(file);
        }
        Ok(())
    }
}

/// Takes as much of the CPUs that are measured, whatever the pool: see [`process::threads`].
async fn count(pid: Option<u32>, most: Arc<AtomicUsize>) {
    let Some(pid) = pid.map(|pid| pid.to_string()) else { return };
    while let Some(threads) = process::threads(&pid) {
        most.fetch_max(threads, Ordering::Relaxed);
        tokio::time::sleep(COUNT_EVERY).await;
    }
}
