//! CPU lists and masks: what is read is written back as a text that means the same.

use crate::os::topo::CpuSet;

/// The text is read as a list and as a mask.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for read in [CpuSet::parse_list, CpuSet::parse_mask] {
        match read(&text) {
            Ok(set) => check(&set),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn check(set: &CpuSet) {
    assert_eq!(CpuSet::parse_list(&set.to_string()).as_ref(), Ok(set));
    for nr_cpus in [0, 1, 64, 65, 8192] {
        assert_eq!(CpuSet::parse_mask(&set.to_mask(nr_cpus)).as_ref(), Ok(set), "{nr_cpus}");
    }
    let cpus: Vec<u32> = set.iter().collect();
    assert!(cpus.is_sorted_by(|a, b| a < b) && cpus.len() == set.count());
    assert_eq!((set.first(), set.last()), (cpus.first().copied(), cpus.last().copied()));
    assert!(cpus.iter().all(|cpu| *cpu < CpuSet::MAX_CPUS && set.contains(*cpu)));
    assert_eq!(CpuSet::from_kernel_words(&set.to_kernel_words()), *set);
    assert_eq!(set.is_empty(), cpus.is_empty());
}

#[test]
fn sets_are_what_they_are_written_as() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/cpu_sets"), 20_000, run);
}
