use std::collections::BTreeSet;
use std::path::Path;

use crate::os::topo::{CpuSet, SYS_ROOT, allowed_cpus, online_cpus};

fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn check_list(text: &str, members: &[u32], printed: &str) {
    let set = set(text);
    assert_eq!(set.iter().collect::<Vec<_>>(), members);
    assert_eq!(set.to_string(), printed);
    assert_eq!(set.count(), members.len());
}

#[test]
fn lists_are_read_and_printed_as_the_kernel_does() {
    check_list("", &[], "");
    check_list("\n", &[], "");
    check_list("0\n", &[0], "0");
    check_list("0-3,8", &[0, 1, 2, 3, 8], "0-3,8");
    check_list("8, 0-1,1-3", &[0, 1, 2, 3, 8], "0-3,8");
    check_list("62-65,4095", &[62, 63, 64, 65, 4095], "62-65,4095");
    // First 2 of every 4, and a last group that is cut short.
    check_list("0-8:2/4", &[0, 1, 4, 5, 8], "0-1,4-5,8");
    check_list("5-5:1/1", &[5], "5");
}

#[test]
fn texts_that_are_no_lists_are_refused_with_an_example() {
    for text in [
        "a",
        "1-",
        "-1",
        "3-1",
        "+1",
        "1,,2",
        ",",
        "0-3:2",
        "4:1/2",
        "0-3:0/2",
        "0-3:3/2",
        "65536",
        "0-4294967295",
        "99999999999",
        "0x3",
        "0-3 8",
    ] {
        let error = CpuSet::parse_list(text).expect_err(text);
        assert!(error.to_string().contains("as in \"0-3,8\""), "{error}");
    }
    assert_eq!(set("65535").count(), 1, "the highest number is allowed");
}

#[track_caller]
fn check_mask(mask: &str, list: &str, nr_cpus: u32) {
    let set = CpuSet::parse_mask(mask).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(set.to_string(), list);
    assert_eq!(set.to_mask(nr_cpus), mask.trim());
}

#[test]
fn masks_are_read_and_printed_as_the_kernel_does() {
    check_mask("0", "", 0);
    check_mask("3\n", "0-1", 2);
    check_mask("ff,00000000", "32-39", 40);
    check_mask("f,ffffffff", "0-35", 36);
    check_mask("0,00000001", "0", 36);
    check_mask("00,00000000,80000000", "31", 72);
    check_mask("80000000", "31", 32);
    check_mask("1,00000000,00000000", "64", 65);
    // Members beyond the machine's width are printed rather than lost.
    assert_eq!(set("0,36").to_mask(8), "10,00000001");
}

#[test]
fn texts_that_are_no_masks_are_refused_with_an_example() {
    for text in ["", "g", "0x1", "123456789", "1,,1", "1,", "-1", " 1 1"] {
        let error = CpuSet::parse_mask(text).expect_err(text);
        assert!(error.to_string().contains("ff,00000000"), "{error}");
    }
    let too_high = format!("1{}", ",00000000".repeat(2048));
    assert!(CpuSet::parse_mask(&too_high).is_err());
    let highest = format!("80000000{}", ",00000000".repeat(2047));
    assert_eq!(CpuSet::parse_mask(&highest), Ok(CpuSet::single(65_535)));
}

#[test]
fn membership_and_navigation_cross_words() {
    let mut cpus = set("3,63-64,4095");
    assert_eq!((cpus.first(), cpus.last()), (Some(3), Some(4095)));
    assert_eq!([0, 3, 62, 63, 64].map(|c| cpus.next(c).unwrap()), [3, 63, 63, 64, 4095]);
    assert_eq!(cpus.next(4095), None);
    assert_eq!(cpus.next(u32::MAX), None);
    assert_eq!((cpus.next_wrap(64), cpus.next_wrap(4095)), (Some(4095), Some(3)));
    assert_eq!(cpus.take(2), set("3,63"));
    assert_eq!(cpus.take(9), cpus);
    assert!(!cpus.insert(64) && cpus.insert(65));
    assert!(cpus.remove(65) && !cpus.remove(65) && !cpus.remove(60_000));
    assert!(cpus.contains(4095) && !cpus.contains(4094) && !cpus.contains(u32::MAX));
}

#[test]
fn the_empty_set_has_no_members() {
    let empty = CpuSet::new();
    assert!(empty.is_empty());
    assert_eq!(
        (empty.first(), empty.last(), empty.next(0), empty.next_wrap(0)),
        (None, None, None, None)
    );
    assert_eq!(format!("{empty:?}"), "CpuSet()");
    assert!(empty.is_subset(&empty) && !empty.intersects(&empty));
}

#[test]
fn equal_members_are_equal_sets_however_they_came_about() {
    let mut grown = set("1,4000");
    grown.remove(4000);
    assert_eq!(grown, set("1"));
    assert_eq!(set("1,4000").and(&set("1-100")), set("1"));
    assert_eq!(set("1,4000").and_not(&set("2-5000")), set("1"));
    assert_eq!(format!("{grown:?}"), "CpuSet(1)");
}

#[test]
#[should_panic(expected = "CPU 65536 is not below CpuSet::MAX_CPUS")]
fn inserting_an_absurd_number_panics() {
    CpuSet::new().insert(CpuSet::MAX_CPUS);
}

/// xorshift64*: enough for picking members.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32 % bound
    }

    fn members(&mut self) -> BTreeSet<u32> {
        let (nr, bound) = (self.below(200), 1 + self.below(4096));
        (0..nr).map(|_| self.below(bound)).collect()
    }
}

#[test]
fn set_algebra_agrees_with_a_tree_set() {
    for seed in 1..=200 {
        let mut random = Random(seed);
        let (a, b) = (random.members(), random.members());
        let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
        let check = |ours: CpuSet, theirs: BTreeSet<u32>| {
            assert!(ours.iter().eq(theirs.iter().copied()), "seed {seed}: {ours} {theirs:?}");
            assert_eq!(CpuSet::parse_list(&ours.to_string()), Ok(ours.clone()), "seed {seed}");
            assert_eq!(CpuSet::parse_mask(&ours.to_mask(0)), Ok(ours.clone()), "seed {seed}");
            assert_eq!(CpuSet::from_kernel_words(&ours.to_kernel_words()), ours, "seed {seed}");
        };
        check(x.clone(), a.clone());
        check(x.and(&y), &a & &b);
        check(x.or(&y), &a | &b);
        check(x.and_not(&y), &a - &b);
        assert_eq!(x.intersects(&y), !a.is_disjoint(&b), "seed {seed}");
        assert_eq!(x.is_subset(&y), a.is_subset(&b), "seed {seed}");
        assert!(x.and(&y).is_subset(&x), "seed {seed}");
    }
}

#[test]
fn the_affinity_mask_is_the_one_that_procfs_shows() {
    // In a sandbox there may be neither.
    let Ok(status) = std::fs::read_to_string("/proc/thread-self/status") else { return };
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    // Procfs also shows CPUs that are switched off, which the system call leaves out.
    let Some(online) = online_cpus(Path::new(SYS_ROOT)) else { return };
    assert_eq!(allowed_cpus(), set(line.expect("a mask in the status")).and(&online));
}
