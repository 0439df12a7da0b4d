//! Task-local values.

use std::cell::Cell;

use cmwq_tokio::{carry, spawn_blocking};

use crate::support::on_each_runtime;

tokio::task_local! {
    static REQUEST: u32;
    static USER: String;
    static COUNT: Cell<u32>;
}

#[test]
fn they_are_not_inherited_as_with_tokios() {
    on_each_runtime(|| async {
        let seen = REQUEST.scope(1, async { spawn_blocking(|| REQUEST.try_get().is_ok()).await });
        assert!(!seen.await.unwrap());
        let seen = async { tokio::task::spawn_blocking(|| REQUEST.try_get().is_ok()).await };
        assert!(!REQUEST.scope(1, seen).await.unwrap());
    });
}

#[test]
fn they_are_taken_along_if_asked_to() {
    on_each_runtime(|| async {
        let both = || (REQUEST.get(), USER.with(String::clone));
        let spawn = async { spawn_blocking(carry(&REQUEST, carry(&USER, both))).await };
        let seen = REQUEST.scope(7, USER.scope("me".to_owned(), spawn)).await.unwrap();
        assert_eq!(seen, (7, "me".to_owned()));
        // The worker keeps nothing of it.
        assert!(spawn_blocking(|| REQUEST.try_get().is_err()).await.unwrap());
    });
}

#[test]
fn where_there_is_none_none_is_taken() {
    on_each_runtime(|| async {
        let unset = spawn_blocking(carry(&REQUEST, || REQUEST.try_get().is_err()));
        assert!(unset.await.unwrap());
    });
}

#[test]
fn it_is_a_clone() {
    on_each_runtime(|| async {
        let run = async {
            let inside = spawn_blocking(carry(&COUNT, || COUNT.with(|count| count.replace(5))));
            (inside.await.unwrap(), COUNT.with(Cell::get))
        };
        assert_eq!(COUNT.scope(Cell::new(3), run).await, (3, 3));
    });
}
