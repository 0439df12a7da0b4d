//! Metrics: the text that Prometheus reads says what the queues' own statistics say.

use std::collections::BTreeMap;

use cmwq::Workqueue;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::support::load::burn;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, eventually, joined, procfs};

pub(crate) const SCENES: &[Scene] = &[
    ("metrics::numbers", numbers),
    ("metrics::backlog", backlog),
    ("metrics::names", names),
    ("metrics::failures", failures),
];

/// A scrape: values by `name{labels}`, types and help texts by name.
#[derive(Debug, Default)]
struct Scrape {
    values: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
    help: BTreeMap<String, String>,
}

impl Scrape {
    /// Reads the text format; what it does not know is a failure.
    fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let comment =
                line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>());
            match comment.as_deref() {
                Some(["TYPE", name, kind]) => {
                    drop(scrape.types.insert((*name).into(), (*kind).into()))
                }
                Some(["HELP", name, help]) => {
                    drop(scrape.help.insert((*name).into(), (*help).into()))
                }
                Some(_) => panic!("odd comment: {line}"),
                None => {
                    let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
                    let before = scrape.values.insert(name.to_owned(), value.parse().unwrap());
                    assert_eq!(before, None, "twice: {line}");
                }
            }
        }
        scrape
    }

    #[track_caller]
    fn of(&self, name: &str, queue: &str) -> f64 {
        let sample = format!("cmwq_workqueue_{name}{{workqueue=\"{queue}\"}}");
        *self
            .values
            .get(&sample)
            .unwrap_or_else(|| panic!("no {sample} in {:?}", self.values.keys()))
    }

    fn sum(&self, name: &str) -> f64 {
        let start = format!("{name}{{");
        self.values
            .iter()
            .filter(|(sample, _)| sample.starts_with(&start))
            .map(|(_, value)| value)
            .sum()
    }
}

struct Recorder(PrometheusRecorder, PrometheusHandle);

impl Recorder {
    fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        Self(recorder, handle)
    }

    fn scrape(&self) -> Scrape {
        metrics::with_local_recorder(&self.0, cmwq::metrics::record);
        Scrape::parse(&self.1.render())
    }
}

#[test]
fn numbers_are_those_of_the_statistics() {
    Stage::new("metrics::numbers").play();
}

fn numbers() {
    let recorder = Recorder::new();
    assert!(recorder.scrape().values.is_empty(), "the library was not used yet");
    let wq = Workqueue::builder("counted").unbound().max_active(5).build().unwrap();
    for _ in 0..20 {
        drop(wq.queue(|| burn(std::time::Duration::from_millis(1))));
    }
    wq.flush();
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let running = wq.queue({
        let (gate, entered) = (gate.clone(), entered.clone());
        move || {
            entered.open();
            gate.pass();
        }
    });
    entered.pass();
    // Workers add up what they have used when they go idle.
    eventually("it is settled", || recorder.scrape().of("cpu_seconds_total", "counted") >= 0.020);
    let scrape = recorder.scrape();
    let stats = wq.stats();
    let of = |name| scrape.of(name, "counted");
    assert_eq!((stats.started, stats.completed), (21, 20));
    assert_eq!((of("items_started_total"), of("items_completed_total")), (21.0, 20.0));
    assert_eq!((of("items_in_flight"), of("max_active")), (1.0, 5.0));
    assert_eq!(of("items_cancelled_total"), stats.cancelled as f64);
    assert_eq!(of("cpu_intensive_total"), stats.cpu_intensive as f64);
    assert_eq!(of("cm_wakeups_total"), stats.cm_wakeup as f64);
    assert_eq!(of("repatriated_total"), stats.repatriated as f64);
    assert_eq!((of("mayday_total"), of("rescued_total")), (0.0, 0.0));
    let seconds = of("cpu_seconds_total");
    assert!((0.020..=wq.stats().cpu_time.as_secs_f64() + 0.01).contains(&seconds), "{seconds}");

    gate.open();
    joined(running);
    // Idle again; a managed or unbound worker says so a moment after the item is done.
    let workers = || {
        let scrape = recorder.scrape();
        let named = procfs::other_tasks().len() as f64;
        let (all, idle) = (scrape.sum("cmwq_pool_workers"), scrape.sum("cmwq_pool_idle_workers"));
        all > 0.0 && all == idle && all < named && scrape.sum("cmwq_pool_running_workers") == 0.0
    };
    eventually("all workers are idle", workers);
    assert_eq!(recorder.scrape().of("items_in_flight", "counted"), 0.0);
}

#[test]
fn what_waits_is_a_number_that_falls_again() {
    Stage::new("metrics::backlog").play();
}

fn backlog() {
    let recorder = Recorder::new();
    let wq = Workqueue::builder("line").ordered().build().unwrap();
    let other = Workqueue::builder("line").ordered().build().unwrap();
    let (gate, entered) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let mut handles = vec![wq.queue({
        let (gate, entered) = (gate.clone(), entered.clone());
        move || {
            entered.open();
            gate.pass();
        }
    })];
    entered.pass();
    handles.extend((0..3).map(|_| wq.queue(|| ())));
    let waiting = || {
        let scrape = recorder.scrape();
        let of = |name| scrape.of(name, "line");
        (of("items_queued"), of("items_waiting_for_limit"), of("items_in_flight"))
    };
    assert_eq!(waiting(), (3.0, 3.0, 1.0), "behind the one that runs");
    assert_eq!(waiting(), (3.0, 3.0, 1.0), "a scrape counts anew");
    gate.open();
    handles.into_iter().for_each(joined);
    wq.flush();
    assert_eq!(waiting(), (0.0, 0.0, 0.0));
    drop((wq, other));
    assert_eq!(waiting(), (0.0, 0.0, 0.0), "destroyed");
}

#[test]
fn metrics_have_names_types_and_help() {
    Stage::new("metrics::names").play();
}

fn names() {
    let recorder = Recorder::new();
    let first = Workqueue::new("same").unwrap();
    let second = Workqueue::new("same").unwrap();
    let odd = Workqueue::new("o\"d\\d\n").unwrap();
    for wq in [&first, &second, &odd] {
        joined(wq.queue(|| ()));
        wq.flush();
    }
    let scrape = recorder.scrape();
    assert_eq!(scrape.of("items_started_total", "same"), 2.0, "added up");
    assert_eq!(scrape.of("items_started_total", r#"o\"d\\d\n"#), 1.0, "escaped");
    for sample in scrape.values.keys() {
        let name = sample.split('{').next().unwrap();
        assert!(scrape.help.contains_key(name), "{name} has no help");
        let is_counter = name.ends_with("_total") && name != "cmwq_workqueue_cpu_seconds_total";
        assert_eq!(scrape.types[name], if is_counter { "counter" } else { "gauge" }, "{name}");
    }
    // What a queue did last still counts when it is gone, and one of its name goes on from there.
    joined(first.queue(|| ()));
    drop((first, second));
    let scrape = recorder.scrape();
    assert_eq!(scrape.of("items_completed_total", "same"), 3.0);
    assert_eq!((scrape.of("items_in_flight", "same"), scrape.of("max_active", "same")), (0.0, 0.0));
    let third = Workqueue::new("same").unwrap();
    joined(third.queue(|| ()));
    third.flush();
    assert_eq!(recorder.scrape().of("items_completed_total", "same"), 4.0);
    assert_eq!(Recorder::new().scrape().of("items_completed_total", "same"), 4.0);
}

#[test]
fn threads_that_could_not_be_had_are_counted() {
    Stage::new("metrics::failures").user(crate::support::scene::NOBODY).play();
}

fn failures() {
    use crate::support::sys::{self, Limit};
    let recorder = Recorder::new();
    let wq = Workqueue::builder("first").percpu().build().unwrap();
    joined(wq.queue(|| ()));
    let failures = || recorder.scrape().values["cmwq_worker_creation_failures_total"];
    assert_eq!(failures(), 0.0);
    // A pool that has no worker yet.
    let other = Workqueue::builder("second").unbound().nice(sys::nicer(5)).build().unwrap();
    let before = sys::set_limit(Limit::Threads, 1).unwrap();
    let item = other.queue(|| ());
    eventually("a failure is counted", || failures() > 0.0);
    sys::set_limit(Limit::Threads, before).unwrap();
    joined(item);
}
