//! What encloses the process, as far as it explains refusals.
//!
//! *Does not* decide anything by it: the library tries, and only the explanation of a refusal
//! depends on this.

use std::fs;
use std::path::Path;

use cmwq::shared::var;

use crate::inspect::text;

/// What encloses the process: what a refusal is explained with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confinement {
    /// The effective user.
    pub user: u32,
    /// The kind of container, by the traces that such containers leave; `None` if there are no
    /// traces.
    pub container: Option<String>,
    /// Whether system calls are filtered (seccomp); `None` if that cannot be told.
    pub is_filtered: Option<bool>,
    /// Those of the capabilities that matter here which the process has; `None` if that cannot be
    /// told.
    pub capabilities: Option<Vec<&'static str>>,
}

/// The capabilities that matter here, and their numbers.
const CAPABILITIES: [(&str, u32); 5] = [
    ("CAP_IPC_LOCK", 14),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_NICE", 23),
    ("CAP_SYS_RESOURCE", 24),
    ("CAP_PERFMON", 38),
];

impl Confinement {
    pub(super) fn read() -> Self {
        let status = text("/proc/self/status");
        // SAFETY: takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        let container = container(Path::new("/"), var);
        Self { user, container, ..Self::of_status(&status) }
    }

    /// What `/proc/self/status` says.
    pub(super) fn of_status(status: &str) -> Self {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let effective = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let names = |mask: u64| {
            let held = CAPABILITIES.iter().filter(|(_, number)| mask >> number & 1 != 0);
            held.map(|(name, _)| *name).collect()
        };
        Self {
            is_filtered: field("Seccomp:").map(|mode| mode != "0"),
            capabilities: effective.map(names),
            ..Self::default()
        }
    }

    /// Whether the process surely has the capability.
    pub(super) fn has(&self, capability: &str) -> bool {
        self.capabilities.as_ref().is_some_and(|held| held.contains(&capability))
    }

    /// Who forbids a system call, in words.
    pub(super) fn who_forbids(&self) -> &'static str {
        match self.is_filtered {
            Some(true) => "a system call filter (seccomp)",
            Some(false) => "a security module",
            None => "a system call filter or security module",
        }
    }

    /// What to do so that `call` is permitted.
    pub(super) fn how_to_permit(&self, call: &str) -> String {
        match (self.container.as_deref(), self.is_filtered) {
            (_, Some(false)) => {
                format!("permit {call} in the policy of the security module (SELinux, AppArmor)")
            }
            (Some("docker" | "podman"), _) => format!(
                "start the container with --security-opt seccomp=FILE, a profile that allows {call}"
            ),
            (Some("kubernetes"), _) => {
                format!("give the container a seccompProfile of type Localhost that allows {call}")
            }
            (Some(_), _) => format!("use a seccomp profile for the container that allows {call}"),
            (None, _) => {
                format!("permit {call} where the filter is set (systemd: SystemCallFilter=)")
            }
        }
    }

    /// How to get a capability, as an alternative to something else.
    pub(super) fn how_to_grant(&self, capability: &str) -> String {
        let short = capability.trim_start_matches("CAP_");
        match self.container.as_deref() {
            Some("docker" | "podman") => {
                format!("grant {capability} to the container (--cap-add {short})")
            }
            Some("kubernetes") => {
                format!("add {short} to the container's securityContext.capabilities")
            }
            _ => format!("grant {capability}"),
        }
    }
}

/// The traces that containers leave below `root` and in the environment.
pub(super) fn container(root: &Path, var: impl Fn(&str) -> Option<String>) -> Option<String> {
    let file = |path| fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned());
    // Pods run on other engines, whose traces would name the wrong place to turn to.
    if var("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_owned());
    }
    if root.join("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    if root.join(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    let name = file("run/systemd/container").or_else(|| var("container"));
    name.filter(|name| !name.is_empty())
}
