//! Scenario files: TOML to [`Scenario`], with errors that name the line or the work.

use cmwq_sim::Scenario;
use cmwq_sim::scenario::{Flag, QueueSpec, WorkSpec};
use cmwq_sim::script::Step;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "one")]
    cpus: u32,
    #[serde(default, rename = "workqueue")]
    workqueues: Vec<Queue>,
    #[serde(default, rename = "work")]
    works: Vec<Work>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    name: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    max_active: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    name: String,
    workqueue: String,
    cpu: Option<u32>,
    #[serde(default)]
    at_ms: f64,
    #[serde(default)]
    delay_ms: f64,
    #[serde(default)]
    script: Vec<String>,
}

const fn one() -> u32 {
    1
}

/// Reads a scenario and checks it.
pub(crate) fn parse(text: &str) -> Result<Scenario, String> {
    let file: File = toml::from_str(text).map_err(|error| located(text, &error))?;
    let queues = file.workqueues.iter().map(Queue::spec).collect::<Result<Vec<_>, _>>()?;
    let works = file.works.iter().map(|work| work.spec(&queues)).collect::<Result<Vec<_>, _>>()?;
    let scenario = Scenario { cpus: file.cpus, workqueues: queues, works };
    scenario.validate().map_err(|error| error.to_string())?;
    Ok(scenario)
}

/// The parser's message on one line, behind the number of the line it is about.
fn located(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim().replace('\n', ", ");
    match error.span() {
        Some(span) => {
            let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
            format!("line {line}: {message}")
        }
        None => message,
    }
}

impl Queue {
    fn spec(&self) -> Result<QueueSpec, String> {
        let flags = self.flags.iter().map(|flag| flag.parse::<Flag>());
        let flags = flags
            .collect::<Result<_, _>>()
            .map_err(|error| format!("workqueue '{}': {error}", self.name))?;
        let (name, max_active) = (self.name.clone(), self.max_active);
        Ok(QueueSpec { name, flags, max_active, ..QueueSpec::default() })
    }
}

impl Work {
    fn spec(&self, queues: &[QueueSpec]) -> Result<WorkSpec, String> {
        let name = &self.name;
        let Some(workqueue) = queues.iter().position(|queue| queue.name == self.workqueue) else {
            return Err(format!("work '{name}': there is no workqueue '{}'", self.workqueue));
        };
        let steps = self.script.iter().map(|step| step.parse::<Step>());
        let script =
            steps.collect::<Result<_, _>>().map_err(|error| format!("work '{name}': {error}"))?;
        Ok(WorkSpec {
            name: name.clone(),
            workqueue,
            cpu: self.cpu,
            at_ns: nanoseconds(name, "at_ms", self.at_ms)?,
            delay_ns: nanoseconds(name, "delay_ms", self.delay_ms)?,
            script,
        })
    }
}

/// The latest time that makes sense, in milliseconds: a year.
const LONGEST_MS: f64 = 365.0 * 86_400_000.0;

fn nanoseconds(work: &str, field: &str, ms: f64) -> Result<u64, String> {
    if (0.0..=LONGEST_MS).contains(&ms) {
        return Ok((ms * 1e6).round() as u64);
    }
    Err(format!("work '{work}': {field} = {ms} is out of range: use 0 to {LONGEST_MS}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_sim::scenario::Flags;

    const FULL: &str = r#"
        cpus = 2
        [[workqueue]]
        name = "q"
        flags = ["managed", "highpri"]
        max_active = 7
        [[work]]
        name = "w"
        workqueue = "q"
        cpu = 1
        at_ms = 1.5
        delay_ms = 3
        script = ["burn 5ms", "sleep 250us"]
    "#;

    #[test]
    fn every_field_is_read() {
        let scenario = parse(FULL).unwrap();
        assert_eq!(scenario.cpus, 2);
        let flags = Flags::NONE.with(Flag::Managed).with(Flag::Highpri);
        let queue = QueueSpec { name: "q".into(), flags, max_active: 7, ..QueueSpec::default() };
        assert_eq!(scenario.workqueues, [queue]);
        let work = WorkSpec {
            name: "w".into(),
            workqueue: 0,
            cpu: Some(1),
            at_ns: 1_500_000,
            delay_ns: 3_000_000,
            script: vec![Step::Burn(5_000_000), Step::Sleep(250_000)],
        };
        assert_eq!(scenario.works, [work]);
    }

    #[track_caller]
    fn check_refused(from: &str, to: &str, expected: &str) {
        assert!(FULL.contains(from), "the test is out of date: {from}");
        let error = parse(&FULL.replace(from, to)).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn errors_say_where_and_what() {
        check_refused("cpus = 2", "cpus = \"two\"", "line 2");
        check_refused("cpus = 2", "cpu = 2", "unknown field `cpu`");
        check_refused("max_active = 7", "max_active = ", "line 6");
        check_refused("\"managed\"", "\"fast\"", "workqueue 'q': unknown flag 'fast'");
        check_refused("workqueue = \"q\"", "workqueue = \"p\"", "no workqueue 'p'");
        check_refused("burn 5ms", "run 5ms", "work 'w': unknown step 'run'");
        check_refused("at_ms = 1.5", "at_ms = -1.5", "at_ms = -1.5 is out of range");
        check_refused("delay_ms = 3", "delay_ms = nan", "delay_ms = NaN");
        check_refused("cpu = 1", "cpu = 2", "only CPUs 0 to 1");
    }

    #[test]
    fn the_least_that_is_a_scenario() {
        let scenario = parse("").unwrap();
        assert_eq!((scenario.cpus, scenario.works.len()), (1, 0));
    }
}
