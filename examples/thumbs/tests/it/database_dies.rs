//! PostgreSQL, killed while it is used. Without PostgreSQL here, that is said, and not tested.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use axum::http::StatusCode;
use tempfile::TempDir;
use thumbs::pool::{Kind, Pool};
use thumbs::store::Postgresql;

use crate::support::{Client, picture, serve};

/// Whoever runs the server where the tests are run by root, which it refuses to be.
const NOBODY: u32 = 65534;

/// A server with a database of its own, reached by a socket in its folder.
struct Server {
    folder: TempDir,
    bin: PathBuf,
    child: Option<Child>,
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

impl Server {
    /// `None`: it cannot be had here, and why was printed.
    fn create() -> Option<Self> {
        let Some(bin) = installed() else {
            eprintln!("SKIPPED: there is no PostgreSQL here");
            return None;
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
            eprintln!("SKIPPED: there is no setpriv to run PostgreSQL by another user than root");
            return None;
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

    fn address(&self) -> String {
        format!("host={} user=thumbs dbname=postgres", self.folder.path().display())
    }

    fn start(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        command.args(["-c", "listen_addresses=", "-c", "logging_collector=off"]);
        command.current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// As if the machine had lost it: nothing is told to anybody.
    fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it until it stays: what is left of one that was killed may be in the way.
    async fn start_until_it_answers(&mut self, client: &Client) {
        self.start();
        let start = std::time::Instant::now();
        loop {
            assert!(start.elapsed() < crate::support::PATIENCE, "PostgreSQL does not start");
            if client.post(picture(1)).await.0 == StatusCode::CREATED {
                return;
            }
            if self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
                self.start();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Whether this process is root's.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[tokio::test]
async fn a_database_that_is_killed_comes_back_with_what_was_stored() {
    let Some(mut server) = Server::create() else { return };
    let store = Postgresql::new(&server.address()).unwrap();
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), Arc::new(store)).await;
    let (status, body) = client.post(picture(1)).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "it does not run yet");
    assert!(body.starts_with(b"the database does not answer"), "{body:?}");
    server.start_until_it_answers(&client).await;
    let path = client.store(picture(2)).await;
    assert_eq!(client.get(&path).await.1, picture(2));
    for _ in 0..2 {
        // Killed under load: every request is answered, with the picture stored or not.
        let asking: Vec<_> = (0..20)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move { (number, client.post(picture(number)).await.0) })
            })
            .collect();
        server.kill();
        let mut stored = Vec::new();
        for answer in asking {
            match answer.await.unwrap() {
                (number, StatusCode::CREATED) => stored.push(number),
                (_, other) => assert_eq!(other, StatusCode::SERVICE_UNAVAILABLE),
            }
        }
        eventually_refused(&client, &path).await;
        assert_eq!(client.get("/health").await.0, StatusCode::OK, "the rest goes on");
        server.start_until_it_answers(&client).await;
        assert_eq!(client.get(&path).await.1, picture(2));
        for number in stored {
            let name = thumbs::store::Name::of(&picture(number));
            let there = client.get(&format!("/pictures/{}", name.as_str())).await;
            assert_eq!(there.0, StatusCode::OK, "picture {number} was said to be stored");
        }
    }
}

/// Until the processes of the one that was killed have gone, some may still answer.
async fn eventually_refused(client: &Client, path: &str) {
    let start = std::time::Instant::now();
    while client.get(path).await.0 != StatusCode::SERVICE_UNAVAILABLE {
        assert!(start.elapsed() < crate::support::PATIENCE, "it answers though it was killed");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
