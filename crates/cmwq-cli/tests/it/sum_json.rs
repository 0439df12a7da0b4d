//! `cmwq sum --json`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::support::{check_code, nasty_names, nasty_tree, stderr, sum, tree};

/// The bytes of the name of an entry.
fn path_of(entry: &Value) -> Vec<u8> {
    match (entry.get("path"), entry.get("path_hex")) {
        (Some(path), None) => path.as_str().unwrap().as_bytes().to_vec(),
        (None, Some(hex)) => {
            let hex = hex.as_str().unwrap().as_bytes();
            let digits =
                |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            let path: Vec<u8> = hex.chunks(2).map(digits).collect();
            assert!(str::from_utf8(&path).is_err(), "{hex:?} could be text");
            path
        }
        other => panic!("{other:?} in {entry}"),
    }
}

#[test]
fn every_name_survives() {
    let tree = nasty_tree();
    let output = sum(tree.path()).arg("--json").args(["--"]).args(nasty_names()).output().unwrap();
    check_code(&output, 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = document["files"].as_array().unwrap();
    let found: Vec<Vec<u8>> = files.iter().map(path_of).collect();
    let mut expected: Vec<Vec<u8>> =
        nasty_names().iter().map(|name| name.as_encoded_bytes().to_vec()).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert!(files.iter().any(|file| file.get("path_hex") == Some(&json!("c3"))));
}

#[test]
fn it_says_what_the_lines_say() {
    let tree = nasty_tree();
    let lines = sum(tree.path()).args(["sizes", "many"]).output().unwrap();
    let lines = String::from_utf8(lines.stdout).unwrap();
    let expected: BTreeMap<&str, &str> = lines
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(hash, path)| (path, hash))
        .collect();

    let output = sum(tree.path()).args(["--json", "sizes", "many"]).output().unwrap();
    check_code(&output, 0);
    assert_eq!(stderr(&output), "");
    assert_eq!(output.stdout.last(), Some(&b'\n'));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = document["files"].as_array().unwrap();
    let found: BTreeMap<&str, &str> = files
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["sha256"].as_str().unwrap()))
        .collect();
    assert_eq!(found, expected);
    for file in files {
        let size = fs::metadata(tree.path().join(file["path"].as_str().unwrap())).unwrap().len();
        assert_eq!(file["bytes"], size, "{file}");
    }
}

#[test]
fn errors_skipped_files_and_statistics() {
    let tree = tree(&["a", "d/b"]);
    let _listener = UnixListener::bind(tree.path().join("d/socket")).unwrap();
    symlink("nowhere", tree.path().join("dangling")).unwrap();
    let output = sum(tree.path()).args(["--json", "a", "d", "dangling"]).output().unwrap();
    check_code(&output, 1);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        document["errors"],
        json!([{"path": "dangling", "error": "No such file or directory", "errno": 2}])
    );
    assert_eq!(document["skipped"], json!([{"path": "d/socket", "kind": "socket"}]));
    let stats = &document["stats"];
    for (key, expected) in
        [("files", 2), ("bytes", 200), ("directories", 1), ("errors", 1), ("skipped", 1)]
    {
        assert_eq!(stats[key], expected, "{key}");
    }
    assert!(stats["seconds"].as_f64().unwrap() > 0.0);
    assert!(stats["mb_per_s"].as_f64().unwrap() > 0.0);
    assert!(stats["work_items"].as_u64().unwrap() >= 2);
    assert!(stats["most_workers"].as_u64().unwrap() >= 1);
    assert!(stderr(&output).contains("cmwq: dangling: No such file or directory\n"));
}
