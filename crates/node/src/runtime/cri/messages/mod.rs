//! Messages of CRI v1: the fields that the agent uses; protobuf skips unknown ones. Names and numbers are those of `runtime.v1`
//! (`staging/src/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`).

mod container;
mod image;
mod runtime;
mod sandbox;
mod stats;

use prost::{Enumeration, Message};

pub(crate) use self::{container::*, image::*, runtime::*, sandbox::*, stats::*};

/// gRPC method paths.
pub(crate) mod method {
    pub(crate) const VERSION: &str = "/runtime.v1.RuntimeService/Version";
    pub(crate) const STATUS: &str = "/runtime.v1.RuntimeService/Status";
    pub(crate) const RUNTIME_CONFIG: &str = "/runtime.v1.RuntimeService/RuntimeConfig";
    pub(crate) const GET_CONTAINER_EVENTS: &str = "/runtime.v1.RuntimeService/GetContainerEvents";
    pub(crate) const RUN_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/RunPodSandbox";
    pub(crate) const STOP_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/StopPodSandbox";
    pub(crate) const REMOVE_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/RemovePodSandbox";
    pub(crate) const POD_SANDBOX_STATUS: &str = "/runtime.v1.RuntimeService/PodSandboxStatus";
    pub(crate) const LIST_POD_SANDBOX: &str = "/runtime.v1.RuntimeService/ListPodSandbox";
    pub(crate) const CREATE_CONTAINER: &str = "/runtime.v1.RuntimeService/CreateContainer";
    pub(crate) const START_CONTAINER: &str = "/runtime.v1.RuntimeService/StartContainer";
    pub(crate) const STOP_CONTAINER: &str = "/runtime.v1.RuntimeService/StopContainer";
    pub(crate) const REMOVE_CONTAINER: &str = "/runtime.v1.RuntimeService/RemoveContainer";
    pub(crate) const LIST_CONTAINERS: &str = "/runtime.v1.RuntimeService/ListContainers";
    pub(crate) const CONTAINER_STATUS: &str = "/runtime.v1.RuntimeService/ContainerStatus";
    pub(crate) const UPDATE_CONTAINER_RESOURCES: &str = "/runtime.v1.RuntimeService/UpdateContainerResources";
    pub(crate) const REOPEN_CONTAINER_LOG: &str = "/runtime.v1.RuntimeService/ReopenContainerLog";
    pub(crate) const EXEC_SYNC: &str = "/runtime.v1.RuntimeService/ExecSync";
    pub(crate) const EXEC: &str = "/runtime.v1.RuntimeService/Exec";
    pub(crate) const ATTACH: &str = "/runtime.v1.RuntimeService/Attach";
    pub(crate) const LIST_CONTAINER_STATS: &str = "/runtime.v1.RuntimeService/ListContainerStats";
    pub(crate) const LIST_POD_SANDBOX_STATS: &str = "/runtime.v1.RuntimeService/ListPodSandboxStats";
    pub(crate) const LIST_IMAGES: &str = "/runtime.v1.ImageService/ListImages";
    pub(crate) const IMAGE_STATUS: &str = "/runtime.v1.ImageService/ImageStatus";
    pub(crate) const PULL_IMAGE: &str = "/runtime.v1.ImageService/PullImage";
    pub(crate) const REMOVE_IMAGE: &str = "/runtime.v1.ImageService/RemoveImage";
    pub(crate) const IMAGE_FS_INFO: &str = "/runtime.v1.ImageService/ImageFsInfo";
}

/// A request or response without used fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Empty {}

/// Optional integer.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Int64Value {
    #[prost(int64, tag = "1")]
    pub(crate) value: i64,
}

/// Optional unsigned integer.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum NamespaceMode {
    Pod = 0,
    Container = 1,
    Node = 2,
    Target = 3,
}

/// Without user namespace options: the default is the host's user namespace.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamespaceOption {
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub(crate) network: i32,
    #[prost(enumeration = "NamespaceMode", tag = "2")]
    pub(crate) pid: i32,
    #[prost(enumeration = "NamespaceMode", tag = "3")]
    pub(crate) ipc: i32,
    /// Container of [`NamespaceMode::Target`].
    #[prost(string, tag = "4")]
    pub(crate) target_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum SupplementalGroupsPolicy {
    Merge = 0,
    Strict = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum ProfileType {
    RuntimeDefault = 0,
    Unconfined = 1,
    Localhost = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SecurityProfile {
    #[prost(enumeration = "ProfileType", tag = "1")]
    pub(crate) profile_type: i32,
    #[prost(string, tag = "2")]
    pub(crate) localhost_ref: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SeLinuxOption {
    #[prost(string, tag = "1")]
    pub(crate) user: String,
    #[prost(string, tag = "2")]
    pub(crate) role: String,
    #[prost(string, tag = "3")]
    pub(crate) r#type: String,
    #[prost(string, tag = "4")]
    pub(crate) level: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxContainerResources {
    #[prost(int64, tag = "1")]
    pub(crate) cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub(crate) cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub(crate) cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub(crate) memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub(crate) oom_score_adj: i64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) hugepage_limits: Vec<HugepageLimit>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) unified: std::collections::BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HugepageLimit {
    #[prost(string, tag = "1")]
    pub(crate) page_size: String,
    #[prost(uint64, tag = "2")]
    pub(crate) limit: u64,
}
