//! The ladder as text.

use super::{Document, Row};

const MIB: f64 = 1_048_576.0;

/// The names of the columns.
pub(super) fn head() -> String {
    format!(
        "{:<9} {:>5} {:>7} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8}  {}\n",
        "grown",
        "CPUs",
        "queues",
        "items",
        "events",
        "wall s",
        "CPU s",
        "ns/item",
        "pwqs",
        "B/CPU",
        "B/queue",
        "B/item",
        "RSS MiB",
        "digest"
    )
}

/// What comes below the lines.
pub(super) fn tail(document: &Document<'_>) -> String {
    let mut text = String::from(
        "\nBytes that one more CPU takes, from 2048 to 4096, by how many per-CPU queues are used \
         on it:\n",
    );
    for entry in document.bytes_per_additional_cpu {
        text += &format!("{:>9} queues {:>9} B\n", entry.used_queues, entry.bytes);
    }
    for row in document.rungs {
        if let Some(complaint) = &row.complaint {
            text += &format!("\n{} CPUs, {} queues: {complaint}\n", row.cpus, row.queues);
        }
    }
    text
}

/// What came of a rung.
pub(super) fn line(row: &Row) -> String {
    let rss = row.peak_rss_bytes.map_or_else(|| "?".into(), |b| format!("{:.0}", b as f64 / MIB));
    format!(
        "{:<9} {:>5} {:>7} {:>9} {:>10} {:>8.1} {:>8.1} {:>8.0} {:>8} {:>8} {:>8} {:>7} {:>8}  \
         {}{}\n",
        row.grown,
        row.cpus,
        row.queues,
        row.items,
        row.events,
        row.wall_s,
        row.cpu_s,
        row.ns_per_item,
        row.pwqs,
        row.bytes_per_cpu,
        row.bytes_per_queue,
        row.bytes_per_item,
        rss,
        row.digest,
        if row.complaint.is_some() { "  complaint" } else { "" }
    )
}
