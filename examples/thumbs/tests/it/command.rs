//! The program, as it is started.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use axum::http::StatusCode;

use crate::support::{Client, eventually, picture};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn thumbs() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thumbs"));
    command.env_remove("DATABASE_URL").stdout(Stdio::piped());
    command
}

#[tokio::test]
async fn one_command_starts_it_and_a_signal_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = thumbs();
    command.args(["--listen", "127.0.0.1:0"]).current_dir(folder.path());
    let mut running = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").expect(&line).to_owned();
    let client = Client::new(address);
    assert_eq!(client.get("/health").await.0, StatusCode::OK);
    let path = client.store(picture(1)).await;
    assert_eq!(client.get(&path).await.1, picture(1));
    drop(client);
    assert!(folder.path().join("thumbs.db").exists());
    let kill = Command::new("kill").arg(running.0.id().to_string()).status().unwrap();
    assert!(kill.success());
    let mut status = None;
    eventually("it ends", || {
        status = running.0.try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert!(status.unwrap().success(), "{status:?}");
}

#[test]
fn a_comparison_has_a_row_for_each_pool_and_load() {
    let folder = tempfile::tempdir().unwrap();
    let output = thumbs()
        .args(["bench", "--pools", "cmwq,blocking:4,rayon:2", "--loads", "50,100", "--most", "8"])
        .args(["--rounds", "1", "--seconds", "1", "--slow-disk-ms", "1", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let table = String::from_utf8(output.stdout).unwrap();
    for row in ["| 50 % | cmwq |", "| 50 % | blocking:4 |", "| 100 % | rayon:2 |"] {
        assert!(table.contains(row), "{table}");
    }
    assert_eq!(table.lines().filter(|line| line.starts_with('|')).count(), 2 + 6, "{table}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "databases were left");
}
