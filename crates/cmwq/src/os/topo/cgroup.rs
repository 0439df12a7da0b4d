//! The process's cgroup and the groups around it, where files of a controller may be.
//!
//! *Owns* nothing. *Does not* watch for changes: a process can be moved, and limits changed, while
//! it runs, so whoever cares asks again.
//!
//! A limit of a process is the tightest one on the way from its own cgroup up to the root, in the
//! unified hierarchy (version 2) or in the hierarchy of the controller (version 1). Machines may
//! mount both; the controller sits in one of them only, and the other then has no such files.
//!
//! KERNEL: `Documentation/admin-guide/cgroup-v2.rst`,
//! `Documentation/admin-guide/cgroup-v1/cgroups.rst`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::os::text;

use super::cgroup_mounts::{CgroupMount, Version};

/// A cgroup that the process is in, directly or through groups below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) dir: PathBuf,
}

impl Group {
    /// The text of one of the group's files.
    pub(super) fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(file)).ok()
    }
}

/// The groups that the process is in, as far as they are mounted and may have files of
/// `controller`.
///
/// `proc` is where procfs is mounted; the cgroup mounts that it names are looked up below `fs_root`
/// (`/`).
pub(super) fn ancestry(proc: &Path, fs_root: &Path, controller: &str) -> Vec<Group> {
    let cgroups = text::read(proc.join("self/cgroup"));
    let mounts = text::read(proc.join("self/mountinfo"));
    let (Some(cgroups), Some(mounts)) = (cgroups, mounts) else { return Vec::new() };
    let mut groups = Vec::new();
    for mount in mounts.lines().filter_map(|line| CgroupMount::parse(line, controller)) {
        let own = own_cgroup(&cgroups, mount.version, controller);
        let Some(below) = own.and_then(|own| mount.path_below(own)) else { continue };
        let top = under(fs_root, &mount.mount_point);
        let version = mount.version;
        groups.extend(below.ancestors().map(|path| Group { version, dir: top.join(path) }));
    }
    groups
}

/// The process's cgroup in a hierarchy, from the lines `ID:CONTROLLERS:PATH` of
/// `/proc/self/cgroup`.
fn own_cgroup<'a>(cgroups: &'a str, version: Version, controller: &str) -> Option<&'a str> {
    cgroups.lines().find_map(|line| {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match version {
            Version::V1 => controllers.split(',').any(|name| name == controller),
            Version::V2 => id == "0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

/// An absolute path of the running system, looked up below another root.
fn under(fs_root: &Path, absolute: &str) -> PathBuf {
    fs_root.join(absolute.trim_start_matches('/'))
}
