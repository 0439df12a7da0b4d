//! What a compiler of Rust does not see of the book: links, chapters, C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../src")
}

fn read(name: &str) -> String {
    fs::read_to_string(book().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn chapters() -> Vec<String> {
    let files = fs::read_dir(book()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != "SUMMARY.md");
    names.sort();
    names
}

/// What stands between `](` and `)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

/// The snippets of a language.
fn snippets<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```"))
        .map(|(it, _)| it)
        .collect()
}

#[test]
fn every_chapter_is_in_the_summary_and_among_the_doc_tests() {
    let summary = read("SUMMARY.md");
    let mut listed: Vec<_> = links(&summary).map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, chapters());
    let tested = include_str!("../src/lib.rs");
    for chapter in chapters() {
        let name = chapter.trim_end_matches(".md");
        let names = [format!(" {name} "), format!("/{chapter}\"")];
        assert!(names.iter().any(|name| tested.contains(name)), "{chapter} is not tested");
    }
}

#[test]
fn links_lead_somewhere_and_paths_of_the_repository_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for chapter in chapters() {
        let text = read(&chapter);
        for link in links(&text).filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap();
            assert!(book().join(file).is_file(), "{chapter}: {link}");
        }
        let words = text.split(|c: char| c.is_whitespace() || c == '`');
        for path in words.filter(|word| word.starts_with("docs/") || word.starts_with("crates/")) {
            let path = path.trim_end_matches([',', ';', '.', ')']);
            assert!(root.join(path).exists(), "{chapter}: {path}");
        }
    }
}

#[test]
fn the_c_programs_compile_without_warnings() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|out| out.status.success()) {
        return;
    }
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../crates/cmwq-capi/include");
    let mut count = 0;
    for chapter in chapters() {
        for snippet in snippets(&read(&chapter), "c") {
            count += 1;
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{chapter}-{count}.c"));
            fs::write(&file, format!("{snippet}\n")).unwrap();
            let mut compile = Command::new(&compiler);
            compile.args(["-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]);
            let output = compile.arg(&include).arg(&file).output().unwrap();
            assert!(
                output.status.success(),
                "{chapter}:\n{snippet}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    assert!(count >= 2, "{count} programs were found");
}
