//! Turning a fixture (one text file, `PATH<TAB>CONTENT` lines) into a directory tree that lives as
//! long as its value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory tree that is removed when dropped.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Unpacks `tests/fixtures/NAME.txt`.
    pub(crate) fn fixture(name: &str) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let text = fs::read_to_string(fixtures.join(name).with_extension("txt"))
            .unwrap_or_else(|e| panic!("fixture {name}: {e}"));
        Self::from_text(&text)
    }

    /// Unpacks fixture text.
    pub(crate) fn from_text(text: &str) -> Self {
        static NR_TREES: AtomicU32 = AtomicU32::new(0);
        let nr = NR_TREES.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("cmwq-fixture-{}-{nr}", process::id()));
        fs::create_dir_all(&root).expect("the temporary directory is writable");
        let tree = Self { root };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (path, content) = line.split_once('\t').expect("a tab in every line");
            tree.write(path, &content.replace("\\n", "\n"));
        }
        tree
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// Creates or replaces a file, ended with a line break as the kernel does.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a path below the root")).expect("create");
        fs::write(path, format!("{content}\n")).expect("write");
    }

    /// Removes a directory with all that is in it, if it is there.
    pub(crate) fn remove_dir(&self, path: &str) {
        let _ = fs::remove_dir_all(self.root.join(path));
    }

    /// Removes a file that must be there.
    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
