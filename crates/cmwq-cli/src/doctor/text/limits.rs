//! The section about limits.

use cmwq_observe::doctor::{Limits, Rlimit};

use super::Report;

pub(super) fn write(report: &mut Report, limits: &Limits) {
    report.section("Limits");
    let open = limits.open_files.map_or(String::new(), |open| format!(", {open} are open"));
    report.row("open files", format_args!("{}{open}", rlimit(limits.nofile, number)));
    report.row("threads of the user", rlimit(limits.nproc, number));
    let pids = limits.cgroup_pids.as_ref().map_or("no limit".to_owned(), |pids| {
        format!("{}, {} are taken ({})", pids.max, pids.current, pids.file.display())
    });
    report.row("threads of the cgroup", pids);
    report.row("threads of the system", setting(limits.threads_max));
    report.row("locked memory", rlimit(limits.memlock, kib));
    report.row("perf_event_mlock_kb", setting(limits.perf_event_mlock_kb));
    report.row("perf_event_paranoid", setting(limits.perf_event_paranoid));
    report.row("nice (RLIMIT_NICE)", rlimit(limits.nice, nice));
    report.row("real-time priority", rlimit(limits.rtprio, number));
}

fn rlimit(limit: Rlimit, show: impl Fn(u64) -> String) -> String {
    let show = |value: Option<u64>| value.map_or("unlimited".to_owned(), &show);
    if limit.soft == limit.hard {
        show(limit.soft)
    } else {
        format!("{} (may be raised to {})", show(limit.soft), show(limit.hard))
    }
}

fn number(value: u64) -> String {
    value.to_string()
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes >> 10)
}

/// The best nice level is 20 less the limit.
fn nice(limit: u64) -> String {
    match limit {
        0 => "0: a better level takes CAP_SYS_NICE".to_owned(),
        limit => {
            let best = (20 - i64::try_from(limit).unwrap_or(i64::MAX)).max(-20);
            format!("{limit}: down to nice {best}")
        }
    }
}

fn setting(value: Option<impl ToString>) -> String {
    value.map_or("unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nice_limit_counts_downwards() {
        assert_eq!(nice(0), "0: a better level takes CAP_SYS_NICE");
        assert_eq!(nice(20), "20: down to nice 0");
        assert_eq!(nice(40), "40: down to nice -20");
        assert_eq!(nice(u64::MAX - 1), format!("{}: down to nice -20", u64::MAX - 1));
    }

    #[test]
    fn limits_that_are_not_there() {
        assert_eq!(setting(None::<u64>), "unknown");
        assert_eq!(rlimit(Rlimit::default(), number), "unlimited");
    }
}
