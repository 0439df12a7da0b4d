//! A panic that is the caller's fault names the caller's line, as tokio's do.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use cmwq_tokio::{block_in_place, spawn_blocking};

use crate::support::{one_thread, with_places};

thread_local! {
    /// The file of this thread's last panic, while somebody asks.
    static FILE: Cell<Option<String>> = const { Cell::new(None) };
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}

/// The file of the line that the panic of `call` names.
fn file_of_panic(call: impl FnOnce()) -> String {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if IS_ASKED.get() {
                FILE.set(panic.location().map(|location| location.file().to_owned()));
            } else {
                before(panic);
            }
        }));
    });
    IS_ASKED.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_ASKED.set(false);
    assert!(result.is_err(), "it does not panic");
    FILE.take().expect("a panic has a place")
}

#[test]
fn a_call_outside_of_a_runtime_is_named() {
    let spawner = with_places("locations", 1);
    let place = spawner.try_reserve().unwrap();
    assert_eq!(file_of_panic(|| drop(spawn_blocking(|| ()))), file!());
    assert_eq!(file_of_panic(|| drop(spawner.spawn_blocking(|| ()))), file!());
    assert_eq!(file_of_panic(|| drop(spawner.try_spawn_blocking(|| ()))), file!());
    assert_eq!(file_of_panic(|| drop(place.spawn_blocking(|| ()))), file!());
    // What it is compared with.
    let tokios = || drop(tokio::task::spawn_blocking(|| ()));
    assert_eq!(file_of_panic(tokios), file!());
}

#[test]
fn a_block_in_place_where_there_is_one_thread_is_named() {
    let ours = || one_thread().block_on(async { block_in_place(|| ()) });
    assert_eq!(file_of_panic(ours), file!());
    let tokios = || one_thread().block_on(async { tokio::task::block_in_place(|| ()) });
    assert_eq!(file_of_panic(tokios), file!());
}
