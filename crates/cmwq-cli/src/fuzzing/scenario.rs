//! Scenario files: any text is a scenario that can be run, or is refused in one line.

use cmwq_sim::Scenario;
use cmwq_sim::script::Step;

use crate::scenario::parse;

/// LIMIT: what is larger is not run.
const MOST_STEPS: usize = 32;
const MOST_NS: u64 = 2_000_000_000;

/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse(&text) {
        Err(wrong) => {
            let error = wrong.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
            // The file's name and what is wrong, the line, and a mark below it.
            assert!((1..=3).contains(&wrong.shown("a.toml", &text).lines().count()), "{wrong:?}");
        }
        Ok(scenario) if is_small(&scenario) => {
            let timeline = cmwq_sim::run_scenario(&scenario);
            assert!(timeline.is_ok(), "{scenario:?}: {:?}", timeline.err());
        }
        Ok(scenario) => assert_eq!(scenario.validate(), Ok(())),
    }
}

fn is_small(scenario: &Scenario) -> bool {
    let takes = |step: &Step| match *step {
        Step::Burn(ns) | Step::Sleep(ns) => ns,
    };
    let steps = || scenario.works.iter().flat_map(|work| &work.script);
    let is_soon = |ns: u64| ns <= MOST_NS;
    scenario.cpus <= 8
        && scenario.works.len() <= 16
        && scenario.workqueues.len() <= 16
        && steps().count() <= MOST_STEPS
        && steps().all(|step| is_soon(takes(step)))
        && scenario.works.iter().all(|work| is_soon(work.at_ns) && is_soon(work.delay_ns))
}

#[test]
fn any_text_is_run_or_refused() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/scenario"), 5_000, run);
}
