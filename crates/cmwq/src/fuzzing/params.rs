//! `CMWQ_PARAMS` and `CMWQ_DETECT`: any text gives parameters within their limits.

use crate::engine::tools::params::Params;

/// The first line is `CMWQ_PARAMS`, the rest `CMWQ_DETECT`.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (params, detect) = text.split_once('\n').unwrap_or((&text, ""));
    let (params, complaints) = Params::parse(Some(params), Some(detect));
    check(&params);
    let nr_settings = text.split_whitespace().count() + 1;
    assert!(complaints.len() <= nr_settings, "{complaints:?}");
    assert!(complaints.iter().all(|complaint| complaint.len() < text.len() + 1000));
}

fn check(params: &Params) {
    const MOST_NS: u64 = 1_000_000_000_000_000_000;
    assert!(params.cache_shard_size >= 1);
    assert!((1..=1 << 16).contains(&params.idle_ratio));
    assert!((64 << 10..=1 << 30).contains(&params.stack_size));
    assert!(params.unbound_cpus.as_ref().is_none_or(|cpus| !cpus.is_empty()));
    for ns in [params.watchdog_thresh_ns, params.panic_on_stall_time_ns, params.idle_timeout_ns] {
        assert!(ns <= MOST_NS, "{params:?}");
    }
    let control = params.control.as_deref().unwrap_or_default();
    assert!(control.is_empty() || control.starts_with('/'), "{params:?}");
    let signals = [params.watchdog_signal.filter(|signal| *signal != 0), params.dump_signal];
    for signal in signals.into_iter().flatten() {
        assert!((1..=libc::SIGRTMAX()).contains(&signal), "{params:?}");
    }
}

#[test]
fn any_text_gives_sane_parameters() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/params"), 20_000, run);
}
