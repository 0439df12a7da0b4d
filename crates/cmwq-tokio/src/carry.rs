//! Task-local values that go along with a closure.

use tokio::task::LocalKey;

/// Takes a task-local value along: in `func` it is what it is here, a clone of it. Where it is not
/// set here, it is not set there either.
///
/// Neither this crate's [`spawn_blocking`](crate::spawn_blocking) nor tokio's does that by itself.
/// For several values it is called several times, one around the other. A change that `func` makes
/// by way of a `Cell` inside the value is not seen outside.
///
/// ```
/// tokio::task_local! { static REQUEST: u64; }
///
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// let spawn = async { cmwq_tokio::spawn_blocking(cmwq_tokio::carry(&REQUEST, || REQUEST.get())) };
/// let handle = REQUEST.scope(7, spawn).await;
/// assert_eq!(handle.await.unwrap(), 7);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn carry<K, F, T>(key: &'static LocalKey<K>, func: F) -> impl FnOnce() -> T
where
    K: Clone + 'static,
    F: FnOnce() -> T,
{
    cmwq_wraps(func, key, key.try_with(K::clone).ok())
}

/// Of this name, so that the closure goes by that of `func` where items are shown.
fn cmwq_wraps<F, K, T>(func: F, key: &'static LocalKey<K>, value: Option<K>) -> impl FnOnce() -> T
where
    K: 'static,
    F: FnOnce() -> T,
{
    move || match value {
        Some(value) => key.sync_scope(value, func),
        None => func(),
    }
}
