//! What becomes of a spawner when the library is shut down: for good, so in a process of its own.

use std::time::Duration;

use cmwq_tokio::Spawner;

#[tokio::test]
async fn a_spawner_may_outlive_the_library() {
    let queue = cmwq::Workqueue::new("outlives").unwrap();
    let spawner = Spawner::new(queue);
    assert_eq!(spawner.spawn_blocking(|| 1).await.unwrap(), 1);
    cmwq::shutdown(Duration::MAX).unwrap();
    assert!(spawner.spawn_blocking(|| 2).await.unwrap_err().is_cancelled());
    spawner.flush().await;
    spawner.close().await;
    drop(spawner);
}
