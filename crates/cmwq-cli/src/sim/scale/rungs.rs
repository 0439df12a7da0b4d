//! The ladder: what grows, and how far.

use cmwq_sim::Shape;
use cmwq_sim::studies::scale::Size;

use crate::sim::Args;

#[derive(Debug)]
pub(super) struct Rung {
    /// What is larger than on the rungs before.
    pub(super) grown: &'static str,
    pub(super) size: Size,
}

/// The smallest rung of all, and where each of the single ladders begins.
const SMALLEST: [u32; 3] = [4, 100, 10_000];
const BEGINNING: [u32; 3] = [40, 1_000, 100_000];
/// As large as it gets.
const LARGEST: [u32; 3] = [4_096, 100_000, 10_000_000];

/// Up to `--scale` times the smallest rung; or the one that `--cpus`, `--queues`, `--items` or
/// `--topology` ask for.
pub(super) fn list(args: &Args) -> Vec<Rung> {
    let most = args.scale.unwrap_or(1);
    let is_one = args.cpus.is_some() || args.queues.is_some() || args.items.is_some();
    if is_one || args.topology.is_some() {
        let [cpus, queues, items] = BEGINNING;
        let shape = args.topology.unwrap_or_else(|| Shape::large(args.cpus.unwrap_or(cpus)));
        let queues = args.queues.unwrap_or(queues) as usize;
        let items = args.items.unwrap_or(items) as usize;
        return vec![Rung { grown: "asked for", size: Size { shape, queues, items } }];
    }
    let mut rungs = vec![rung("all", SMALLEST)];
    let steps = || [10, 100, 1_000].into_iter().filter(|step| *step <= most);
    rungs.extend(steps().map(|step| rung("all", SMALLEST.map(|n| n * step))));
    for (what, name) in ["CPUs", "queues", "items"].into_iter().enumerate() {
        // The beginning is the second rung of all.
        for step in steps().skip(1) {
            let mut size = BEGINNING;
            size[what] *= step / 10;
            rungs.push(rung(name, size));
        }
    }
    // Small ones first: what a large run leaves with the allocator would count for those after it.
    rungs.sort_by_key(|rung| rung.size.items);
    rungs
}

fn rung(grown: &'static str, mut size: [u32; 3]) -> Rung {
    for (number, largest) in size.iter_mut().zip(LARGEST) {
        // 4,000 CPUs are meant to be 4,096.
        if *number > largest * 9 / 10 {
            *number = largest;
        }
    }
    let [cpus, queues, items] = size;
    let (queues, items) = (queues as usize, items as usize);
    Rung { grown, size: Size { shape: Shape::large(cpus), queues, items } }
}
