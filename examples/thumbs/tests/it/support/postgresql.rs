//! A PostgreSQL of a test's own.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::{Client, Error, NoTls};

use super::PATIENCE;

/// Whoever runs the server where the tests are run by root, which it refuses to be.
const NOBODY: u32 = 65534;

/// A server with a database of its own, reached by a socket in its folder.
pub(crate) struct Postgres {
    folder: TempDir,
    bin: PathBuf,
    child: Option<Child>,
}

/// Says that this machine lacks what a test needs. Written past the test harness, which keeps what
/// a test that passes prints; the gate lists these lines at its end.
fn not_tested<T>(why: &str) -> Option<T> {
    let _ = writeln!(std::io::stderr(), "not tested: {why}");
    None
}

/// The folder of PostgreSQL's programs.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).collect::<Vec<_>>();
    let of_debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let of_debian = of_debian.map(|version| version.path().join("bin"));
    let has_both =
        |folder: &PathBuf| folder.join("initdb").exists() && folder.join("postgres").exists();
    of_path.into_iter().chain(of_debian).find(has_both)
}

impl Postgres {
    /// `None`: it cannot be had here, and why was printed.
    pub(crate) fn create() -> Option<Self> {
        let Some(bin) = installed() else {
            return not_tested("there is no PostgreSQL here");
        };
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let server = Self { folder, bin, child: None };
        let data = server.data();
        let made = server
            .command("initdb")
            .args(["--no-sync", "--auth=trust", "--username=thumbs", "--pgdata"])
            .arg(&data)
            .output();
        let Ok(Output { status, stderr, .. }) = made else {
            return not_tested("there is no setpriv to run PostgreSQL by another user than root");
        };
        assert!(status.success(), "initdb: {}", String::from_utf8_lossy(&stderr));
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        let id = NOBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
        command
    }

    pub(crate) fn address(&self) -> String {
        format!("host={} user=thumbs dbname=postgres", self.folder.path().display())
    }

    /// Starts it, and waits until it takes connections.
    pub(crate) async fn start(&mut self) {
        let start = Instant::now();
        while self.connect().await.is_err() {
            assert!(start.elapsed() < PATIENCE, "PostgreSQL does not start");
            // What is left of one that was killed may be in the way.
            let has_ended =
                self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
            if has_ended {
                self.spawn();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn spawn(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        command.args(["-c", "listen_addresses=", "-c", "logging_collector=off"]);
        command.current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// A connection of the test's own.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let (client, connection) = tokio_postgres::connect(&self.address(), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// How many pictures are in it.
    pub(crate) async fn pictures(&self) -> i64 {
        let client = self.connect().await.unwrap();
        client.query_one("SELECT count(*) FROM pictures", &[]).await.unwrap().get(0)
    }

    /// Sends a signal, by its name, to all its processes that are there.
    pub(crate) fn signal_all(&self, name: &str) {
        let Some(server) = self.child.as_ref().map(Child::id) else { return };
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &server.to_string()]);
        kill.args(children.unwrap_or_default().split_whitespace());
        // One may have ended meanwhile.
        let _ = kill.stderr(Stdio::null()).status();
    }

    /// As if the machine had lost it: nothing is told to anybody.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.child.is_some() {
            // One that stands still would stay.
            self.signal_all("CONT");
            self.kill();
        }
    }
}

/// Whether this process is root's.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
