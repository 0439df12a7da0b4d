//! Room for descriptors.

use super::skip;

fn table_size() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("FDSize:"))?.trim().parse().ok()
}

#[test]
fn the_table_has_room_for_what_the_library_may_open() {
    crate::os::sense::reserve();
    let Some(size) = table_size() else { return skip("no procfs") };
    let limit = soft_limit();
    assert!(size >= (limit / 2).min(4096), "room for {size} of {limit}");
    crate::os::sense::reserve();
    assert_eq!(table_size(), Some(size), "once is enough");
}

fn soft_limit() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("there is procfs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let soft = line.split_whitespace().nth(3).expect("its soft part");
    soft.parse().unwrap_or(u64::MAX)
}
