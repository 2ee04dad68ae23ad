//! Stats messages.

use std::collections::BTreeMap;

use prost::Message;

use super::{ContainerMetadata, FilesystemUsage, PodSandboxMetadata, UInt64Value};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatsFilter {
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListContainerStatsRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) filter: Option<ContainerStatsFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListContainerStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) stats: Vec<ContainerStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) writable_layer: Option<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CpuUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) usage_core_nano_seconds: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemoryUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) working_set_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(crate) usage_bytes: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSandboxStatsFilter {
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListPodSandboxStatsRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) filter: Option<PodSandboxStatsFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListPodSandboxStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) stats: Vec<PodSandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSandboxAttributes {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<PodSandboxAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) linux: Option<LinuxPodSandboxStats>,
}

/// Stats of the whole pod.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxPodSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "2")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "3")]
    pub(crate) network: Option<NetworkUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) process: Option<ProcessUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NetworkUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) default_interface: Option<NetworkInterfaceUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NetworkInterfaceUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) rx_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(crate) tx_bytes: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) process_count: Option<UInt64Value>,
}
