//! Pools that may run N workers, and pools whose N changes.

use super::support::Fixture;
use crate::Kick;
use crate::policy::UNMANAGED;

#[test]
fn a_managed_pool_starts_as_many_as_its_pod_has_cpus() {
    let (mut f, w) = Fixture::new(3, 6);
    let pwq = f.pwq(256);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    assert_eq!(f.runs(w[5], items[0]), Kick::Wake(w[4]));
    assert_eq!(f.runs(w[4], items[1]), Kick::Wake(w[3]));
    assert_eq!(f.runs(w[3], items[2]), Kick::Watch, "three run: from here on somebody watches");
    assert!(f.sleeps(w[2]));
    assert_eq!(f.nr_running(), 3);

    assert_eq!(f.blocks(w[4]), Kick::Wake(w[2]));
    assert_eq!(f.runs(w[2], items[3]), Kick::Watch);
    f.resumes(w[4]);
    assert_eq!(f.nr_running(), 4);
    let _ = f.finish(w[5]);
    assert!(f.sleeps(w[5]), "four ran: this one is one too many");
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], items[4]);
    assert_eq!(f.nr_running(), 3);
}

#[test]
fn spare_cpus_are_those_without_a_running_worker() {
    let (mut f, w) = Fixture::new(2, 4);
    let pwq = f.pwq(256);
    assert!(f.has_spare_cpu());
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    assert!(!f.has_spare_cpu(), "they are for its own items");
    let _ = f.runs(w[3], first);
    assert!(!f.has_spare_cpu());
    let _ = f.cancel(second);
    assert!(f.has_spare_cpu());
    let third = f.queue_new(pwq);
    let _ = f.runs(w[2], third);
    assert!(!f.has_spare_cpu());
}

#[test]
fn a_pool_that_loses_its_cpu_starts_everything() {
    let (mut f, w) = Fixture::new(1, 4);
    let pwq = f.pwq(256);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    assert_eq!(f.runs(w[3], items[0]), Kick::Watch);
    assert_eq!(f.set_concurrency(UNMANAGED), Kick::Wake(w[2]));
    f.check();
    assert_eq!(f.runs(w[2], items[1]), Kick::Wake(w[1]));
    assert_eq!(f.runs(w[1], items[2]), Kick::None);
    assert_eq!(f.nr_running(), 3);
}

#[test]
fn a_pool_that_gets_its_cpu_back_settles_down() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(256);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[3], items[0]);
    let _ = f.runs(w[2], items[1]);
    assert_eq!(f.set_concurrency(1), Kick::Watch, "nr_running stayed right all along");
    f.check();
    let _ = f.finish(w[3]);
    assert!(f.sleeps(w[3]));
    let _ = f.finish(w[2]);
    let _ = f.runs(w[2], items[2]);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn changing_an_idle_pool_wakes_nobody() {
    let (mut f, _) = Fixture::new(1, 2);
    assert_eq!(f.set_concurrency(4), Kick::None);
    assert_eq!(f.config().concurrency, 4);
}
