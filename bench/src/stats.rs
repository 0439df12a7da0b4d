//! Medians, percentiles and spreads of small series of measurements.
//!
//! Values are `f64`; "never happened" is [`f64::INFINITY`], which sorts after everything that did
//! happen, so a percentile of a series in which half the trials never ended is honestly "never".

use serde::Serialize;

/// The middle of a series, and how far it spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` for an empty series: there is nothing to say about it.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self { median: median_of_sorted(&sorted), min, max })
    }

    /// A single value, without spread.
    pub(crate) fn single(value: f64) -> Self {
        Self { median: value, min: value, max: value }
    }
}

/// The value at or below which `percent` per cent of the series lie (nearest rank), `None` for an
/// empty series.
pub(crate) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    let upper = sorted[middle];
    if sorted.len() % 2 == 1 {
        return upper;
    }
    // Not the mean when one of the two is infinite on purpose: (x + inf) / 2 = inf, which is what
    // is meant.
    f64::midpoint(sorted[middle - 1], upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_nothing_is_nothing() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn median_takes_the_middle_or_the_mean_of_two() {
        let odd = Spread::of(&[9.0, 1.0, 5.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (5.0, 1.0, 9.0));
        let even = Spread::of(&[4.0, 1.0, 2.0, 100.0]).unwrap();
        assert_eq!((even.median, even.min, even.max), (3.0, 1.0, 100.0));
        assert_eq!(Spread::of(&[7.0]), Some(Spread::single(7.0)));
    }

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (percent, expected) in [(50.0, 50.0), (90.0, 90.0), (99.0, 99.0), (100.0, 100.0)] {
            assert_eq!(percentile(&hundred, percent), Some(expected));
        }
        assert_eq!(
            percentile(&hundred, 0.0),
            Some(1.0),
            "the 0th percentile is the smallest value"
        );
        assert_eq!(percentile(&[3.0, 8.0], 50.0), Some(3.0));
        assert_eq!(percentile(&[3.0, 8.0], 51.0), Some(8.0));
    }

    #[test]
    fn never_sorts_last() {
        let some_never = [2.0, f64::INFINITY, 1.0];
        assert_eq!(percentile(&some_never, 50.0), Some(2.0));
        assert_eq!(percentile(&some_never, 99.0), Some(f64::INFINITY));
        assert_eq!(Spread::of(&[1.0, f64::INFINITY]).unwrap().median, f64::INFINITY);
    }
}
