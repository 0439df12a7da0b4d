//! Numbers in few characters. Pure.

/// At most five characters.
pub(super) fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 if ns < 1_000_000 => format!("{}us", ns / 1_000),
        0 => format!("{}ms", ns / 1_000_000),
        1..10 => format!("{}.{}s", seconds, ns / 100_000_000 % 10),
        10..100 => format!("{seconds}s"),
        100..6_000 => format!("{}m", seconds / 60),
        6_000..360_000 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A count in `width` characters, with a power of thousand where it must be.
pub(super) fn count(number: u64, width: usize) -> String {
    let plain = number.to_string();
    if plain.len() <= width {
        return plain;
    }
    let units = [(1_000, 'k'), (1_000_000, 'M'), (1_000_000_000, 'G'), (1_000_000_000_000, 'T')];
    let short = units.map(|(unit, letter)| format!("{}{letter}", number / unit));
    short.into_iter().find(|text| text.len() <= width).unwrap_or(plain)
}

/// Per second; `-`: not known.
pub(super) fn rate(rate: Option<f64>, width: usize) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64, width),
    }
}

/// Percent; `-`: not known.
pub(super) fn percent(percent: Option<f64>) -> String {
    percent.map_or("-".to_owned(), |percent| format!("{percent:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        const S: u64 = 1_000_000_000;
        let cases = [
            (0, "0us"),
            (999_999, "999us"),
            (12_000_000, "12ms"),
            (S, "1.0s"),
            (9 * S + 990_000_000, "9.9s"),
            (99 * S, "99s"),
            (100 * S, "1m"),
            (5_999 * S, "99m"),
            (6_000 * S, "1h"),
            (100 * 3600 * S, "4d"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(duration(u64::MAX), "213503d");
    }

    #[test]
    fn counts_fit() {
        assert_eq!(count(12_345, 5), "12345");
        assert_eq!(count(123_456, 5), "123k");
        assert_eq!(count(123_456_789, 5), "123M");
        assert_eq!(count(u64::MAX, 9), "18446744T");
        assert_eq!(rate(Some(0.0), 6), "0");
        assert_eq!(rate(Some(2.25), 6), "2.2");
        assert_eq!(rate(Some(99.6), 6), "100");
        assert_eq!(rate(None, 6), "-");
        assert_eq!(percent(Some(99.6)), "100");
    }
}
