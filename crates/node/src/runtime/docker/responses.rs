//! Responses of the Docker Engine API: the fields that are used. Any field may be missing or `null`; enums are strings, because Podman
//! has more values than Docker.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer};

/// Deserializes `null` as the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Entry of the container list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ContainerSummary {
    pub(super) id: String,
    /// State, such as `running` or `exited`.
    #[serde(deserialize_with = "or_default")]
    pub(super) state: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: HashMap<String, String>,
    /// Image as given at creation.
    #[serde(deserialize_with = "or_default")]
    pub(super) image: String,
    #[serde(rename = "ImageID", deserialize_with = "or_default")]
    pub(super) image_id: String,
}

/// Response of inspecting a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ContainerInspect {
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) created: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) image: String,
    /// Restarts by the engine's restart policy.
    pub(super) restart_count: u32,
    pub(super) state: ContainerStateResponse,
    #[serde(deserialize_with = "or_default")]
    pub(super) config: ContainerConfigResponse,
    #[serde(deserialize_with = "or_default")]
    pub(super) host_config: HostConfigResponse,
    #[serde(deserialize_with = "or_default")]
    pub(super) network_settings: NetworkSettings,
    #[serde(deserialize_with = "or_default")]
    pub(super) graph_driver: GraphDriver,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ContainerStateResponse {
    #[serde(deserialize_with = "or_default")]
    pub(super) status: String,
    pub(super) running: bool,
    #[serde(rename = "OOMKilled")]
    pub(super) oom_killed: bool,
    pub(super) pid: i32,
    pub(super) exit_code: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) error: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) started_at: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) finished_at: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ContainerConfigResponse {
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: HashMap<String, String>,
    pub(super) tty: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) user: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct HostConfigResponse {
    /// By port of the container.
    #[serde(deserialize_with = "or_default")]
    pub(super) port_bindings: HashMap<String, Option<Vec<PortBindingResponse>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct PortBindingResponse {
    #[serde(deserialize_with = "or_default")]
    pub(super) host_port: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VolumeList {
    #[serde(deserialize_with = "or_default")]
    pub(super) volumes: Vec<VolumeResponse>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VolumeResponse {
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: HashMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NetworkSettings {
    #[serde(deserialize_with = "or_default")]
    pub(super) networks: HashMap<String, EndpointSettings>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EndpointSettings {
    #[serde(rename = "IPAddress", deserialize_with = "or_default")]
    pub(super) address: String,
    #[serde(rename = "GlobalIPv6Address", deserialize_with = "or_default")]
    pub(super) address_v6: String,
}

/// Directories of the storage driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct GraphDriver {
    #[serde(deserialize_with = "or_default")]
    pub(super) data: HashMap<String, String>,
}

/// Response of creating a container or an exec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreatedResponse {
    pub(super) id: String,
}

/// Response of inspecting an exec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ExecInspect {
    pub(super) running: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) pid: i32,
}

/// Image: a list entry or an inspect response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ImageResponse {
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) repo_tags: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) repo_digests: Vec<String>,
    pub(super) size: u64,
    #[serde(deserialize_with = "or_default")]
    pub(super) config: ContainerConfigResponse,
}

/// Progress line of pulling or loading an image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProgressMessage {
    pub(super) error_detail: Option<ErrorDetail>,
    pub(super) error: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorDetail {
    /// HTTP status code, in some errors only.
    pub(super) code: u16,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EventMessage {
    pub(super) action: String,
    pub(super) actor: EventActor,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EventActor {
    #[serde(rename = "ID")]
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) attributes: HashMap<String, String>,
}

/// Response of `/version`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VersionResponse {
    pub(super) version: String,
    pub(super) api_version: String,
    #[serde(rename = "MinAPIVersion")]
    pub(super) min_api_version: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) components: Vec<VersionComponent>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VersionComponent {
    pub(super) name: String,
}

/// Response of `/info`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EngineInfo {
    #[serde(deserialize_with = "or_default")]
    pub(super) cgroup_driver: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) docker_root_dir: String,
    /// Name of the OCI runtime that containers have by default.
    #[serde(deserialize_with = "or_default")]
    pub(super) default_runtime: String,
}
