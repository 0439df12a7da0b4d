//! The CPUs of a domain by how many threads they have: every wake-up asks for the least loaded one,
//! and every switch changes a load, so both must be quick for thousands of CPUs. CPUs are numbered
//! from the domain's first one.

/// See the module header.
#[derive(Debug)]
pub(super) struct ByLoad {
    /// For each load, whose number of CPUs is in `nr_cpus`, so many words of bits.
    words: usize,
    bits: Vec<u64>,
    nr_cpus: Vec<u32>,
}

impl ByLoad {
    pub(super) const fn new(cpus: usize) -> Self {
        Self { words: cpus.div_ceil(64), bits: Vec::new(), nr_cpus: Vec::new() }
    }

    /// A CPU with this load comes, or goes.
    pub(super) fn set(&mut self, load: u32, cpu: u32, is_in: bool) {
        let (load, cpu) = (load as usize, cpu as usize);
        if self.nr_cpus.len() <= load {
            self.nr_cpus.resize(load + 1, 0);
            self.bits.resize((load + 1) * self.words, 0);
        }
        let (word, bit) = (&mut self.bits[load * self.words + cpu / 64], 1_u64 << (cpu % 64));
        debug_assert_eq!(*word & bit == 0, is_in, "CPU {cpu} with load {load}");
        *word ^= bit;
        if is_in {
            self.nr_cpus[load] += 1;
        } else {
            self.nr_cpus[load] -= 1;
        }
    }

    /// The lowest CPU of those with the lowest load.
    pub(super) fn least(&self) -> Option<u32> {
        let load = self.nr_cpus.iter().position(|nr| *nr > 0)?;
        let words = self.bits[load * self.words..].iter();
        let (at, word) = words.enumerate().find(|(_, word)| **word != 0)?;
        Some(at as u32 * 64 + word.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_loaded_one_is_found() {
        let mut by_load = ByLoad::new(71);
        assert_eq!(by_load.least(), None);
        for (load, cpu) in [(3, 70), (1, 5), (1, 2), (3, 1), (2, 9)] {
            by_load.set(load, cpu, true);
        }
        assert_eq!(by_load.least(), Some(2));
        by_load.set(1, 2, false);
        by_load.set(1, 5, false);
        assert_eq!(by_load.least(), Some(9));
        by_load.set(0, 70, true);
        assert_eq!(by_load.least(), Some(70));
    }
}
