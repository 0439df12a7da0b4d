//! Values as the kernel reads and writes them.

use super::error::AttributeError;
use crate::os::topo::{AffinityScope, CpuSet};

/// The number that a text begins with, after white space; what follows it does not matter. KERNEL:
/// `sscanf("%d")` — differs: what an `int` cannot hold is no number.
pub(super) fn number(text: &str) -> Option<i32> {
    let text = text.trim_ascii_start();
    let sign = usize::from(text.starts_with('-'));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    text[..sign + digits].parse().ok()
}

/// A mask of CPUs below `nr_cpus`. KERNEL: `bitmap_parse` — same: the first line counts; groups of
/// up to 8 digits, separated by commas or white space; nothing at all is the empty mask.
pub(super) fn cpumask(text: &str, nr_cpus: u32) -> Result<CpuSet, AttributeError> {
    let line = text.split('\n').next().unwrap_or_default();
    let groups = line.split(|c: char| c == ',' || c.is_ascii_whitespace());
    let groups: Vec<&str> = groups.filter(|group| !group.is_empty()).collect();
    let shown = || shorten(line);
    if let Some(odd) =
        groups.iter().find(|group| !group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        let odd = shorten(odd);
        return Err(AttributeError::invalid(format!(
            "cpumask takes a hexadecimal mask, as f or ff,00000000; '{odd}' is none"
        )));
    }
    let too_wide =
        || AttributeError::overflow(format!("cpumask '{}' is wider than {nr_cpus} CPUs", shown()));
    if groups.iter().any(|group| group.len() > 8) {
        return Err(AttributeError::overflow(format!(
            "cpumask '{}' has a group of more than 8 digits; write a comma between groups",
            shown()
        )));
    }
    if groups.is_empty() {
        return Ok(CpuSet::new());
    }
    let cpus = CpuSet::parse_mask(&groups.join(",")).map_err(|_| too_wide())?;
    if cpus.last().is_some_and(|last| last >= nr_cpus) { Err(too_wide()) } else { Ok(cpus) }
}

/// An affinity scope; `None` is the default one.
pub(super) fn scope(text: &str) -> Result<Option<AffinityScope>, AttributeError> {
    AffinityScope::parse_setting(text).map_err(|_| no_scope("affinity_scope takes default, ", text))
}

/// What the default scope is from now on, which has to be one.
pub(super) fn default_scope(text: &str) -> Result<AffinityScope, AttributeError> {
    text.parse().map_err(|_| no_scope("default_affinity_scope takes ", text))
}

fn no_scope(takes: &str, text: &str) -> AttributeError {
    let names = AffinityScope::ALL.map(AffinityScope::name).join(", ");
    AttributeError::invalid(format!("{takes}{names}; '{}' is none", shorten(text)))
}

pub(super) fn show_scope(scope: Option<AffinityScope>, default: AffinityScope) -> String {
    scope.map_or_else(|| format!("default ({default})"), |scope| scope.to_string())
}

/// What was written, for a message.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut shown: String =
        text.trim().chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.trim().chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_scanf_reads_them() {
        for (text, number_read) in [
            ("7", Some(7)),
            ("  -20\n", Some(-20)),
            ("\t12abc", Some(12)),
            ("3 4", Some(3)),
            ("007", Some(7)),
            ("0x10", Some(0)),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("", None),
            ("-", None),
            ("- 1", None),
            ("+1", None),
            ("x1", None),
            ("\u{663}", None),
        ] {
            assert_eq!(number(text), number_read, "{text:?}");
        }
    }

    #[test]
    fn masks_are_groups_of_32_bits() {
        let cpus = |list: &str| Ok::<CpuSet, i32>(list.parse().unwrap());
        for (text, expected) in [
            ("f", cpus("0-3")),
            ("F\n", cpus("0-3")),
            ("00000000,0000000f", cpus("0-3")),
            ("1,00000000", cpus("32")),
            ("1 0", cpus("32")),
            (" ,3,\nrest", cpus("0-1")),
            ("0", cpus("")),
            ("", cpus("")),
            ("\n3", cpus("")),
            ("80000000,00000000", cpus("63")),
            ("1,00000000,00000000", Err(libc::EOVERFLOW)),
            ("123456789", Err(libc::EOVERFLOW)),
            ("0x3", Err(libc::EINVAL)),
            ("0-3", Err(libc::EINVAL)),
            ("3,g", Err(libc::EINVAL)),
            ("\u{e9}", Err(libc::EINVAL)),
        ] {
            let read = cpumask(text, 64).map_err(|error| error.errno());
            assert_eq!(read, expected, "{text:?}");
        }
        assert_eq!(cpumask("4", 2).unwrap_err().errno(), libc::EOVERFLOW, "there is no third CPU");
        let many = "f,".repeat(3000);
        assert_eq!(cpumask(&many, 64).unwrap_err().errno(), libc::EOVERFLOW);
    }

    #[test]
    fn scopes_have_names() {
        assert_eq!(scope("cache_shard\n"), Ok(Some(AffinityScope::CacheShard)));
        assert_eq!(scope("Default"), Ok(None));
        assert_eq!(scope("none").unwrap_err().errno(), libc::EINVAL);
        assert_eq!(show_scope(None, AffinityScope::Cache), "default (cache)");
        assert_eq!(show_scope(Some(AffinityScope::Numa), AffinityScope::Cache), "numa");
    }
}
