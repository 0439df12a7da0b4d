//! The output of `--json`: one document. Its keys are described in the help.

use std::borrow::Cow;

use cmwq::CpuSet;
use cmwq_observe::doctor::{Degradation, Limits, Machine, Rlimit, Setting, Source};
use serde::Serialize;

use super::Findings;
use super::children::Measured;
use super::text::chosen_by;
use super::trials::Latency;

/// The document and a newline.
pub(super) fn document(findings: &Findings) -> String {
    let document = Document::new(findings);
    serde_json::to_string_pretty(&document).expect("keys are strings") + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    verdict: String,
    degradations: Vec<DegradationJson<'a>>,
    machine: MachineJson<'a>,
    pods: PodsJson,
    confinement: ConfinementJson<'a>,
    detection: DetectionJson<'a>,
    limits: LimitsJson<'a>,
    settings: Vec<SettingJson<'a>>,
    notices: &'a [String],
}

#[derive(Serialize)]
struct DegradationJson<'a> {
    what: &'a str,
    why: &'a str,
    advice: &'a str,
}

#[derive(Serialize)]
struct MachineJson<'a> {
    kernel: &'a str,
    allowed: String,
    online: Option<String>,
    possible: Option<String>,
    isolated: String,
    quota: Option<QuotaJson<'a>>,
    granted: u32,
    cores: usize,
    caches: usize,
    nodes: usize,
    smt: bool,
    hybrid: bool,
}

#[derive(Serialize)]
struct QuotaJson<'a> {
    cpus: f64,
    file: Cow<'a, str>,
}

#[derive(Serialize)]
struct PodsJson {
    default_scope: &'static str,
    in_use: Vec<String>,
    by_scope: Vec<ScopeJson>,
}

#[derive(Serialize)]
struct ScopeJson {
    scope: &'static str,
    pods: Vec<String>,
}

#[derive(Serialize)]
struct ConfinementJson<'a> {
    user: u32,
    container: Option<&'a str>,
    filtered: Option<bool>,
    capabilities: Option<&'a [&'static str]>,
}

#[derive(Serialize)]
struct DetectionJson<'a> {
    in_use: &'static str,
    chosen_by: &'static str,
    load_average: Option<f64>,
    sources: Vec<SourceJson<'a>>,
}

#[derive(Serialize)]
struct SourceJson<'a> {
    source: &'static str,
    state: &'static str,
    why: Option<&'a str>,
    advice: Option<&'a str>,
    latency: Option<&'a Latency>,
    not_measured: Option<&'a str>,
}

#[derive(Serialize)]
struct LimitsJson<'a> {
    nproc: RlimitJson,
    nofile: RlimitJson,
    open_files: Option<u64>,
    memlock: RlimitJson,
    nice: RlimitJson,
    rtprio: RlimitJson,
    perf_event_paranoid: Option<i64>,
    perf_event_mlock_kb: Option<u64>,
    threads_max: Option<u64>,
    cgroup_pids: Option<PidsJson<'a>>,
}

#[derive(Serialize)]
struct RlimitJson {
    soft: Option<u64>,
    hard: Option<u64>,
}

#[derive(Serialize)]
struct PidsJson<'a> {
    max: u64,
    current: u64,
    file: Cow<'a, str>,
}

#[derive(Serialize)]
struct SettingJson<'a> {
    name: &'a str,
    value: &'a str,
    default: bool,
}

impl<'a> Document<'a> {
    fn new(findings: &'a Findings) -> Document<'a> {
        let diagnosis = &findings.diagnosis;
        let confinement = &diagnosis.confinement;
        let sources = diagnosis.sources.iter().zip(&findings.measured);
        Document {
            verdict: findings.verdict(),
            degradations: findings.degradations().iter().map(DegradationJson::new).collect(),
            machine: MachineJson::new(&diagnosis.machine),
            pods: PodsJson::new(&diagnosis.machine),
            confinement: ConfinementJson {
                user: confinement.user,
                container: confinement.container.as_deref(),
                filtered: confinement.is_filtered,
                capabilities: confinement.capabilities.as_deref(),
            },
            detection: DetectionJson {
                in_use: diagnosis.detect.name(),
                chosen_by: chosen_by(diagnosis.chosen_by),
                load_average: findings.load_average,
                sources: sources.map(|(source, it)| SourceJson::new(source, it)).collect(),
            },
            limits: LimitsJson::new(&diagnosis.limits),
            settings: diagnosis.settings.iter().map(SettingJson::new).collect(),
            notices: &findings.notices,
        }
    }
}

impl<'a> DegradationJson<'a> {
    fn new(degradation: &'a Degradation) -> DegradationJson<'a> {
        let Degradation { what, why, advice, .. } = degradation;
        DegradationJson { what, why, advice }
    }
}

impl<'a> MachineJson<'a> {
    fn new(machine: &'a Machine) -> MachineJson<'a> {
        let quota = machine.quota.as_ref();
        MachineJson {
            kernel: &machine.kernel,
            allowed: machine.allowed.to_string(),
            online: machine.online.as_ref().map(CpuSet::to_string),
            possible: machine.possible.as_ref().map(CpuSet::to_string),
            isolated: machine.isolated.to_string(),
            quota: quota.map(|it| QuotaJson { cpus: it.cpus, file: it.file.to_string_lossy() }),
            granted: machine.granted,
            cores: machine.nr_cores,
            caches: machine.nr_caches,
            nodes: machine.nr_nodes,
            smt: machine.has_smt,
            hybrid: machine.is_hybrid,
        }
    }
}

impl PodsJson {
    fn new(machine: &Machine) -> PodsJson {
        let texts = |pods: &[CpuSet]| pods.iter().map(CpuSet::to_string).collect();
        let scopes = machine.pods.iter();
        PodsJson {
            default_scope: machine.default_scope.name(),
            in_use: texts(&machine.pods_in_use),
            by_scope: scopes
                .map(|it| ScopeJson { scope: it.scope.name(), pods: texts(&it.pods) })
                .collect(),
        }
    }
}

impl<'a> SourceJson<'a> {
    fn new(source: &'a Source, measured: &'a Measured) -> SourceJson<'a> {
        let obstacle = source.availability.obstacle();
        SourceJson {
            source: source.detect.name(),
            state: source.availability.name(),
            why: obstacle.map(|(why, _)| why),
            advice: obstacle.map(|(_, advice)| advice),
            latency: measured.as_ref().ok().map(|it| &it.latency),
            not_measured: measured.as_ref().err().map(String::as_str),
        }
    }
}

impl<'a> LimitsJson<'a> {
    fn new(limits: &'a Limits) -> LimitsJson<'a> {
        let rlimit = |limit: Rlimit| RlimitJson { soft: limit.soft, hard: limit.hard };
        LimitsJson {
            nproc: rlimit(limits.nproc),
            nofile: rlimit(limits.nofile),
            open_files: limits.open_files,
            memlock: rlimit(limits.memlock),
            nice: rlimit(limits.nice),
            rtprio: rlimit(limits.rtprio),
            perf_event_paranoid: limits.perf_event_paranoid,
            perf_event_mlock_kb: limits.perf_event_mlock_kb,
            threads_max: limits.threads_max,
            cgroup_pids: limits.cgroup_pids.as_ref().map(|pids| PidsJson {
                max: pids.max,
                current: pids.current,
                file: pids.file.to_string_lossy(),
            }),
        }
    }
}

impl<'a> SettingJson<'a> {
    fn new(setting: &'a Setting) -> SettingJson<'a> {
        let Setting { name, value, is_default, .. } = setting;
        SettingJson { name, value, default: *is_default }
    }
}
