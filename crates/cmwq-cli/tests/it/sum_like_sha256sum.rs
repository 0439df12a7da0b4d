//! `cmwq sum` prints what `sha256sum` prints for what `find -type f` finds.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{
    check_code, content, name, nasty_names, nasty_tree, not_tested, printed_paths, reference,
    shown, stderr, sum, tree,
};

/// Runs both on `paths` and compares all bytes.
#[track_caller]
fn check_same<P: AsRef<OsStr>>(directory: &Path, paths: &[P]) {
    let output = sum(directory).arg("--").args(paths).output().unwrap();
    check_code(&output, 0);
    assert_eq!(stderr(&output), "");
    if let Some(expected) = reference(directory, paths) {
        assert_eq!(shown(&output.stdout), expected);
    }
}

#[test]
fn a_tree_of_nasty_names_and_sizes() {
    check_same(nasty_tree().path(), &["."]);
}

#[test]
fn the_current_directory_is_the_default() {
    let tree = tree(&["a", "b/c"]);
    let output = sum(tree.path()).output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed_paths(&output), ["./a", "./b/c"]);
}

#[test]
fn arguments_are_printed_as_given() {
    let tree = tree(&["a", "b/c", "b/d/e"]);
    for paths in [
        &["a"][..],
        &["./a"],
        &["b"],
        &["b/"],
        &["b//"],
        &["./b/."],
        &["b", "a"],
        &["b/../b//d"],
        &[".", "a"],
    ] {
        check_same(tree.path(), paths);
    }
    check_same(tree.path(), &[tree.path()]);
}

#[test]
fn sorting_is_by_bytes_not_by_directory() {
    // '-' and '.' sort before '/', and '0' after it: going from directory to directory gives
    // another order.
    let tree = tree(&["a/z", "a-b", "a.b", "a0", "b"]);
    let output = sum(tree.path()).arg(".").output().unwrap();
    assert_eq!(printed_paths(&output), ["./a-b", "./a.b", "./a/z", "./a0", "./b"]);
}

#[test]
fn nasty_arguments() {
    let tree = nasty_tree();
    // `find` takes a leading dash for an option, `sum` does not after `--`.
    let names: Vec<OsString> = nasty_names()
        .into_iter()
        .filter(|name| !name.as_encoded_bytes().starts_with(b"-"))
        .collect();
    check_same(tree.path(), &names);

    let output = sum(tree.path()).args(["--", "-dash", "--json"]).output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed_paths(&output), ["--json", "-dash"]);
}

#[test]
fn more_arguments_than_one_batch() {
    let tree = nasty_tree();
    let names: Vec<OsString> = (0..500).map(|number| format!("many/{number}").into()).collect();
    check_same(tree.path(), &names);
}

#[test]
fn a_path_given_twice_is_printed_twice() {
    let tree = tree(&["a/b", "a/c"]);
    check_same(tree.path(), &["a", "a"]);
    check_same(tree.path(), &["a", "a/b", "a/b"]);
    let output = sum(tree.path()).args(["a", "a"]).output().unwrap();
    assert_eq!(printed_paths(&output), ["a/b", "a/b", "a/c", "a/c"]);
}

#[test]
fn symbolic_links_below_a_path_are_not_followed() {
    let tree = tree(&["a/b", "real"]);
    symlink(".", tree.path().join("a/loop")).unwrap();
    symlink("self", tree.path().join("self")).unwrap();
    symlink("real", tree.path().join("link")).unwrap();
    symlink("nowhere", tree.path().join("dangling")).unwrap();
    check_same(tree.path(), &["."]);
}

#[test]
fn a_path_that_is_a_symbolic_link_is_followed() {
    let tree = tree(&["a/b", "real"]);
    symlink("real", tree.path().join("to_file")).unwrap();
    symlink("a", tree.path().join("to_directory")).unwrap();
    symlink("..", tree.path().join("a/up")).unwrap();
    let output = sum(tree.path()).args(["to_file", "to_directory"]).output().unwrap();
    check_code(&output, 0);
    assert_eq!(printed_paths(&output), ["to_directory/b", "to_file"]);
    // `find -H` calls a link to a file a file.
    check_same(tree.path(), &["to_file", "to_directory", "to_directory/", "to_directory/up"]);
}

#[test]
fn an_empty_directory_prints_nothing() {
    let tree = tree(&[]);
    let output = sum(tree.path()).output().unwrap();
    check_code(&output, 0);
    assert_eq!(shown(&output.stdout), "");
}

#[test]
fn sha256sum_checks_the_output() {
    let nasty = nasty_tree();
    check_by_sha256sum(nasty.path(), &[]);
    // Standard input has nothing that would be right.
    let dash = tree(&["-", "a"]);
    check_by_sha256sum(dash.path(), &["-", "a"]);
}

#[track_caller]
fn check_by_sha256sum(directory: &Path, paths: &[&str]) {
    let output = sum(directory).args(paths).output().unwrap();
    let sums = tempfile::NamedTempFile::new().unwrap();
    fs::write(sums.path(), &output.stdout).unwrap();
    let check = std::process::Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet"])
        .arg(sums.path())
        .current_dir(directory)
        .stdin(std::process::Stdio::null())
        .output();
    match check {
        Ok(check) => assert!(check.status.success(), "{}", shown(&check.stdout)),
        Err(error) => not_tested(&format!("sha256sum is not installed: {error}")),
    }
}

#[test]
fn a_long_file_and_short_ones_share_a_directory() {
    let tree = tree(&["a", "b", "y", "z"]);
    fs::write(tree.path().join(name(b"long")), content(9, 20 << 20)).unwrap();
    check_same(tree.path(), &["."]);
}
