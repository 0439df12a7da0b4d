//! Whether memory is short: what the machine and the control groups have left, and how long
//! programs wait for it (pressure stall information).

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::HumanBytes;

/// What is known is believed for so long.
const HOLDS: Duration = Duration::from_millis(50);
/// Programs stand still for memory in so many hundredths of the last ten seconds: it is short,
/// whatever is left of it.
const PRESSURE: f64 = 10.0;
/// Inodes, stacks and page tables of a new process want some.
const USUAL: Floor = Floor::Percent(5.0);

/// How much has to be left for a command to start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Floor {
    /// Nobody asks.
    Off,
    Bytes(u64),
    /// Of what there is.
    Percent(f64),
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Left {
    available: u64,
    total: u64,
    /// Hundredths of the last ten seconds in which all programs stood still for memory.
    pressure: f64,
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Memory {
    floor: Floor,
    groups: Vec<PathBuf>,
    known: Mutex<Option<(Instant, Option<String>)>>,
}

impl FromStr for Floor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a size as 500M or 2G, a percentage as 10%, or 'off'".to_owned();
        if text == "off" {
            return Ok(Self::Off);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            let is_sane = (0.0..=100.0).contains(&percent);
            return is_sane.then_some(Self::Percent(percent)).ok_or_else(wrong);
        }
        let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
        let of = |(unit, shift): (char, u32)| {
            text.strip_suffix([unit, unit.to_ascii_lowercase()]).map(|digits| (digits, shift))
        };
        let (digits, shift) = units.into_iter().find_map(of).unwrap_or((text, 0));
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Self::Bytes).ok_or_else(wrong)
    }
}

impl Floor {
    /// Why memory is short; `None`: it is not.
    fn judge(self, left: Left) -> Option<String> {
        let wanted = match self {
            Self::Off => return None,
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (left.total as f64 * percent / 100.0) as u64,
        };
        let Left { available, total, pressure } = left;
        let amount = || format!("{} of {} are left", HumanBytes(available), HumanBytes(total));
        if available < wanted {
            Some(format!("{}, and {} are wanted", amount(), HumanBytes(wanted)))
        } else if pressure >= PRESSURE {
            Some(format!("programs stood still for it in {pressure:.0} % of ten seconds"))
        } else {
            None
        }
    }
}

impl Memory {
    pub(super) fn new(floor: Option<Floor>) -> Self {
        let floor = floor.unwrap_or(USUAL);
        let groups = match floor {
            Floor::Off => Vec::new(),
            _ => groups(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default()),
        };
        Self { floor, groups, known: Mutex::new(None) }
    }

    /// Why memory is short, as of a moment ago; `None`: it is not, or nobody can tell.
    pub(super) fn shortage(&self) -> Option<String> {
        if self.floor == Floor::Off {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((at, shortage)) if at.elapsed() < HOLDS => shortage.clone(),
            _ => {
                let shortage = self.left().and_then(|left| self.floor.judge(left));
                *known = Some((Instant::now(), shortage.clone()));
                shortage
            }
        }
    }

    fn left(&self) -> Option<Left> {
        let info = fs::read_to_string("/proc/meminfo").ok()?;
        let machine = kibibytes(&info, "MemTotal:")?;
        let (mut available, mut total) = (kibibytes(&info, "MemAvailable:")?, machine);
        let mut pressure = pressure("/proc/pressure/memory".as_ref());
        for group in &self.groups {
            if let Some((limit, used)) = limit_and_use(group, machine) {
                available = available.min(limit.saturating_sub(used));
                total = total.min(limit);
            }
            pressure = pressure.max(self::pressure(&group.join("memory.pressure")));
        }
        Some(Left { available, total, pressure })
    }
}

fn kibibytes(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The groups of the process and those around them, innermost first, but for the root.
fn groups(cgroup: &str) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                Path::new("/sys/fs/cgroup/memory")
            }
            _ => continue,
        };
        let own: PathBuf = match path.trim_start_matches('/') {
            "" => root.to_owned(),
            path => root.join(path),
        };
        // In a container the root that is seen is the container's group, and has its limit.
        groups.extend(
            own.ancestors().take_while(|group| group.starts_with(root)).map(Path::to_owned),
        );
    }
    groups
}

/// Of a group that has a limit, below what the machine has: one beyond which its programs die, or
/// are slowed down until they give memory up. What of it can be given up is not used.
fn limit_and_use(group: &Path, machine: u64) -> Option<(u64, u64)> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let limits = ["memory.high", "memory.max", "memory.limit_in_bytes"];
    let limit = limits.into_iter().filter_map(number).min()?;
    if limit >= machine {
        return None;
    }
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    Some((limit, used.saturating_sub(can_be_given_up(&stat))))
}

/// What a group's `memory.stat` has of files, read just now or not, and of the kernel's caches of
/// names and inodes. Of version 1 only the totals are with the groups inside, as what is used.
fn can_be_given_up(stat: &str) -> u64 {
    let number = |name: &str| {
        let number = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        number.trim().parse::<u64>().ok()
    };
    let kinds = ["inactive_file", "active_file", "slab_reclaimable"];
    let of = |kind: &str| number(&format!("total_{kind}")).or_else(|| number(kind)).unwrap_or(0);
    kinds.into_iter().map(of).fold(0, u64::saturating_add)
}

/// The `avg10` of the line `full`; 0 where there is none.
fn pressure(file: &Path) -> f64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let full = text.lines().find_map(|line| line.strip_prefix("full avg10="));
    let avg10 = full.and_then(|rest| rest.split(' ').next()?.parse().ok());
    avg10.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_sizes_or_parts() {
        let floor = |text: &str| text.parse::<Floor>().ok();
        assert_eq!(floor("off"), Some(Floor::Off));
        assert_eq!(floor("512"), Some(Floor::Bytes(512)));
        assert_eq!(floor("3k"), Some(Floor::Bytes(3072)));
        assert_eq!(floor("2G"), Some(Floor::Bytes(2 << 30)));
        assert_eq!(floor("7.5%"), Some(Floor::Percent(7.5)));
        // The last but one is one character that becomes two in capitals.
        for text in ["", "%", "101%", "-1", "1.5G", "G", "99999999999T", "1\u{fb05}", "1\u{e4}"] {
            assert_eq!(floor(text), None, "{text}");
        }
    }

    #[test]
    fn little_left_or_much_waiting_is_short() {
        let left = Left { available: 100 << 20, total: 1000 << 20, pressure: 0.0 };
        assert_eq!(Floor::Percent(10.0).judge(left), None);
        assert!(Floor::Percent(11.0).judge(left).unwrap().contains("110.00 MiB are wanted"));
        assert!(Floor::Bytes(101 << 20).judge(left).is_some());
        let waiting = Left { pressure: 10.0, ..left };
        assert!(Floor::Bytes(0).judge(waiting).unwrap().contains("10 %"));
        assert_eq!(Floor::Off.judge(waiting), None);
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let paths = |text| groups(text).iter().map(|p| p.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            paths("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        assert_eq!(paths("5:cpu:/x\n4:memory:/\n"), ["/sys/fs/cgroup/memory"]);
    }

    /// It is in what is used. Of version 1 only the totals have it.
    #[test]
    fn what_groups_inside_can_give_up_counts_too() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.limit_in_bytes", "1000\n");
        write("memory.usage_in_bytes", "900\n");
        let own = "cache 7\ninactive_file 4\nactive_file 3\n";
        write("memory.stat", &format!("{own}total_inactive_file 500\ntotal_active_file 200\n"));
        assert_eq!(limit_and_use(folder.path(), 1 << 40), Some((1000, 200)));
    }

    #[test]
    fn limits_and_pressure_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(limit_and_use(folder.path(), 1 << 40), None);
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        assert_eq!(limit_and_use(folder.path(), 1 << 40), None, "no limit");
        write("memory.max", "1000\n");
        write("memory.stat", "anon 1\ninactive_file 300\n");
        assert_eq!(limit_and_use(folder.path(), 1 << 40), Some((1000, 600)));
        // What was read twice is active, and can be given up as well.
        let caches = "file 310\ninactive_file 50\nactive_file 240\nslab_reclaimable 10\nslab 90\n";
        write("memory.stat", caches);
        assert_eq!(limit_and_use(folder.path(), 1 << 40), Some((1000, 600)));
        assert_eq!(limit_and_use(folder.path(), 1000), None, "it may have all that there is");
        write("memory.high", "800\n");
        assert_eq!(limit_and_use(folder.path(), 1 << 40), Some((800, 600)));
        write("memory.high", "max\n");
        assert_eq!(limit_and_use(folder.path(), 1 << 40), Some((1000, 600)));
        let file = folder.path().join("memory.pressure");
        assert_eq!(pressure(&file), 0.0);
        write("memory.pressure", "some avg10=5.00 avg60=0\nfull avg10=12.34 avg60=1.00 total=9\n");
        assert_eq!(pressure(&file), 12.34);
    }
}
