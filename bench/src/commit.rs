//! Of which commit the measured program is, as the tree that it was built in says.
//!
//! It is asked for when something is measured, not when the program is built: a build script would
//! run again only when this crate changes, and what is measured is mostly in others.

use std::path::Path;
use std::process::Command;

/// What stands where nobody knows.
pub(crate) const NOT_RECORDED: &str = "not recorded";

/// What the script says; `None` without git or outside of a tree of its own.
pub(crate) fn of_this_tree() -> Option<String> {
    told_by(&Path::new(env!("CARGO_MANIFEST_DIR")).join("commit.sh"))
}

fn told_by(script: &Path) -> Option<String> {
    let output = Command::new("sh").arg(script).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn git(folder: &Path, arguments: &[&str]) -> bool {
        let mut command = Command::new("git");
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        let identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"];
        let output = command.arg("-C").arg(folder).args(identity).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    }

    #[test]
    fn a_tree_that_differs_from_its_commit_is_dirty_unless_by_the_report() {
        let folder = std::env::temp_dir().join(format!("cmwq-commit-{}", std::process::id()));
        fs::create_dir_all(folder.join("bench/report")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("bench/commit.sh", include_str!("../commit.sh"));
        let told = || told_by(&folder.join("bench/commit.sh"));
        assert_eq!(told(), None, "no tree of git's, or no git");
        if git(&folder, &["init", "--quiet"]) {
            let all = ["code.rs", "bench/REPORT.md", "bench/report/items.json"];
            all.iter().for_each(|name| write(name, "before"));
            assert!(git(&folder, &["add", "."]));
            let commit = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "first"];
            assert!(git(&folder, &commit));
            let clean = told().unwrap();
            assert!(clean.len() >= 7 && !clean.contains("dirty"), "{clean}");
            write("bench/REPORT.md", "written by a first experiment");
            write("bench/report/items.json", "the same");
            assert_eq!(told().as_ref(), Some(&clean));
            write("code.rs", "changed");
            assert_eq!(told(), Some(clean + "-dirty"));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
