//! Random runs: a machine, a load and faults, all from one seed.
//!
//! In the manner of *swarm testing* (Groce et al., 2012) a seed does not use everything a little:
//! it first draws which kinds of queues, operations and faults it uses at all, and how much, so
//! that over many seeds rare combinations come up undiluted.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use cmwq_core::consts;
use cmwq_core::place::QueueKind;

use crate::Nanos;
use crate::config::{Config, Costs, Detect, Faults, Hotplug, Sabotage, TickRole};
use crate::parse_error::ParseError;
use crate::plan::Plan;
use crate::report::{Outcome, Violation};
use crate::rng::Rng;
use crate::scenario::MAX_CPUS;
use crate::simulate;
use crate::topology::{Scope, Shape};

mod bursts;
mod delays;
mod lives;
mod load;
mod processes;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Something that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Fault {
    /// Reports of blocking that come late.
    Late = 1 << 0,
    /// Reports that never come.
    Lost = 1 << 1,
    /// Reports of what did not happen.
    Spurious = 1 << 2,
    /// Reports that come twice.
    Duplicate = 1 << 3,
    /// Threads that cannot be created now and then.
    Create = 1 << 4,
    /// A time in which no thread can be created.
    Outage = 1 << 5,
    /// CPUs slower than others.
    Slow = 1 << 6,
    /// Other programs that use the CPUs.
    Foreign = 1 << 7,
    /// Flushers that are slow to continue.
    Flushers = 1 << 8,
    /// Switches and creations that cost time, and time slices.
    Costs = 1 << 9,
    /// CPUs that leave and come back.
    Hotplug = 1 << 10,
    /// A time in which the process may have few workers.
    Limit = 1 << 11,
}

impl Fault {
    /// All faults with their names and what they are.
    pub const ALL: [(Self, &'static str, &'static str); 12] = [
        (Self::Late, "late", "reports of blocking come late"),
        (Self::Lost, "lost", "reports of blocking never come"),
        (Self::Spurious, "spurious", "blocking is reported that did not happen"),
        (Self::Duplicate, "duplicate", "reports come twice"),
        (Self::Create, "create", "some thread creations fail"),
        (Self::Outage, "outage", "for a while all thread creations fail"),
        (Self::Slow, "slow", "some CPUs are slower than others"),
        (Self::Foreign, "foreign", "other programs use the CPUs"),
        (Self::Flushers, "flushers", "flushers are slow to continue"),
        (Self::Costs, "costs", "switches and creations take time; threads have time slices"),
        (Self::Hotplug, "hotplug", "CPUs leave and come back"),
        (Self::Limit, "limit", "for a while there may be few workers"),
    ];
}

/// A set of faults; by default of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultSet(u16);

impl FaultSet {
    /// No fault.
    pub const NONE: Self = Self(0);
    /// Every fault.
    pub const ALL: Self = Self((1 << Fault::ALL.len()) - 1);

    /// Whether `fault` is in the set.
    #[must_use]
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & fault as u16 != 0
    }

    /// The set with `fault` added.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | fault as u16)
    }
}

impl FromStr for FaultSet {
    type Err = ParseError;

    /// `all`, `none`, or names separated by commas.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "all" => return Ok(Self::ALL),
            "none" | "" => return Ok(Self::NONE),
            _ => {}
        }
        let find = |name: &str| Fault::ALL.iter().find(|(_, known, _)| *known == name.trim());
        text.split(',').try_fold(Self::NONE, |set, name| match find(name) {
            Some((fault, ..)) => Ok(set.with(*fault)),
            None => {
                let names = Fault::ALL.iter().map(|(_, name, _)| *name);
                Err(ParseError::unknown(
                    "fault",
                    name.trim(),
                    ["all", "none"].into_iter().chain(names),
                ))
            }
        })
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Fault::ALL.iter().filter(|(fault, ..)| self.has(*fault));
        let names: Vec<_> = all.map(|(_, name, _)| *name).collect();
        match *self {
            Self::NONE => f.write_str("none"),
            Self::ALL => f.write_str("all"),
            _ => f.write_str(&names.join(",")),
        }
    }
}

/// What is not left to the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The number of CPUs.
    pub cpus: Option<u32>,
    /// The number of items.
    pub items: Option<usize>,
    /// The number of queues.
    pub queues: Option<usize>,
    /// The virtual machine; goes before `cpus`.
    pub shape: Option<Shape>,
    /// The pods of all unbound queues, and of managed ones if they can have such.
    pub scope: Option<Scope>,
    /// CPUs leave and come back, whether the seed wants it or not.
    pub hotplug: bool,
    /// The faults that may be drawn.
    pub faults: FaultSet,
    /// A deliberate mistake in the driver.
    pub sabotage: Option<Sabotage>,
}

impl Default for FaultSet {
    fn default() -> Self {
        Self::ALL
    }
}

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was not left to it.
    pub options: Options,
    /// What was run, for replaying and shrinking.
    pub plan: Plan,
    /// Under which conditions.
    pub config: Config,
    /// What came of it.
    pub outcome: Outcome,
}

impl Report {
    /// The complaint, if there was one.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.outcome.violation.as_ref()
    }

    /// The command that does this again.
    #[must_use]
    pub fn replay(&self) -> String {
        let mut command = format!("cmwq sim --seed {}", self.seed);
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                command += format!(" --{name} {value}").trim_end();
            }
        };
        add("cpus", self.options.cpus.map(|n| n.to_string()));
        add("items", self.options.items.map(|n| n.to_string()));
        add("queues", self.options.queues.map(|n| n.to_string()));
        add("topology", self.options.shape.map(|shape| shape.to_string()));
        add("scope", self.options.scope.map(|scope| scope.to_string()));
        if self.options.hotplug {
            add("hotplug", Some(String::new()));
        }
        let is_restricted = self.options.faults != FaultSet::ALL;
        add("faults", is_restricted.then(|| self.options.faults.to_string()));
        add("sabotage", self.options.sabotage.map(|mistake| mistake.to_string()));
        command
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(violation) = self.violation() else {
            let stats = &self.outcome.stats;
            return write!(
                f,
                "seed {}: {} items on {} CPUs, no complaint",
                self.seed,
                stats.queued,
                self.config.shape.cpus()
            );
        };
        for event in &self.outcome.recent {
            writeln!(f, "  {:>12} ns  {:?}", event.t, event.what)?;
        }
        writeln!(f, "seed {}: {violation}", self.seed)?;
        write!(f, "again: {}", self.replay())
    }
}

/// Runs everything that `seed` stands for.
#[must_use]
pub fn run_seed(seed: u64, options: &Options) -> Report {
    run_seed_with(seed, options, None, false)
}

/// Runs what `seed` stands for, with another `plan`, or with all events kept. Neither changes the
/// conditions.
#[must_use]
pub fn run_seed_with(
    seed: u64,
    options: &Options,
    plan: Option<&Plan>,
    keep_events: bool,
) -> Report {
    let (plan, config) = draw(&Rng::new(seed), seed, options, plan);
    let config = Config { keep_events, ..config };
    // The core asserts its invariants; a broken one is a complaint like any other.
    let outcome = catch_unwind(AssertUnwindSafe(|| simulate(&plan, &config)));
    let outcome = outcome.unwrap_or_else(|panic| panicked(panic.as_ref()));
    Report { seed, options: *options, plan, config, outcome }
}

/// Runs what a fuzzer's bytes stand for.
///
/// # Panics
/// If a checker complains, or the core does.
pub fn run_bytes(data: &[u8]) -> Outcome {
    let (plan, config) = draw(&Rng::of_bytes(data), 0, &Options::default(), None);
    let outcome = simulate(&plan, &config);
    assert_eq!(outcome.violation, None, "{plan:#?}\n{config:#?}\n{:#?}", outcome.recent);
    outcome
}

fn draw(rng: &Rng, seed: u64, options: &Options, plan: Option<&Plan>) -> (Plan, Config) {
    let config = config(rng, seed, options);
    let plan = plan.cloned().unwrap_or_else(|| draw_plan(rng, &config, options));
    let config = with_tick_if_needed(config, &plan, &mut rng.fork(3));
    let config = with_long_outage(config, &plan, &mut rng.fork(4));
    (plan, config)
}

fn draw_plan(rng: &Rng, config: &Config, options: &Options) -> Plan {
    let mut plan = load::plan(&mut rng.fork(2), config, options);
    load::draw_scopes(&mut rng.fork(5), &mut plan, options);
    processes::draw(&mut rng.fork(8), &mut plan);
    // Who says how many items there are gets so many.
    if options.items.is_none() {
        bursts::add(&mut rng.fork(7), &mut plan, config);
    }
    lives::add(&mut rng.fork(6), &mut plan, config, options);
    delays::draw(&mut rng.fork(9), &mut plan);
    plan
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    Outcome {
        violation: Some(Violation { checker: "core", at: 0, message: text.to_owned() }),
        ..Outcome::default()
    }
}

fn config(root: &Rng, seed: u64, options: &Options) -> Config {
    let rng = &mut root.fork(1);
    let cpus = if rng.chance(900_000) { rng.between(1, 8) } else { rng.magnitude(1, 64) };
    let cpus = options.cpus.unwrap_or(cpus as u32).clamp(1, MAX_CPUS);
    let faults = draw_faults(rng, options.faults);
    let has = |fault| faults.has(fault);
    let costs = Costs {
        switch: if has(Fault::Costs) { rng.below(5 * US) } else { 0 },
        create: if has(Fault::Costs) { rng.magnitude(1, 500 * US) } else { 0 },
        slice: (has(Fault::Costs) && rng.chance(500_000)).then(|| rng.magnitude(50 * US, 4 * MS)),
        unlocked: 0,
        push: 0,
    };
    let latency = |rng: &mut Rng| if has(Fault::Late) { rng.magnitude(1, 100 * US) } else { 0 };
    let pod_cpus = if rng.chance(300_000) { 1 } else { rng.between(1, u64::from(cpus)) as u32 };
    let node_pods = rng.between(1, 3) as u32;
    // What was added later draws from a stream of its own: seeds keep what else they stand for.
    let limit = draw_limit(&mut root.fork(12), cpus, options.faults);
    let mut later = root.fork(4);
    let shape = draw_shape(&mut later, options);
    let shape = shape.unwrap_or(Shape::Pods { cpus, pod_cpus, node_pods });
    let scope = draw_scope(&mut later, options);
    let managed_scope = draw_managed_scope(&mut root.fork(10), options);
    let storms = later.chance(350_000) && options.faults.has(Fault::Hotplug);
    let hotplug = draw_hotplug(&mut later, shape);
    let has_long_items = later.chance(350_000);
    let callers_wait = root.fork(11).chance(500_000);
    // No fault: every worker lets go of the lock there.
    let unlocked = if later.chance(700_000) { later.magnitude(1, 50 * US) } else { 0 };
    // No fault either: every queuer may lose its CPU there.
    let mut of_pushes = root.fork(13);
    let push = if of_pushes.chance(350_000) { of_pushes.magnitude(100, 100 * US) } else { 0 };
    let isolated = draw_isolated(&mut root.fork(14), shape);
    // Thresholds that items of a random plan reach, oftener than not.
    let hog_thresh = later.magnitude(100 * US, 20 * MS);
    // Mostly oftener than in the runtime: random items seldom leave each other in peace for long.
    let calm_claims = later.below(u64::from(consts::CALM_CLAIMS) + 1) as u8;
    Config {
        seed,
        watchdog: None,
        hog_thresh,
        calm_claims,
        shape,
        scope,
        managed_scope,
        isolated,
        hotplug: (storms || options.hotplug).then_some(hotplug),
        costs: Costs { unlocked, push, ..costs },
        has_long_items,
        callers_wait,
        detect: Detect { blocked: latency(rng), resumed: latency(rng), ..Detect::default() },
        faults: Faults { limit, ..draw_rates(rng, faults) },
        idle_timeout: rng.magnitude(MS, 1_000 * MS),
        create_cooldown: rng.magnitude(100 * US, 20 * MS),
        max_workers: None,
        sabotage: options.sabotage,
        ..Config::exact(cpus)
    }
}

/// Each allowed fault is used by every third seed or so.
fn draw_faults(rng: &mut Rng, allowed: FaultSet) -> FaultSet {
    // These are drawn elsewhere.
    let others = [Fault::Hotplug, Fault::Limit];
    let all = Fault::ALL.iter().map(|(fault, ..)| *fault).filter(|f| !others.contains(f));
    let drawn: Vec<_> = all.filter(|_| rng.chance(350_000)).collect();
    drawn.into_iter().filter(|&fault| allowed.has(fault)).fold(FaultSet::NONE, FaultSet::with)
}

/// Every third machine or so is one with cores, caches and nodes.
fn draw_shape(rng: &mut Rng, options: &Options) -> Option<Shape> {
    let (number, is_named) = (rng.below(Shape::NAMED.len() as u64), rng.chance(300_000));
    let drawn = Shape::Regular([
        rng.between(1, 3) as u32,
        rng.between(1, 3) as u32,
        rng.between(1, 4) as u32,
        rng.between(1, 2) as u32,
    ]);
    let drawn = if is_named { Shape::NAMED[number as usize].0 } else { drawn };
    let is_wanted = rng.chance(350_000) && options.cpus.is_none();
    options.shape.or(is_wanted.then_some(drawn))
}

fn draw_scope(rng: &mut Rng, options: &Options) -> Scope {
    let (scope, _) = *rng.pick(&Scope::ALL);
    let is_wanted = rng.chance(300_000);
    options.scope.unwrap_or(if is_wanted { scope } else { Scope::usual(QueueKind::Unbound) })
}

/// One that managed queues can have.
fn draw_managed_scope(rng: &mut Rng, options: &Options) -> Scope {
    let takes = |scope: &Scope| QueueKind::Managed.takes_scope(scope.in_core());
    let all: Vec<_> = Scope::ALL.into_iter().map(|(scope, _)| scope).filter(takes).collect();
    let drawn = *rng.pick(&all);
    let usual = Scope::usual(QueueKind::Managed);
    let scope = if rng.chance(500_000) { drawn } else { usual };
    options.scope.filter(takes).unwrap_or(scope)
}

/// On every fifth machine or so; two CPUs are left, to help each other.
fn draw_isolated(rng: &mut Rng, shape: Shape) -> u32 {
    let is_wanted = rng.chance(200_000);
    let drawn = rng.magnitude(1, u64::from(shape.cpus())) as u32;
    if is_wanted { drawn.min(shape.cpus().saturating_sub(2)) } else { 0 }
}

fn draw_hotplug(rng: &mut Rng, shape: Shape) -> Hotplug {
    Hotplug {
        gap: rng.magnitude(10 * US, 5 * MS),
        away: rng.magnitude(10 * US, 20 * MS),
        at_most: rng.magnitude(1, u64::from(shape.cpus())) as u32,
    }
}

fn draw_rates(rng: &mut Rng, faults: FaultSet) -> Faults {
    let mut rate = |fault, most: u64| {
        let drawn = rng.magnitude(1_000, most) as u32;
        if faults.has(fault) { drawn } else { 0 }
    };
    let (late, lost) = (rate(Fault::Late, 500_000), rate(Fault::Lost, 900_000));
    let (spurious, duplicate) = (rate(Fault::Spurious, 300_000), rate(Fault::Duplicate, 500_000));
    let (create_fails, slow_cpus) = (rate(Fault::Create, 900_000), rate(Fault::Slow, 900_000));
    let foreign_cpus = rate(Fault::Foreign, 900_000);
    let outage_from = rng.below(20 * MS);
    let outage_to = outage_from + rng.magnitude(100 * US, 50 * MS);
    let late_by = rng.magnitude(US, 5 * MS);
    let any_late =
        [Fault::Late, Fault::Duplicate, Fault::Spurious].into_iter().any(|f| faults.has(f));
    Faults {
        late,
        late_by: if any_late { late_by } else { 0 },
        lost,
        spurious,
        duplicate,
        create_fails,
        create_outage: faults.has(Fault::Outage).then_some((outage_from, outage_to)),
        max_threads: None,
        limit: None,
        slow_cpus,
        slowness: rng.between(110, 1_000),
        foreign_cpus,
        foreign: (rng.magnitude(20 * US, 5 * MS), rng.magnitude(20 * US, 5 * MS)),
        slow_flushers: if faults.has(Fault::Flushers) { rng.magnitude(US, 10 * MS) } else { 0 },
    }
}

/// Mostly fewer workers than random items would have.
fn draw_limit(rng: &mut Rng, cpus: u32, allowed: FaultSet) -> Option<(u32, Nanos)> {
    let (is_wanted, most) = (rng.chance(300_000), 4 * u64::from(cpus));
    let limit = (rng.magnitude(1, most) as u32, rng.magnitude(5 * MS, 500 * MS));
    (is_wanted && allowed.has(Fault::Limit)).then_some(limit)
}

/// Where there are rescuers, an outage is sometimes so long that it takes them.
fn with_long_outage(mut config: Config, plan: &Plan, rng: &mut Rng) -> Config {
    let has_rescuer =
        |queue: &crate::scenario::QueueSpec| queue.flags.has(crate::scenario::Flag::MemReclaim);
    if let Some((from, to)) = &mut config.faults.create_outage
        && plan.queues.iter().any(has_rescuer)
        && rng.chance(500_000)
    {
        *to = *from + rng.magnitude(50 * MS, 5_000 * MS);
        config.create_cooldown = rng.magnitude(20 * MS, 1_000 * MS);
    }
    config
}

/// Wherever reports may fail, and wherever pods help each other, a tick stands by, as in the real
/// runtime.
fn with_tick_if_needed(mut config: Config, plan: &Plan, rng: &mut Rng) -> Config {
    let has_pods = |queue: &crate::scenario::QueueSpec| {
        let scope = queue.scope.unwrap_or(config.managed_scope);
        queue.flags.has(crate::scenario::Flag::Managed) && config.shape.pods(scope).len() > 1
    };
    let pods_help = plan.queues.iter().any(has_pods);
    let drawn = rng.chance(300_000);
    if drawn || pods_help || !config.detection_is_exact() {
        let is_alone = rng.chance(700_000);
        config.detect.tick = Some(if is_alone { TickRole::Alone } else { TickRole::Behind });
    }
    config
}
