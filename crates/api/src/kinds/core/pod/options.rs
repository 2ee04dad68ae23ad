//! Which rules are relaxed for an update: what an old object has that today's rules refuse, it may keep.

use serde_json::Value;

use super::{
    affinity, annotations,
    defaults::CONTAINERS,
    resources::{self, Pages},
    security, spread,
};
use crate::rules::Tree;

/// The rules that are relaxed. By default, none.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(crate) struct Options {
    /// A pod is judged, not a template of one.
    pub(super) is_pod: bool,
    /// The cost of a deletion need be no number.
    pub(super) any_deletion_cost: bool,
    /// Amounts of huge pages need not be whole pages.
    pub(super) pages: Pages,
    /// Selectors of pods may have values no label can have.
    pub(super) any_pod_values: bool,
    /// Selectors of nodes may have values no label can have.
    pub(super) any_node_values: bool,
    /// Selectors of pods to spread among need not be valid.
    pub(super) any_spread_selector: bool,
    /// Label keys of spread constraints are judged as they were once.
    pub(super) old_spread_keys: bool,
    /// Kernel settings may be those of a namespace shared with the host.
    pub(super) host_sysctls: bool,
    /// Init containers that are no sidecars may restart when resized.
    pub(super) init_restarts: bool,
    /// Pods with users of their own may use block devices.
    pub(super) user_devices: bool,
    /// Pods with users of their own may use the host's network.
    pub(super) user_network: bool,
    /// Tolerations may compare numbers.
    pub(super) comparing_tolerations: bool,
    /// Containers without privilege escalation may administer the system.
    pub(super) sys_admin: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            is_pod: false,
            any_deletion_cost: false,
            pages: Pages::Whole,
            any_pod_values: false,
            any_node_values: false,
            any_spread_selector: false,
            old_spread_keys: false,
            host_sysctls: false,
            init_restarts: false,
            user_devices: false,
            user_network: false,
            comparing_tolerations: false,
            sys_admin: false,
        }
    }
}

/// All containers of a spec, whatever they are for.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINERS.iter().flat_map(|list| spec.items(list))
}

/// Whether an init container runs along with those that follow it.
pub(super) fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

// --- Options ---

impl Options {
    /// The rules for a pod that changes.
    pub(super) fn pod_update(old: &Value) -> Self {
        Options {
            is_pod: true,
            ..Self::of(old.at("spec"), old.at("metadata"))
        }
    }

    /// The rules for a new pod.
    pub(super) fn pod() -> Self {
        Options {
            is_pod: true,
            ..Self::default()
        }
    }

    /// The rules for a template that changes; all of them if there is no old one.
    pub(crate) fn template_update(old: &Value) -> Self {
        if old.is_null() {
            return Self::default();
        }
        Self::of(old.at("spec"), old.at("metadata"))
    }

    fn of(spec: &Value, metadata: &Value) -> Self {
        let own_users = spec.at("hostUsers").as_bool() == Some(false);
        let constraints = spec.items("topologySpreadConstraints");
        Options {
            is_pod: false,
            any_deletion_cost: !annotations::has_valid_deletion_cost(metadata),
            pages: if has_partial_pages(spec) {
                Pages::Any
            } else {
                Pages::Whole
            },
            any_pod_values: affinity::has_invalid_pod_values(spec.at("affinity")),
            any_node_values: affinity::has_invalid_node_values(spec.at("affinity")),
            any_spread_selector: spread::has_invalid_selector(constraints),
            old_spread_keys: spread::has_invalid_keys(constraints),
            host_sysctls: security::has_host_sysctls(spec),
            init_restarts: spec.items("initContainers").iter().any(|container| {
                !is_sidecar(container)
                    && container
                        .items("resizePolicy")
                        .iter()
                        .any(|policy| policy.text("restartPolicy") == "RestartContainer")
            }),
            user_devices: own_users && containers(spec).any(|c| !c.items("volumeDevices").is_empty()),
            user_network: own_users && spec.flag("hostNetwork"),
            comparing_tolerations: spec
                .items("tolerations")
                .iter()
                .any(|toleration| matches!(toleration.text("operator"), "Lt" | "Gt")),
            sys_admin: containers(spec).any(|c| {
                let context = c.at("securityContext");
                !context.flag("allowPrivilegeEscalation")
                    && context
                        .at("capabilities")
                        .texts("add")
                        .any(|name| name == "CAP_SYS_ADMIN")
            }),
        }
    }
}

/// Whether something asks for pages that are not whole.
fn has_partial_pages(spec: &Value) -> bool {
    let partial = |list: &serde_json::Map<String, Value>| {
        list.iter().any(|(name, value)| {
            resources::is_hugepages(name)
                && !resources::page_divides(name, &resources::quantity_or_zero(value))
        })
    };
    let asks = |holder: &Value| {
        let requirements = holder.at("resources");
        partial(requirements.entries("limits")) || partial(requirements.entries("requests"))
    };
    containers(spec).any(asks) || partial(spec.entries("overhead"))
}
