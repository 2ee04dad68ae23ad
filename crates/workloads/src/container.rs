//! Containers of pods, and their statuses.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::{ResourceList, Shared, internable, status_values};

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// The name.
    pub name: Box<str>,
    /// The image.
    pub image: Box<str>,
    /// Its ports.
    pub ports: Box<[ContainerPort]>,
    /// What it requests.
    pub resources: ResourceRequirements,
    /// For an init container: whether it runs as long as the pod does (`restartPolicy: Always`).
    // upstream: pkg/api/v1/pod/util.go IsRestartableInitContainer
    #[serde(rename = "restartPolicy", deserialize_with = "is_always")]
    pub is_sidecar: bool,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// The name; may be empty.
    pub name: Box<str>,
    /// The number.
    pub container_port: u16,
    /// The number on the node; zero if there is none.
    pub host_port: u16,
    /// The address of the node; empty for all.
    #[serde(rename = "hostIP")]
    pub host_ip: Box<str>,
    /// The protocol.
    pub protocol: Box<str>,
}

/// What a container or a pod requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// The requests.
    pub requests: Option<Shared<ResourceList>>,
}

/// Container status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The name.
    pub name: Box<str>,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    #[serde(deserialize_with = "status_values::restart_count")]
    pub restart_count: u32,
    /// Its state.
    pub state: ContainerState,
    /// How its previous run ended.
    #[serde(rename = "lastState", deserialize_with = "last_termination")]
    pub last_termination: Option<Box<ContainerStateTerminated>>,
    /// What the node has allocated to it.
    #[serde(deserialize_with = "status_values::optional_resource_list")]
    pub allocated_resources: Option<Shared<ResourceList>>,
    /// What it runs with.
    #[serde(deserialize_with = "status_values::requirements")]
    pub resources: Option<ResourceRequirements>,
}

/// Container state; waiting if neither is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It has ended.
    pub terminated: Option<ContainerStateTerminated>,
    /// It runs.
    pub running: Option<ContainerStateRunning>,
}

/// A container that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateRunning {
    /// Since when.
    #[serde(deserialize_with = "status_values::time")]
    pub started_at: Option<Timestamp>,
}

/// A container that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateTerminated {
    /// Its exit code.
    pub exit_code: i32,
    /// The reason.
    pub reason: Box<str>,
    /// When it started.
    #[serde(deserialize_with = "status_values::time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(deserialize_with = "status_values::time")]
    pub finished_at: Option<Timestamp>,
}

// Times have a resolution of seconds: pods created together share these lists too.
internable!(Container, ContainerStatus);

fn is_always<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let policy = Option::<Box<str>>::deserialize(from)?;
    Ok(policy.as_deref() == Some("Always"))
}

fn last_termination<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<ContainerStateTerminated>>, D::Error> {
    let state = Option::<ContainerState>::deserialize(from)?;
    Ok(state.and_then(|state| state.terminated).map(Box::new))
}
