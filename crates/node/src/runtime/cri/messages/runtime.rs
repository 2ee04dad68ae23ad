//! Version, status and configuration messages.

use std::collections::BTreeMap;

use prost::{Enumeration, Message};

use super::{ContainerStatus, PodSandboxStatus};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionRequest {
    /// The kubelet's API version; runtimes ignore it.
    #[prost(string, tag = "1")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(crate) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(crate) runtime_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub(crate) verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RuntimeStatus>,
    /// JSON documents in runtime-specific formats.
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub(crate) conditions: Vec<RuntimeCondition>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeCondition {
    /// `RuntimeReady` or `NetworkReady`.
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(bool, tag = "2")]
    pub(crate) status: bool,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
    #[prost(string, tag = "4")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) linux: Option<LinuxRuntimeConfiguration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxRuntimeConfiguration {
    #[prost(enumeration = "CgroupDriver", tag = "1")]
    pub(crate) cgroup_driver: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum CgroupDriver {
    Systemd = 0,
    Cgroupfs = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerEventResponse {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) pod_sandbox_status: Option<PodSandboxStatus>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) containers_statuses: Vec<ContainerStatus>,
}
