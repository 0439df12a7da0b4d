//! The program, as it is started.

use axum::http::StatusCode;

use crate::support::{Postgres, Program, picture, thumbs};

#[tokio::test]
async fn one_command_starts_it_and_a_signal_ends_it() {
    let program = Program::start(&[]);
    assert_eq!(program.client.get("/health").await.0, StatusCode::OK);
    let path = program.client.store(picture(1)).await;
    assert_eq!(program.client.get(&path).await.1, picture(1));
    assert!(program.folder().join("thumbs.db").exists());
    program.signal("TERM");
    let (status, said) = program.ended().await;
    assert!(status.success(), "{status:?}: {said}");
}

#[tokio::test]
async fn what_the_database_says_is_for_whoever_runs_it() {
    let program = Program::start(&["--database-url", "postgres://nobody@127.0.0.1:1/none"]);
    for _ in 0..2 {
        let (status, said) = program.client.get("/health").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(said, "the database cannot do that now\n");
    }
    program.signal("TERM");
    let (_, said) = program.ended().await;
    assert_eq!(said.matches("thumbs: the database: ").count(), 1, "{said}");
}

/// By the environment and by the option.
#[tokio::test]
async fn pictures_are_kept_in_a_database_whose_address_is_given() {
    let Some(mut server) = Postgres::create() else { return };
    server.start().await;
    let address = server.address();
    let by_option = || Program::start(&["--database-url", &address]);
    let by_environment = || Program::start_by(thumbs().env("DATABASE_URL", &address));
    for (number, start) in [&by_option as &dyn Fn() -> Program, &by_environment].iter().enumerate()
    {
        let program = start();
        let path = program.client.store(picture(number as u64)).await;
        assert_eq!(program.client.get(&path).await.1, picture(number as u64));
        assert!(!program.folder().join("thumbs.db").exists());
        assert_eq!(server.pictures().await, 1 + number as i64);
    }
}

/// As it is where nothing is set.
#[tokio::test]
async fn an_address_that_is_empty_is_none() {
    let program = Program::start_by(thumbs().env("DATABASE_URL", ""));
    assert_eq!(program.client.get("/health").await.0, StatusCode::OK);
    assert!(program.folder().join("thumbs.db").exists());
}

/// And it says why.
#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused: [(&[&str], &str); 13] = [
        (&["--places", "0"], "at least 1"),
        (&["--bodies", "0"], "at least 1"),
        (&["--connections", "none"], "invalid digit"),
        (&["--pool", "threads:4"], "a pool is cmwq, "),
        (&["bench", "--rounds", "0"], "at least 1"),
        (&["bench", "--seconds", "0"], "at least 1"),
        (&["bench", "--loads", "50,0"], "at least 1"),
        (&["bench", "--most", "nan"], "above 0"),
        (&["bench", "--pools", "cmwq,rayon:2,cmwq"], "cmwq stands twice in --pools"),
        (&["--database-url", "postgres://me@127.0.0.1/x?sslmode=require"], "sslmode"),
        (&["--database-url", "dbname=thumbs"], "no host"),
        (&["--file", ":memory:"], "a file is needed"),
        (&["--file", "file:x?mode=memory&cache=shared"], "a file is needed"),
    ];
    for (arguments, said) in refused {
        let output = thumbs().args(arguments).current_dir(folder.path()).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(complaint.contains(said), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_comparison_has_a_row_for_each_pool_and_load() {
    let folder = tempfile::tempdir().unwrap();
    let output = thumbs()
        .args(["bench", "--pools", "cmwq,semaphore:4,rayon:2", "--loads", "50,100", "--most", "8"])
        .args(["--rounds", "1", "--seconds", "1", "--slow-disk-ms", "1", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let table = String::from_utf8(output.stdout).unwrap();
    for row in ["| 50 % | cmwq |", "| 50 % | semaphore:4 |", "| 100 % | rayon:2 |"] {
        assert!(table.contains(row), "{table}");
    }
    assert!(table.contains("at most: cmwq 32, semaphore:4 4, rayon:2 2."), "{table}");
    assert!(table.contains(", databases on "), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with('|')).count(), 2 + 6, "{table}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "databases were left");
}
