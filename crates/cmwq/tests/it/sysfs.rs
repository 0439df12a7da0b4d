//! Attributes as text: names, modes, values and errors are those of the kernel's files.

use std::collections::BTreeSet;
use std::fs;

use cmwq::sysfs::{self, Attribute, Entry, GlobalAttribute, Mode, Refusal};
use cmwq::{AffinityScope, Attrs, CpuSet, ErrorKind, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::{joined, managed, percpu, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("sysfs::global", global),
    ("sysfs::nice_is_refused", nice_is_refused),
    ("sysfs::children", children),
    ("sysfs::listing", listing),
];

fn unbound(name: &str) -> Workqueue {
    Workqueue::builder(name).unbound().sysfs().build().unwrap()
}

fn shown(entry: &Entry) -> Vec<(&'static str, &'static str, String)> {
    let attributes = entry.attributes();
    attributes.map(|(attr, mode)| (attr.name(), mode.name(), entry.show(attr).unwrap())).collect()
}

/// How many CPUs the system's masks are wide.
fn nr_cpu_ids() -> u32 {
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").ok();
    let possible: CpuSet = possible.map_or_else(CpuSet::new, |list| list.parse().unwrap());
    let allowed: CpuSet = sys::allowed_cpus().iter().copied().collect();
    possible.or(&allowed).last().unwrap() + 1
}

/// How long such a mask is: a digit for 4 CPUs, a comma after each 8 digits from the right.
fn mask_len() -> usize {
    let (groups, top) = (nr_cpu_ids().div_ceil(32) as usize, (nr_cpu_ids() - 1) % 32 + 1);
    top.div_ceil(4) as usize + (groups - 1) * 9
}

#[track_caller]
fn refused(outcome: Result<(), sysfs::AttributeError>, refusal: Refusal, errno: i32) {
    let error = outcome.unwrap_err();
    assert_eq!((error.refusal(), error.errno()), (refusal, errno), "{error}");
    assert!(!error.to_string().contains('\n'), "{error:?}");
}

#[test]
fn a_queue_has_the_attributes_of_its_kind() {
    let builder = |name| Workqueue::builder(name).sysfs();
    let names = |wq: &Workqueue| -> Vec<(&str, &str)> {
        shown(&wq.sysfs()).into_iter().map(|(name, mode, _)| (name, mode)).collect()
    };
    let all = |max_active| {
        let rest =
            ["nice", "cpumask", "affinity_scope", "affinity_strict"].map(|name| (name, "rw"));
        [[("per_cpu", "ro"), ("max_active", max_active)].as_slice(), &rest].concat()
    };
    assert_eq!(names(&builder("k1").unbound().build().unwrap()), all("rw"));
    assert_eq!(names(&builder("k2").ordered().build().unwrap()), all("ro"));
    assert_eq!(
        names(&builder("k3").percpu().build().unwrap()),
        [("per_cpu", "ro"), ("max_active", "rw")]
    );
    assert_eq!(
        names(&Workqueue::builder("k4").bh().build().unwrap()),
        [("per_cpu", "ro"), ("max_active", "ro")]
    );
    assert_eq!(
        names(&builder("k5").build().unwrap()),
        [("per_cpu", "ro"), ("max_active", "rw"), ("nice", "ro")]
    );
    assert!(Workqueue::builder("k6").bh().sysfs().build().is_err(), "as in the kernel");
}

#[test]
fn values_read_as_the_kernel_writes_them() {
    let wq = unbound("reading");
    let values: Vec<_> = shown(&wq.sysfs()).into_iter().map(|(_, _, value)| value).collect();
    let [per_cpu, max_active, nice, cpumask, scope, strict] = values.try_into().unwrap();
    assert_eq!([per_cpu, max_active, nice, strict], ["0", "1024", "0", "0"]);
    assert_eq!(cpumask.len(), mask_len(), "as wide as the system's masks");
    let allowed: CpuSet = sys::allowed_cpus().iter().copied().collect();
    assert!(allowed.is_subset(&CpuSet::parse_mask(&cpumask).unwrap()), "{cpumask}");
    assert_eq!(scope, "default (cache_shard)");

    let bh = Workqueue::builder("reading bh").bh().build().unwrap();
    assert_eq!(bh.sysfs().show(Attribute::MaxActive).unwrap(), "2147483647");
    let per_cpu = |wq: &Workqueue| wq.sysfs().show(Attribute::PerCpu).unwrap();
    assert_eq!([per_cpu(&bh), per_cpu(&percpu("p")), per_cpu(&managed("m"))], ["1", "1", "0"]);
    let highpri = Workqueue::builder("reading high").unbound().highpri().build().unwrap();
    assert_eq!(highpri.sysfs().show(Attribute::Nice).unwrap(), "-20");
}

#[test]
fn what_is_written_holds() {
    let wq = unbound("writing");
    let entry = wq.sysfs();
    let cpu = sys::allowed_cpus()[0];
    let cpus = CpuSet::single(cpu);
    let mask = cpus.to_mask(nr_cpu_ids());
    let nice = sys::nicer(7);
    let level = nice.to_string();
    for (attribute, text, value) in [
        (Attribute::MaxActive, "3", "3"),
        (Attribute::MaxActive, " 5 items\n", "5"),
        (Attribute::MaxActive, "1000000", "2048"),
        (Attribute::Nice, &*format!("{level}\n"), &*level),
        (Attribute::Cpumask, &*mask, &*mask),
        (Attribute::AffinityScope, "SYSTEM\n", "system"),
        (Attribute::AffinityScope, "default", "default (cache_shard)"),
        (Attribute::AffinityScope, "cache_shard", "cache_shard"),
        (Attribute::AffinityStrict, "-3", "1"),
        (Attribute::AffinityStrict, "0", "0"),
        (Attribute::AffinityStrict, "1\n", "1"),
    ] {
        entry.store(attribute, text).unwrap();
        assert_eq!(entry.show(attribute).unwrap(), value, "{attribute} {text:?}");
    }
    let expected = Attrs::new()
        .nice(nice)
        .cpumask(cpus)
        .affinity_scope(Some(AffinityScope::CacheShard))
        .affinity_strict(true);
    assert_eq!(wq.attrs(), expected);
    assert_eq!(wq.max_active(), 2048);
    assert_eq!(joined(wq.queue(sys::current_cpu)), cpu, "a strict pod of one CPU");
    assert_eq!(joined(wq.queue(sys::nice)), nice);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let wq = unbound("refusing");
    let entry = wq.sysfs();
    let before = shown(&entry);
    for (attribute, text) in [
        (Attribute::MaxActive, "0"),
        (Attribute::MaxActive, "-1"),
        (Attribute::MaxActive, "many"),
        (Attribute::MaxActive, ""),
        (Attribute::MaxActive, "99999999999"),
        (Attribute::Nice, "20"),
        (Attribute::Nice, "-21"),
        (Attribute::Nice, "+1"),
        (Attribute::Cpumask, "0-1"),
        (Attribute::Cpumask, "0x1"),
        (Attribute::AffinityScope, "none"),
        (Attribute::AffinityScope, ""),
        (Attribute::AffinityStrict, "yes"),
    ] {
        refused(entry.store(attribute, text), Refusal::Invalid, libc::EINVAL);
    }
    let wide = format!("1,{}", "00000000,".repeat(2047));
    refused(entry.store(Attribute::Cpumask, &wide), Refusal::Invalid, libc::EOVERFLOW);
    refused(entry.store(Attribute::PerCpu, "1"), Refusal::ReadOnly, libc::EACCES);
    assert_eq!(shown(&entry), before);
}

#[test]
fn a_mask_without_a_cpu_of_ours_stands_for_all() {
    let wq = unbound("empty mask");
    wq.sysfs().store(Attribute::Cpumask, "0").unwrap();
    assert_eq!(
        CpuSet::parse_mask(&wq.sysfs().show(Attribute::Cpumask).unwrap()),
        Ok(CpuSet::new())
    );
    let cpu = joined(wq.queue(sys::current_cpu));
    assert!(sys::allowed_cpus().contains(&cpu));
}

#[test]
fn only_registered_queues_can_be_written() {
    let wq = Workqueue::builder("registering").unbound().build().unwrap();
    let entry = wq.sysfs();
    assert!(!entry.is_registered());
    refused(entry.store(Attribute::MaxActive, "3"), Refusal::NotRegistered, libc::ENOENT);
    assert_eq!(wq.max_active(), 1024);
    entry.register().unwrap();
    assert_eq!(entry.register().unwrap_err().kind(), ErrorKind::AlreadyExists);
    entry.store(Attribute::MaxActive, "3").unwrap();
    assert_eq!(wq.max_active(), 3);

    let same_name = Workqueue::builder("registering").unbound().build().unwrap();
    assert_eq!(same_name.sysfs().register().unwrap_err().kind(), ErrorKind::AlreadyExists);
    let built = Workqueue::builder("registering").sysfs().build();
    assert_eq!(built.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let found = sysfs::find("registering").unwrap();
    assert!(found.is_registered(), "the registered one is found");

    drop(wq);
    same_name.sysfs().register().unwrap();
}

#[test]
fn per_cpu_and_ordered_queues_refuse_what_they_do_not_have() {
    let percpu = Workqueue::builder("bound").percpu().sysfs().build().unwrap();
    let absent = [Attribute::Nice, Attribute::Cpumask, Attribute::AffinityScope];
    for attribute in absent {
        refused(percpu.sysfs().store(attribute, "0"), Refusal::Absent, libc::ENOENT);
        assert_eq!(percpu.sysfs().show(attribute).unwrap_err().errno(), libc::ENOENT);
        assert_eq!(percpu.sysfs().mode(attribute), None);
    }
    let ordered = Workqueue::builder("in order").ordered().sysfs().build().unwrap();
    refused(ordered.sysfs().store(Attribute::MaxActive, "2"), Refusal::ReadOnly, libc::EACCES);
    let nice = sys::nicer(3);
    ordered.sysfs().store(Attribute::Nice, &nice.to_string()).unwrap();
    assert_eq!(joined(ordered.queue(sys::nice)), nice);
    assert_eq!(ordered.sysfs().mode(Attribute::MaxActive), Some(Mode::ReadOnly));
    let managed = Workqueue::builder("to manage").sysfs().build().unwrap();
    refused(managed.sysfs().store(Attribute::Nice, "2"), Refusal::ReadOnly, libc::EACCES);
}

#[test]
fn names_are_read_back() {
    for attribute in Attribute::ALL {
        assert_eq!(attribute.name().parse(), Ok(attribute));
    }
    for attribute in GlobalAttribute::ALL {
        assert_eq!(attribute.name().parse(), Ok(attribute));
    }
    let error = "niceness".parse::<Attribute>().unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
    assert!(error.to_string().contains("max_active"), "{error}");
}

#[test]
fn the_process_has_attributes_too() {
    Stage::new("sysfs::global").params("default_affinity_scope=cache").play();
}

fn global() {
    let show = |attribute| sysfs::show_global(attribute).unwrap();
    let allowed = sys::allowed_cpus();
    let first = CpuSet::single(allowed[0]).to_mask(nr_cpu_ids());
    assert_eq!(show(GlobalAttribute::DefaultAffinityScope), "cache");
    let before = show(GlobalAttribute::Cpumask);
    assert_eq!(before.len(), mask_len());

    sysfs::store_global(GlobalAttribute::Cpumask, &first).unwrap();
    assert_eq!(show(GlobalAttribute::Cpumask), first);
    assert_eq!(show(GlobalAttribute::CpumaskRequested), first);
    assert_eq!(cmwq::unbound_cpumask().unwrap(), CpuSet::single(allowed[0]));
    let wq = unbound("confined");
    let cpus: BTreeSet<_> = (0..20).map(|_| joined(wq.queue(sys::current_cpu))).collect();
    assert_eq!(cpus, BTreeSet::from([allowed[0]]));

    let store = sysfs::store_global;
    refused(store(GlobalAttribute::Cpumask, "0"), Refusal::Invalid, libc::EINVAL);
    refused(store(GlobalAttribute::CpumaskRequested, "1"), Refusal::ReadOnly, libc::EACCES);
    refused(store(GlobalAttribute::CpumaskIsolated, "1"), Refusal::ReadOnly, libc::EACCES);
    refused(
        store(GlobalAttribute::DefaultAffinityScope, "default"),
        Refusal::Invalid,
        libc::EINVAL,
    );
    store(GlobalAttribute::DefaultAffinityScope, "numa\n").unwrap();
    assert_eq!(wq.sysfs().show(Attribute::AffinityScope).unwrap(), "default (numa)");
    assert_eq!(show(GlobalAttribute::Cpumask), first, "nothing else has changed");
}

#[test]
fn a_priority_that_is_refused_says_so() {
    Stage::new("sysfs::nice_is_refused").user(crate::support::scene::NOBODY).play();
}

fn nice_is_refused() {
    let wq = unbound("too nice");
    refused(wq.sysfs().store(Attribute::Nice, "-10"), Refusal::NotPermitted, libc::EPERM);
    assert_eq!(wq.sysfs().show(Attribute::Nice).unwrap(), "0");
    wq.sysfs().store(Attribute::Nice, "19").unwrap();
}

#[test]
fn a_child_has_its_own() {
    Stage::new("sysfs::children").play();
}

fn children() {
    let wq = unbound("inherited");
    wq.sysfs().store(Attribute::MaxActive, "4").unwrap();
    let (entry, plain) = (wq.sysfs(), managed("plain"));
    let status = sys::fork(|| {
        refused(entry.store(Attribute::MaxActive, "9"), Refusal::Unavailable, libc::EAGAIN);
        wq.sysfs().store(Attribute::MaxActive, "5").unwrap();
        assert_eq!(wq.max_active(), 5);
        assert!(!plain.sysfs().is_registered());
    });
    assert_eq!(status, 0);
    assert_eq!(wq.max_active(), 4);
}

#[test]
fn queues_are_listed() {
    Stage::new("sysfs::listing").play();
}

fn listing() {
    assert!(sysfs::entries().is_empty(), "nothing was made yet");
    let wqs = [unbound("first"), managed("second")];
    let names = || sysfs::entries().iter().map(|e| e.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(), ["first", "second"]);
    assert!(sysfs::find("second").is_some() && sysfs::find("third").is_none());
    let [first, second] = wqs;
    let own = second.clone();
    // The last handle goes inside of an item: the library's own queue takes the queue down.
    drop(second.queue(move || drop(own)));
    drop(second);
    crate::support::eventually("the queue goes", || sysfs::find("second").is_none());
    assert_eq!(names(), ["first"], "the library's own queue is not listed");
    drop(first);
    assert!(names().is_empty());
}
