use std::io;

use cmwq::shared::{Facts, Machine, Probes, RefusalCause};
use cmwq::{CpuSet, Detect};

use crate::doctor::degradation::{Degradation, Evidence};
use crate::doctor::sources::{self, Availability, Source};
use crate::doctor::{CgroupPids, Confinement, Limits, Rlimit};

/// A machine on which nothing is refused, to be spoilt by a test.
struct Case {
    detect: Detect,
    is_asked_for: bool,
    probes: io::Result<Probes>,
    confinement: Confinement,
    limits: Limits,
    machine: Machine,
}

fn eperm() -> io::Error {
    io::Error::from_raw_os_error(libc::EPERM)
}

impl Case {
    fn new() -> Self {
        let mut machine = Facts::find().unwrap().machine;
        machine.allowed = CpuSet::parse_list("0-3").unwrap();
        machine.online = CpuSet::parse_list("0-7").ok();
        machine.granted = 4;
        Self {
            detect: Detect::Perf,
            is_asked_for: false,
            probes: Ok(Probes {
                perf: Ok(()),
                stat: Ok(()),
                pin: Ok(()),
                nice: Ok(()),
                idle_class: Ok(()),
            }),
            confinement: Confinement { user: 1000, ..Confinement::default() },
            limits: Limits::default(),
            machine,
        }
    }

    fn probes(&mut self) -> &mut Probes {
        self.probes.as_mut().unwrap()
    }

    fn sources(&self) -> Vec<Source> {
        sources::judge(&self.probes, &self.confinement)
    }

    fn availability(&self, detect: Detect) -> Availability {
        self.sources().into_iter().find(|source| source.detect == detect).unwrap().availability
    }

    fn degradations(&self) -> Vec<Degradation> {
        let sources = self.sources();
        let evidence = Evidence {
            detect: self.detect,
            is_asked_for: self.is_asked_for,
            complaints: &[],
            probes: &self.probes,
            confinement: &self.confinement,
            sources: &sources,
            limits: &self.limits,
            machine: &self.machine,
        };
        evidence.judge()
    }

    /// The one thing that is wrong.
    #[track_caller]
    fn degradation(&self) -> Degradation {
        let mut all = self.degradations();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[track_caller]
    fn check_obstacle(&self, detect: Detect, name: &str, why: &str, advice: &str) {
        let availability = self.availability(detect);
        assert_eq!(availability.name(), name, "{availability:?}");
        let (found_why, found_advice) = availability.obstacle().unwrap();
        assert!(found_why.contains(why), "{why} is not in: {found_why}");
        assert!(found_advice.contains(advice), "{advice} is not in: {found_advice}");
    }
}

#[test]
fn where_nothing_is_refused_everything_works() {
    let case = Case::new();
    assert_eq!(case.degradations(), []);
    let sources = case.sources();
    assert_eq!(sources.iter().map(|source| source.detect).collect::<Vec<_>>(), Detect::ALL);
    assert!(sources.iter().all(|source| source.availability == Availability::Works));
}

#[test]
fn a_filter_is_explained_by_what_encloses_the_process() {
    let mut case = Case::new();
    case.detect = Detect::Sentinel;
    case.probes().perf = Err(RefusalCause::Forbidden);
    let check = |case: &Case, why, advice| {
        case.check_obstacle(Detect::Perf, "refused", why, advice);
        assert!(case.degradation().why.contains("perf_event_open"));
    };
    check(&case, "filter or security module", "CAP_PERFMON");
    case.confinement.is_filtered = Some(true);
    check(&case, "a system call filter (seccomp) forbids", "SystemCallFilter=");
    for (container, advice) in [
        ("docker", "--cap-add PERFMON"),
        ("podman", "--security-opt seccomp=FILE"),
        ("kubernetes", "securityContext.capabilities"),
        ("lxc", "seccomp profile for the container"),
    ] {
        case.confinement.container = Some(container.to_owned());
        check(&case, "a system call filter (seccomp) forbids", advice);
    }
    case.confinement.is_filtered = Some(false);
    check(&case, "a security module forbids", "the policy of the security module");
}

#[test]
fn the_setting_paranoid_belongs_to_the_host() {
    let mut case = Case::new();
    case.probes().perf = Err(RefusalCause::Paranoid(4));
    case.check_obstacle(Detect::Perf, "refused", "perf_event_paranoid is 4", "sysctl");
    assert!(!case.availability(Detect::Perf).obstacle().unwrap().1.contains("host"));
    case.confinement.container = Some("docker".to_owned());
    case.check_obstacle(Detect::Perf, "refused", "perf_event_paranoid is 4", "on the host, sysctl");
}

#[test]
fn whoever_asked_for_another_source_does_not_miss_records() {
    let mut case = Case::new();
    case.probes().perf = Err(RefusalCause::Absent);
    assert!(case.degradation().what.contains("switch records"), "by trying");
    (case.detect, case.is_asked_for) = (Detect::Tick, true);
    assert_eq!(case.degradations(), []);
    case.detect = Detect::Perf;
    assert!(case.degradation().what.contains("switch records"), "asked for in vain");
}

#[test]
fn without_the_idle_class_the_tick_is_alone() {
    let mut case = Case::new();
    case.probes().idle_class = Err(eperm());
    case.confinement.is_filtered = Some(true);
    for detect in [Detect::Perf, Detect::Sentinel] {
        let name = if detect == Detect::Perf { "limited" } else { "refused" };
        case.check_obstacle(detect, name, "SCHED_IDLE", "sched_setscheduler");
        case.detect = detect;
        assert!(case.degradation().what.contains("tick alone"));
    }
    assert_eq!(case.availability(Detect::Tick), Availability::Works);
    case.detect = Detect::Tick;
    case.is_asked_for = true;
    assert_eq!(case.degradations(), [], "the tick needs no idle class");
}

#[test]
fn pinning_matters_to_workers_and_sentinels() {
    let mut case = Case::new();
    case.probes().pin = Err(eperm());
    case.check_obstacle(Detect::Sentinel, "refused", "pinning", "sched_setaffinity");
    let degradations = case.degradations();
    assert_eq!(degradations.len(), 2, "{degradations:?}");
    assert!(degradations.iter().any(|it| it.what.contains("not kept on the CPUs")));
}

#[test]
fn without_procfs_states_are_guessed() {
    let mut case = Case::new();
    case.probes().stat = Err(io::ErrorKind::NotFound.into());
    for detect in [Detect::Sentinel, Detect::Tick] {
        case.check_obstacle(detect, "limited", "cannot be read", "mount procfs");
        case.detect = detect;
        assert!(case.degradation().what.contains("late"));
    }
    assert_eq!(case.availability(Detect::Perf), Availability::Works);
    case.detect = Detect::Perf;
    assert_eq!(case.degradations(), [], "records tell it");
    case.detect = Detect::Inline;
    assert_eq!(case.degradations(), [], "nobody asks");
}

#[test]
fn without_a_thread_nothing_can_be_tried() {
    let mut case = Case::new();
    case.probes = Err(io::Error::from_raw_os_error(libc::EAGAIN));
    assert!(case.degradation().what.contains("no more threads"));
    assert!(!case.availability(Detect::Sentinel).is_usable());
    assert_eq!(case.availability(Detect::Inline), Availability::Works);
}

#[test]
fn priority() {
    let mut case = Case::new();
    case.probes().nice = Err(io::Error::from_raw_os_error(libc::EACCES));
    let degradation = case.degradation();
    assert!(degradation.why.contains("nice -20"), "{degradation:?}");
    assert!(degradation.advice.contains("CAP_SYS_NICE"), "{degradation:?}");
    assert!(degradation.advice.contains("RLIMIT_NICE"), "{degradation:?}");
}

/// Four CPUs want room for 32 workers.
#[test]
fn room_for_threads() {
    let mut case = Case::new();
    let pids = |max, current| Some(CgroupPids { max, current, file: "/g/pids.max".into() });
    case.limits.cgroup_pids = pids(100, 68);
    assert_eq!(case.degradations(), []);
    case.limits.cgroup_pids = pids(100, 69);
    let degradation = case.degradation();
    assert!(degradation.why.contains("69 of 100"), "{degradation:?}");
    assert!(degradation.why.contains("/g/pids.max"), "{degradation:?}");

    case.limits.nproc.soft = Some(30);
    assert!(case.degradation().why.contains("RLIMIT_NPROC"), "the tighter of the two");
    case.confinement.user = 0;
    assert!(case.degradation().why.contains("69 of 100"), "root has no RLIMIT_NPROC");
    case.limits.cgroup_pids = None;
    assert_eq!(case.degradations(), []);
}

#[test]
fn room_for_descriptors() {
    let mut case = Case::new();
    case.limits.nofile = Rlimit { soft: Some(3 * 32 + 10), hard: None };
    case.limits.open_files = Some(10);
    assert_eq!(case.degradations(), []);
    case.limits.open_files = Some(11);
    assert!(case.degradation().what.contains("31 workers"), "three descriptors each");
    case.detect = Detect::Sentinel;
    assert_eq!(case.degradations(), [], "one descriptor each");
}

#[test]
fn room_for_records() {
    let mut case = Case::new();
    // Four pages for each worker: 8 online CPUs lend 8 pages each, and 64 are the process's own.
    let pages = |count: u64| count * crate::doctor::limits::page_size();
    case.limits.perf_event_mlock_kb = Some(pages(8) >> 10);
    case.limits.memlock.soft = Some(pages(64));
    assert_eq!(case.degradations(), []);
    case.limits.memlock.soft = Some(pages(63));
    case.limits.perf_event_paranoid = Some(0);
    assert!(case.degradation().what.contains("31 workers can have switch records"));
    case.limits.perf_event_paranoid = Some(-1);
    assert_eq!(case.degradations(), [], "nothing counts any more");
    case.limits.perf_event_paranoid = Some(2);
    case.confinement.capabilities = Some(vec!["CAP_IPC_LOCK"]);
    assert_eq!(case.degradations(), []);
    case.confinement.capabilities = Some(vec![]);
    case.detect = Detect::Sentinel;
    assert_eq!(case.degradations(), [], "there are no records");
}
