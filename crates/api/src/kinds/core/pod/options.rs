//! Validation options: invalid values that an old object already has are tolerated on update.
// upstream: pkg/apis/core/validation/validation.go PodValidationOptions

use serde_json::Value;

use super::{
    affinity, annotations,
    defaults::CONTAINERS,
    resources::{self, Pages},
    security, spread,
};
use crate::rules::Tree;

/// Relaxed rules. By default none is relaxed.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(crate) struct Options {
    /// Validates a pod, not a template.
    pub(super) is_pod: bool,
    /// The deletion cost may be no number.
    pub(super) any_deletion_cost: bool,
    /// Quantities of huge pages may be indivisible by the page size.
    pub(super) pages: Pages,
    /// Pod selectors may have invalid label values.
    pub(super) any_pod_values: bool,
    /// Node selectors may have invalid label values.
    pub(super) any_node_values: bool,
    /// Selectors of topology spread constraints may be invalid.
    pub(super) any_spread_selector: bool,
    /// matchLabelKeys of topology spread constraints follow the legacy rules.
    pub(super) old_spread_keys: bool,
    /// Sysctls may be those of a namespace shared with the host.
    pub(super) host_sysctls: bool,
    /// Init containers that are no sidecars may have a restart resize policy.
    pub(super) init_restarts: bool,
    /// Pods with user namespaces may use block devices.
    pub(super) user_devices: bool,
    /// Pods with user namespaces may use the host network.
    pub(super) user_network: bool,
    /// Tolerations may compare numbers.
    pub(super) comparing_tolerations: bool,
    /// Containers without privilege escalation may have CAP_SYS_ADMIN.
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

/// All containers of a spec.
// upstream: pkg/api/pod/util.go ContainerIter
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINERS.iter().flat_map(|list| spec.items(list))
}

/// Whether an init container is restartable.
// upstream: pkg/api/pod/util.go IsRestartableInitContainer
pub(super) fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

// --- Options ---

impl Options {
    /// Options for the update of a pod.
    // upstream: pkg/api/pod/util.go GetValidationOptionsFromPodSpecAndMeta
    pub(super) fn pod_update(old: &Value) -> Self {
        Options {
            is_pod: true,
            ..Self::of(old.at("spec"), old.at("metadata"))
        }
    }

    /// Options for a new pod.
    pub(super) fn pod() -> Self {
        Options {
            is_pod: true,
            ..Self::default()
        }
    }

    /// Options for the update of a template; the defaults if there is no old one.
    // upstream: pkg/api/pod/util.go GetValidationOptionsFromPodTemplate
    pub(crate) fn template_update(old: &Value) -> Self {
        if old.is_null() {
            return Self::default();
        }
        Self::of(old.at("spec"), old.at("metadata"))
    }

    // upstream: pkg/api/pod/util.go GetValidationOptionsFromPodSpecAndMeta
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

/// Whether a quantity of huge pages is indivisible by the page size.
// upstream: pkg/api/pod/util.go usesIndivisibleHugePagesValues
fn has_partial_pages(spec: &Value) -> bool {
    let partial = |list: &serde_json::Map<String, Value>| {
        list.iter().any(|(name, value)| {
            resources::is_hugepages(name)
                && !resources::is_huge_page_value_divisible(name, &resources::quantity_or_zero(value))
        })
    };
    let asks = |holder: &Value| {
        let requirements = holder.at("resources");
        partial(requirements.entries("limits")) || partial(requirements.entries("requests"))
    };
    containers(spec).any(asks) || partial(spec.entries("overhead"))
}
