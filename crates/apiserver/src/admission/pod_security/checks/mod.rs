//! The Pod Security checks of the levels baseline and restricted, by version.

mod capabilities;
mod confinement;
mod host;
mod privilege;
mod sysctls;
mod user;
mod volumes;

use super::{
    policy::{LevelVersion, PodSecurityLevel, PodSecurityVersion},
    violation::{Pod, Violation},
};

/// Finds what a pod does wrong.
type CheckFn = fn(&Pod<'_>) -> Option<Violation>;

/// A check, and how it changed over the versions.
struct PolicyCheck {
    id: &'static str,
    level: PodSecurityLevel,
    /// The test from each version on.
    editions: &'static [(i64, CheckFn)],
    /// The check of the level below that this one makes needless.
    replaces: &'static str,
}

const fn baseline(id: &'static str, editions: &'static [(i64, CheckFn)]) -> PolicyCheck {
    PolicyCheck {
        id,
        level: PodSecurityLevel::Baseline,
        editions,
        replaces: "",
    }
}

const fn restricted(
    id: &'static str,
    editions: &'static [(i64, CheckFn)],
    replaces: &'static str,
) -> PolicyCheck {
    PolicyCheck {
        id,
        level: PodSecurityLevel::Restricted,
        editions,
        replaces,
    }
}

/// All checks, in the order in which violations are reported.
// upstream: staging/src/k8s.io/pod-security-admission/policy/checks.go DefaultChecks
const CHECKS: [PolicyCheck; 19] = [
    baseline("appArmorProfile", &[(0, confinement::app_armor)]),
    baseline("capabilities_baseline", &[(0, capabilities::added)]),
    baseline("hostNamespaces", &[(0, host::namespaces)]),
    baseline("hostPathVolumes", &[(0, volumes::host_path)]),
    baseline("hostPorts", &[(0, host::ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host::probes)]),
    baseline("privileged", &[(0, privilege::privileged)]),
    baseline(
        "procMount",
        &[
            (0, privilege::proc_mount),
            (35, |pod| unless_own_users(pod, privilege::proc_mount)),
        ],
    ),
    baseline(
        "seLinuxOptions",
        &[(0, confinement::se_linux_0), (31, confinement::se_linux_31)],
    ),
    baseline(
        "seccompProfile_baseline",
        &[
            (0, confinement::seccomp_annotations),
            (19, confinement::seccomp_allowed),
        ],
    ),
    baseline(
        "sysctls",
        &[
            (0, sysctls::from_0),
            (27, sysctls::from_27),
            (29, sysctls::from_29),
            (32, sysctls::from_32),
            (37, sysctls::from_37),
        ],
    ),
    baseline("windowsHostProcess", &[(0, privilege::host_process)]),
    restricted(
        "allowPrivilegeEscalation",
        &[
            (8, privilege::escalation),
            (25, |pod| unless_windows(pod, privilege::escalation)),
        ],
        "",
    ),
    restricted(
        "capabilities_restricted",
        &[
            (22, capabilities::dropped),
            (25, |pod| unless_windows(pod, capabilities::dropped)),
        ],
        "capabilities_baseline",
    ),
    restricted(
        "procMount_restricted",
        &[(35, privilege::proc_mount)],
        "procMount",
    ),
    restricted(
        "restrictedVolumes",
        &[(0, volumes::restricted)],
        "hostPathVolumes",
    ),
    restricted(
        "runAsNonRoot",
        &[
            (0, user::non_root),
            (35, |pod| unless_own_users(pod, user::non_root)),
        ],
        "",
    ),
    restricted(
        "runAsUser",
        &[
            (23, user::not_zero),
            (35, |pod| unless_own_users(pod, user::not_zero)),
        ],
        "",
    ),
    restricted(
        "seccompProfile_restricted",
        &[
            (19, confinement::seccomp_set),
            (25, |pod| unless_windows(pod, confinement::seccomp_set)),
        ],
        "seccompProfile_baseline",
    ),
];

/// Everything a pod does wrong by a standard.
pub(super) fn violations(standard: LevelVersion, pod: &Pod<'_>) -> Vec<Violation> {
    if standard.level == PodSecurityLevel::Privileged {
        return Vec::new();
    }
    let minor = match standard.version {
        PodSecurityVersion::Minor(minor) => minor,
        PodSecurityVersion::Latest => i64::MAX,
    };
    let asked = || CHECKS.iter().filter(|check| check.level <= standard.level);
    let is_replaced = |id: &str| asked().any(|check| check.replaces == id && check.edition(minor).is_some());
    asked()
        .filter(|check| !is_replaced(check.id))
        .filter_map(|check| check.edition(minor)?(pod))
        .collect()
}

// --- PolicyCheck ---

impl PolicyCheck {
    /// The check function for a version; `None` before the version that introduced it.
    fn edition(&self, minor: i64) -> Option<CheckFn> {
        let mut editions = self.editions.iter().rev();
        editions.find(|(from, _)| *from <= minor).map(|(_, test)| *test)
    }
}

/// What Windows does not have needs no check there.
fn unless_windows(pod: &Pod<'_>, test: CheckFn) -> Option<Violation> {
    if pod.is_windows() { None } else { test(pod) }
}

/// With user namespaces, root in the pod is unprivileged on the host.
// upstream: staging/src/k8s.io/pod-security-admission/policy/helpers.go relaxPolicyForUserNamespacePod
fn unless_own_users(pod: &Pod<'_>, test: CheckFn) -> Option<Violation> {
    if pod.has_own_users() { None } else { test(pod) }
}
