//! Feature `usdt`: what `perf list` and `bpftrace -l` find in the binary.

use object::{Object as _, ObjectSection as _};

/// `(provider, name)` of each note.
fn probes(notes: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = notes;
    while rest.len() >= 12 {
        let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (owner, description) = (word(0).next_multiple_of(4), word(4));
        // Three addresses, then strings that end with a null.
        let strings = &rest[12 + owner + 24..12 + owner + description];
        let mut strings = strings.split(|&byte| byte == 0);
        let mut next = || String::from_utf8(strings.next().unwrap_or_default().to_vec()).unwrap();
        found.push((next(), next()));
        rest = rest.get(12 + owner + description.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

#[test]
fn the_binary_lists_every_probe() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".note.stapsdt").expect("there are probes");
    let found = probes(section.data().unwrap());
    for (_, name) in cmwq::trace::NAMES {
        let is_it = |probe: &(String, String)| probe.0 == "cmwq" && probe.1 == name;
        assert!(found.iter().any(is_it), "no probe cmwq:{name} among {found:?}");
    }
}
