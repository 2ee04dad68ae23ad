//! Requests that create or update containers: the fields that are used.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// Body of creating a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateContainerRequest {
    pub(super) image: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) entrypoint: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cmd: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) working_dir: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) hostname: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) stop_signal: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) tty: bool,
    pub(super) open_stdin: bool,
    pub(super) stdin_once: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty", serialize_with = "as_keys")]
    pub(super) exposed_ports: BTreeSet<String>,
    pub(super) healthcheck: Healthcheck,
    pub(super) host_config: HostConfig,
}

/// Serializes ports as keys of an object with empty values.
fn as_keys<S: Serializer>(names: &BTreeSet<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(names.iter().map(|name| (name, json!({}))))
}

/// Disables health checks of images: probes replace them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Healthcheck {
    test: [&'static str; 1],
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HostConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) network_mode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) ipc_mode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) pid_mode: String,
    #[serde(rename = "UTSMode", skip_serializing_if = "String::is_empty")]
    pub(super) uts_mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cgroup_parent: Option<String>,
    pub(super) log_config: LogConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restart_policy: Option<RestartPolicy>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) port_bindings: BTreeMap<String, Vec<PortBinding>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dns: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dns_search: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dns_options: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) extra_hosts: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) sysctls: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) mounts: Vec<Mount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) devices: Vec<DeviceMapping>,
    pub(super) privileged: bool,
    pub(super) readonly_rootfs: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cap_add: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cap_drop: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) security_opt: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) group_add: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) masked_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) readonly_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oom_score_adj: Option<i64>,
    #[serde(flatten)]
    pub(super) limits: ResourceLimits,
}

/// Resource limits, which can be updated while the container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ResourceLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_shares: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_quota: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_period: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_swap: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pids_limit: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct LogConfig {
    #[serde(rename = "Type")]
    pub(super) driver: &'static str,
    pub(super) config: BTreeMap<&'static str, &'static str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct RestartPolicy {
    pub(super) name: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PortBinding {
    pub(super) host_ip: String,
    pub(super) host_port: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Mount {
    #[serde(rename = "Type")]
    pub(super) kind: &'static str,
    pub(super) source: String,
    pub(super) target: String,
    pub(super) read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bind_options: Option<BindOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image_options: Option<ImageOptions>,
}

/// Options of a bind mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BindOptions {
    pub(super) propagation: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) read_only_non_recursive: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) read_only_force_recursive: bool,
}

/// Options of an image mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ImageOptions {
    pub(super) subpath: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DeviceMapping {
    pub(super) path_on_host: String,
    pub(super) path_in_container: String,
    pub(super) cgroup_permissions: String,
}

// --- Limits ---

impl ResourceLimits {
    /// Returns the limits in the format of OCI runtimes, which Podman's own API uses.
    pub(super) fn as_oci(&self) -> Value {
        json!({
            "cpu": { "shares": self.cpu_shares, "quota": self.cpu_quota, "period": self.cpu_period },
            // Set both: the limit must not exceed the limit with swap.
            "memory": { "limit": self.memory, "swap": self.memory_swap },
            "pids": self.pids_limit.map(|limit| json!({ "limit": limit })),
        })
    }
}

// --- Healthcheck ---

impl Default for Healthcheck {
    fn default() -> Self {
        Self { test: ["NONE"] }
    }
}
