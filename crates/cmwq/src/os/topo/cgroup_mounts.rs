//! Finding a process's cgroup in the file system: lines of `/proc/self/mountinfo`.
//!
//! *Does not* touch the file system; it turns text into paths.
//!
//! Both the path of a process's cgroup and the root of a mount are told relative to the reader's
//! cgroup namespace. A process in a fresh namespace sees itself at `/`; what lies outside is told
//! with leading `..`. The directory of a cgroup is therefore its path *below the mount's root*, and
//! a mount that does not show it is of no use.
//!
//! *Kernel*: `cgroup_namespaces(7)`, `proc_pid_mountinfo(5)`.

use std::path::{Component, Path, PathBuf};

/// Which of the two cgroup interfaces a hierarchy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The hierarchy of the controller that was asked for.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A mounted cgroup hierarchy that can carry the limits of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupMount {
    pub(super) version: Version,
    /// The cgroup that the mount shows at its top.
    pub(super) root: String,
    /// Where it is mounted.
    pub(super) mount_point: String,
}

impl CgroupMount {
    /// Reads a line of mountinfo; `None` if it is another kind of mount, or a version 1 hierarchy
    /// without `controller`.
    ///
    /// `ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [TAG…] - TYPE SOURCE SUPER_OPTIONS`
    pub(super) fn parse(line: &str, controller: &str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup2" => Version::V2,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == controller) => Version::V1,
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3);
        let root = unescape(mount.next()?);
        let mount_point = unescape(mount.next()?);
        Some(Self { version, root, mount_point })
    }

    /// The path below the mount point of `cgroup`, or of its nearest ancestor whose path can be
    /// known; `None` if the mount shows neither.
    pub(super) fn path_below(&self, cgroup: &str) -> Option<PathBuf> {
        let (cgroup, root) = (Path::new(cgroup), Path::new(&self.root));
        let Ok(below) = cgroup.strip_prefix(root) else {
            // A root that only climbs out of the namespace is an ancestor of all that climbs less.
            // The names on the way down from it are hidden from us, but its own limit is told at
            // the top of the mount.
            let is_ancestor = climbs(root) > climbs(cgroup) && is_all_climbing(root);
            return is_ancestor.then(PathBuf::new);
        };
        // A `..` that the root does not account for leads out of what is mounted here.
        (climbs(below) == 0).then(|| below.to_path_buf())
    }
}

/// How many levels the path climbs out of the namespace (`..` only ever comes first).
fn climbs(path: &Path) -> usize {
    path.components().filter(|c| *c == Component::ParentDir).count()
}

fn is_all_climbing(path: &Path) -> bool {
    path.components().all(|c| matches!(c, Component::RootDir | Component::ParentDir))
}

/// Undoes the octal escapes of mountinfo (`\040` is a space).
fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'\\').then(|| octal(tail)).flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}
