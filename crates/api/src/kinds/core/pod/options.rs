//! Validation options: invalid values that an old object already has are tolerated on update.
// upstream: pkg/apis/core/validation/validation.go PodValidationOptions

use serde_json::Value;

use super::{
    affinity, annotations,
    defaults::CONTAINERS,
    resources::{self, HugePages},
    security, spread,
};
use crate::strategy::Tree;

/// Relaxed rules. By default none is relaxed.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(crate) struct PodValidationOptions {
    /// Validates a pod, not a template.
    pub(super) is_pod: bool,
    /// The deletion cost may be no number.
    pub(super) allow_invalid_deletion_cost: bool,
    /// Quantities of huge pages may be indivisible by the page size.
    pub(super) pages: HugePages,
    /// Pod selectors may have invalid label values.
    pub(super) allow_invalid_pod_selector_values: bool,
    /// Node selectors may have invalid label values.
    pub(super) allow_invalid_node_selector_values: bool,
    /// Selectors of topology spread constraints may be invalid.
    pub(super) allow_invalid_spread_selector: bool,
    /// matchLabelKeys of topology spread constraints follow the legacy rules.
    pub(super) legacy_spread_keys: bool,
    /// Sysctls may be those of a namespace shared with the host.
    pub(super) allow_host_sysctls: bool,
    /// Init containers that are no sidecars may have a restart resize policy.
    pub(super) allow_init_restart_resize_policy: bool,
    /// Pods with user namespaces may use block devices.
    pub(super) allow_user_namespace_devices: bool,
    /// Pods with user namespaces may use the host network.
    pub(super) allow_user_namespace_host_network: bool,
    /// Tolerations may compare numbers.
    pub(super) allow_comparison_operators: bool,
    /// Containers without privilege escalation may have CAP_SYS_ADMIN.
    pub(super) allow_sys_admin: bool,
}

impl Default for PodValidationOptions {
    fn default() -> Self {
        PodValidationOptions {
            is_pod: false,
            allow_invalid_deletion_cost: false,
            pages: HugePages::Whole,
            allow_invalid_pod_selector_values: false,
            allow_invalid_node_selector_values: false,
            allow_invalid_spread_selector: false,
            legacy_spread_keys: false,
            allow_host_sysctls: false,
            allow_init_restart_resize_policy: false,
            allow_user_namespace_devices: false,
            allow_user_namespace_host_network: false,
            allow_comparison_operators: false,
            allow_sys_admin: false,
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

impl PodValidationOptions {
    /// Options for the update of a pod.
    // upstream: pkg/api/pod/util.go GetValidationOptionsFromPodSpecAndMeta
    pub(super) fn for_pod_update(old: &Value) -> Self {
        PodValidationOptions {
            is_pod: true,
            ..Self::from_spec_and_meta(old.at("spec"), old.at("metadata"))
        }
    }

    /// Options for a new pod.
    pub(super) fn for_new_pod() -> Self {
        PodValidationOptions {
            is_pod: true,
            ..Self::default()
        }
    }

    /// Options for the update of a template; the defaults if there is no old one.
    // upstream: pkg/api/pod/util.go GetValidationOptionsFromPodTemplate
    pub(crate) fn for_template_update(old: &Value) -> Self {
        if old.is_null() {
            return Self::default();
        }
        Self::from_spec_and_meta(old.at("spec"), old.at("metadata"))
    }

    // upstream: pkg/api/pod/util.go GetValidationOptionsFromPodSpecAndMeta
    fn from_spec_and_meta(spec: &Value, metadata: &Value) -> Self {
        let own_users = spec.at("hostUsers").as_bool() == Some(false);
        let constraints = spec.items("topologySpreadConstraints");
        PodValidationOptions {
            is_pod: false,
            allow_invalid_deletion_cost: !annotations::has_valid_deletion_cost(metadata),
            pages: if uses_indivisible_huge_pages(spec) {
                HugePages::Any
            } else {
                HugePages::Whole
            },
            allow_invalid_pod_selector_values: affinity::has_invalid_pod_values(spec.at("affinity")),
            allow_invalid_node_selector_values: affinity::has_invalid_node_values(spec.at("affinity")),
            allow_invalid_spread_selector: spread::has_invalid_selector(constraints),
            legacy_spread_keys: spread::has_invalid_keys(constraints),
            allow_host_sysctls: security::has_host_sysctls(spec),
            allow_init_restart_resize_policy: spec.items("initContainers").iter().any(|container| {
                !is_sidecar(container)
                    && container
                        .items("resizePolicy")
                        .iter()
                        .any(|policy| policy.text("restartPolicy") == "RestartContainer")
            }),
            allow_user_namespace_devices: own_users
                && containers(spec).any(|c| !c.items("volumeDevices").is_empty()),
            allow_user_namespace_host_network: own_users && spec.flag("hostNetwork"),
            allow_comparison_operators: spec
                .items("tolerations")
                .iter()
                .any(|toleration| matches!(toleration.text("operator"), "Lt" | "Gt")),
            allow_sys_admin: containers(spec).any(|c| {
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
fn uses_indivisible_huge_pages(spec: &Value) -> bool {
    let partial = |list: &serde_json::Map<String, Value>| {
        list.iter().any(|(name, value)| {
            resources::is_hugepages(name)
                && !resources::is_huge_page_value_divisible(name, &resources::quantity_or_zero(value))
        })
    };
    let is_indivisible = |holder: &Value| {
        let requirements = holder.at("resources");
        partial(requirements.entries("limits")) || partial(requirements.entries("requests"))
    };
    containers(spec).any(is_indivisible) || partial(spec.entries("overhead"))
}
