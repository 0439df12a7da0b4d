//! Times in buckets that grow with them: four for each power of two.

use std::fmt;
use std::time::Duration;

use crate::os::sync::{AtomicU64, Ordering};

/// Times of up to 3 ns have a bucket each, all others four per power of two.
const NR_BUCKETS: usize = 252;

/// Sampled times of a queue's closures since it was made; see
/// [`Workqueue::times`](crate::Workqueue::times).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// From queueing to the entry of the function.
    pub waiting: Histogram,
    /// From the entry of the function to its end, blocking included.
    pub running: Histogram,
}

/// A distribution of times. Each is known to within 25 %.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Without the empty buckets at the end.
    counts: Vec<u64>,
}

impl Histogram {
    /// How many times were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that this part of all times did not exceed, rounded up to the end of its bucket:
    /// 0.5 gives the median, 1 the longest. `None`: there are no times. `part` is taken as 0 or 1
    /// if it lies outside.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("timed").sample_times(1).build()?;
    /// wq.queue(|| ()).join().unwrap();
    /// wq.flush();
    /// let times = wq.times().expect("it was asked for");
    /// assert!(times.waiting.quantile(0.5).is_some());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = ((part.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0;
        let end = |&(_, count): &(Duration, u64)| {
            sum += count;
            sum >= wanted
        };
        self.buckets().find(end).map(|(longest, _)| longest)
    }

    /// Those times that were recorded since `before`, an earlier one of the same queue: what comes
    /// of all since the queue was made hardly changes after a while.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("timed").sample_times(1).build()?;
    /// wq.queue(|| ()).join().unwrap();
    /// let before = wq.times().expect("it was asked for");
    /// wq.queue(|| ()).join().unwrap();
    /// let now = wq.times().expect("it was asked for");
    /// assert_eq!(now.waiting.since(&before.waiting).count(), 1);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(earlier);
        Self::of(counts.map(|(now, before)| now.saturating_sub(before)).collect())
    }

    fn of(mut counts: Vec<u64>) -> Self {
        let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Self { counts }
    }

    /// The buckets that are not empty, from the shortest: the longest time that belongs there, and
    /// how many times do.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        counts.map(|(index, &count)| (Duration::from_nanos(longest_in(index)), count))
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < 4 {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    (power as usize - 1) * 4 + (nanos >> (power - 2) & 3) as usize
}

fn longest_in(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    let end = u128::from(5 + quarter) << (power - 2);
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

/// A histogram that several threads write.
#[derive(Debug)]
pub(crate) struct Recorder(Box<[AtomicU64]>);

impl Recorder {
    pub(crate) fn new() -> Self {
        Self((0..NR_BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // ORDERING: no pairing: counters.
        self.0[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Histogram {
        // ORDERING: as above.
        Histogram::of(self.0.iter().map(|n| n.load(Ordering::Relaxed)).collect())
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_a_quarter_wide_at_most() {
        for bucket in 1..NR_BUCKETS {
            let (first, last) = (longest_in(bucket - 1) + 1, longest_in(bucket));
            assert_eq!([first, last].map(bucket_of), [bucket; 2]);
            assert!(last - first <= first / 4, "{first} to {last}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, NR_BUCKETS - 1));
        assert_eq!(longest_in(NR_BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_are_the_ends_of_buckets() {
        let recorder = Recorder::new();
        assert_eq!(recorder.read().quantile(0.5), None);
        for micros in 1..=100 {
            recorder.add(Duration::from_micros(micros));
        }
        let times = recorder.read();
        assert_eq!(times.count(), 100);
        let near = |part, micros: u64| {
            let found = times.quantile(part).expect("there are times");
            let exact = Duration::from_micros(micros);
            assert!(found >= exact && found <= exact * 5 / 4, "{part}: {found:?}");
        };
        near(0.5, 50);
        near(0.99, 99);
        near(1.0, 100);
        near(7.0, 100);
        near(-1.0, 1);
        near(f64::NAN, 1);
        assert_eq!(times.buckets().map(|(_, count)| count).sum::<u64>(), 100);
        assert_eq!(times.clone(), times);
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let recorder = Recorder::new();
        let record = |micros| recorder.add(Duration::from_micros(micros));
        let nothing = recorder.read();
        [5, 5, 4000].into_iter().for_each(record);
        let before = recorder.read();
        assert_eq!(before.since(&nothing), before);
        assert_eq!(before.since(&before), nothing, "and no bucket is left");
        [5, 30, 30].into_iter().for_each(record);
        let since = recorder.read().since(&before);
        assert_eq!(since.count(), 3);
        assert_eq!(since.buckets().map(|(_, count)| count).collect::<Vec<_>>(), [1, 2]);
        assert!(since.quantile(1.0).unwrap() < Duration::from_micros(40), "4 ms were before");
        assert_eq!(before.since(&recorder.read()), nothing, "the wrong way round");
    }
}
