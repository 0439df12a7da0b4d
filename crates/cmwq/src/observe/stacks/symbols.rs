//! Names and lines of addresses, from the debug information of what is loaded.

use std::path::{Path, PathBuf};

use crate::observe::watchdog::Frame;

/// The frames at these addresses, innermost first, without those that every item has.
pub(super) fn frames(addresses: &[u64]) -> Vec<Frame> {
    let mut frames: Vec<_> = addresses.iter().flat_map(|address| frames_at(*address)).collect();
    if let Some(end) = frames.iter().position(calls_items) {
        frames.truncate(end);
        // What is between that and the program's function is the same for all.
        let outermost = frames.iter().rposition(Frame::is_of_program);
        frames.truncate(outermost.map_or(end, |at| at + 1));
    }
    frames
}

/// Files of the standard library without the place where it was built.
fn short(path: &Path) -> PathBuf {
    match path.strip_prefix("/rustc") {
        Ok(inside) => inside.components().skip(1).collect(),
        Err(_) => path.to_owned(),
    }
}

/// Whether the library calls items' functions there: nothing from there on is the program's.
fn calls_items(frame: &Frame) -> bool {
    let name = frame.function.as_deref().unwrap_or_default();
    name.starts_with("cmwq::engine::threads::worker::Worker::")
        || !frame.has_path()
            && frame.is_in_library_file()
            && frame.file.as_ref().is_some_and(|file| file.ends_with("worker.rs"))
            && ["call_first", "run_claim", "run", "main"].contains(&name)
}

/// Short debug information has names without their paths, but with all that they are made for.
fn shortened(mut frame: Frame) -> Frame {
    if !frame.has_path()
        && let Some(name) = &mut frame.function
        && let Some(front) = name.find('<')
    {
        name.truncate(front);
    }
    frame
}

/// The function at an address, and before it those that were inlined there.
pub(super) fn frames_at(address: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    // It takes what it gets for a return address, and looks before it.
    backtrace::resolve((address + 1) as *mut _, |symbol| {
        frames.push(shortened(Frame {
            address,
            function: symbol.name().map(|name| format!("{name:#}")),
            file: symbol.filename().map(short),
            line: symbol.lineno(),
        }));
    });
    if frames.is_empty() {
        frames.push(Frame { address, function: None, file: None, line: None });
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_name_and_line() {
        let frames = frames_at(a_function_has_its_name_and_line as *const () as u64);
        let name = frames.last().and_then(|frame| frame.function.as_deref()).unwrap_or_default();
        assert!(name.ends_with("a_function_has_its_name_and_line"), "{frames:?}");
        assert!(frames[0].line.is_some() && frames[0].file.is_some(), "{frames:?}");
        assert_eq!(frames_at(16), [Frame { address: 16, ..Frame::default() }]);
    }

    #[test]
    fn the_end_of_an_item_is_found_by_name_or_by_file() {
        let at = |function: &str, file: &str| Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            ..Frame::default()
        };
        assert!(calls_items(&at("run_claim", "/x/cmwq/src/engine/threads/worker.rs")));
        assert!(calls_items(&at("cmwq::engine::threads::worker::Worker::main", "")));
        for other in [
            at("run", "/x/cmwq/src/closure.rs"),
            at("run", "/x/mine/src/worker.rs"),
            at("open_senses", "/x/cmwq-1.0.0/src/engine/threads/worker.rs"),
            at(
                "cmwq::engine::threads::worker::open_senses",
                "/x/cmwq/src/engine/threads/worker.rs",
            ),
        ] {
            assert!(!calls_items(&other), "{other:?}");
        }
        let made_for = shortened(at("blocking<bool, main::sync>", "/x/cmwq/src/current.rs"));
        assert_eq!(made_for.function.as_deref(), Some("blocking"));
        let whole = "<core::panic::X<F> as FnOnce<()>>::call_once";
        assert_eq!(shortened(at(whole, "")).function.as_deref(), Some(whole));
    }

    #[test]
    fn the_place_where_the_standard_library_was_built_is_left_out() {
        let file = short("/rustc/59807616/library/std/src/io/mod.rs".as_ref());
        assert_eq!(file, Path::new("library/std/src/io/mod.rs"));
        assert_eq!(short("/home/me/src/main.rs".as_ref()), Path::new("/home/me/src/main.rs"));
    }
}
