//! What was measured on.

use std::fs;
use std::path::Path;

/// Where and when, as the machine was before it began; the databases are in that folder. In one
/// line, whose parts are separated by commas: the report looks for some of them.
pub(super) fn circumstances(folder: &Path) -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let (cpuinfo, mounts, load) =
        (read("/proc/cpuinfo"), read("/proc/self/mountinfo"), read("/proc/loadavg"));
    let model = model(&cpuinfo);
    let load = load.split(' ').next().unwrap_or("unknown");
    let kernel = read("/proc/sys/kernel/osrelease");
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    let command: Vec<_> = std::env::args().skip(1).collect();
    let (command, kernel) = (command.join(" "), kernel.trim());
    let commit = commit().unwrap_or_else(|| "not recorded".to_owned());
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let kind = file_system(&mounts, &folder).unwrap_or("an unknown file system");
    let no_disk = if is_in_memory(kind) { " (in memory: nobody waits for a disk)" } else { "" };
    format!(
        "`thumbs {command}`  \n{cpus} CPUs ({model}), Linux {kernel}, databases on \
         {kind}{no_disk}, load before {load}, {now}, commit {commit}.  \n"
    )
}

/// Of the tree that this program was built in; `None` without git.
fn commit() -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/commit.sh");
    let output = std::process::Command::new("sh").arg(script).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

/// The CPU's name as `/proc/cpuinfo` spells it on the common architectures.
fn model(cpuinfo: &str) -> &str {
    let value = |key: &str| {
        let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let found = pairs.find(|(name, value)| name.trim() == key && !value.trim().is_empty());
        found.map(|(_, value)| value.trim())
    };
    let found = ["model name", "cpu model", "cpu", "CPU part"].into_iter().find_map(value);
    found.unwrap_or("unknown model")
}

/// The type of the file system that a folder is on, by `/proc/self/mountinfo`.
fn file_system<'mounts>(mounts: &'mounts str, folder: &Path) -> Option<&'mounts str> {
    let above = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        let kind = kind.split(' ').next()?;
        folder.starts_with(point).then(|| (point.components().count(), kind))
    });
    // Of two at the same place the later one, which hides the other.
    above.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

fn is_in_memory(kind: &str) -> bool {
    ["tmpfs", "ramfs"].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found() {
        assert_eq!(model("processor\t: 0\nmodel\t\t: 17\nmodel name\t: Some CPU\n"), "Some CPU");
        assert_eq!(model("processor\t: 0\nCPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(model(""), "unknown model");
    }

    #[test]
    fn a_file_system_is_the_one_that_is_seen_there() {
        let mounts = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                      27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 27 0:30 / /tmp rw - xfs /dev/vdb rw\n\
                      31 27 0:31 / /tmp rw - tmpfs tmpfs rw\n";
        for (folder, kind) in [("/tmp/thumbs", "tmpfs"), ("/tmpfs", "ext4"), ("/", "ext4")] {
            assert_eq!(file_system(mounts, Path::new(folder)), Some(kind), "{folder}");
        }
        assert_eq!(file_system("", Path::new("/tmp")), None);
    }
}
