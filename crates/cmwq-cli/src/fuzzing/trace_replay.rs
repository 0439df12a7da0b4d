//! Trace files, through all that `cmwq trace FILE` makes of them.

/// Replays a file of these bytes into every format.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let formats = crate::trace::for_fuzzing::replay(data);
    for (format, written) in formats {
        let text = String::from_utf8(written).expect("what is written is UTF-8");
        assert_eq!(cmwq::foreign::harmless_lines(&text), text, "{format}");
        if matches!(format, "json" | "spans") {
            let document: Result<serde_json::Value, _> = serde_json::from_str(&text);
            assert!(document.is_ok(), "{format}: {:?} {text}", document.err());
        }
    }
}

#[test]
fn any_file_is_replayed_or_refused() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/trace_replay"), 2_000, run);
}
