//! Container and exec messages.

use std::collections::BTreeMap;

use prost::{Enumeration, Message};

use super::{
    ImageSpec, Int64Value, LinuxContainerResources, NamespaceOption, PodSandboxConfig, SeLinuxOption,
    SecurityProfile, SupplementalGroupsPolicy,
};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint32, tag = "2")]
    pub(crate) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum MountPropagation {
    Private = 0,
    HostToContainer = 1,
    Bidirectional = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mount {
    #[prost(string, tag = "1")]
    pub(crate) container_path: String,
    #[prost(string, tag = "2")]
    pub(crate) host_path: String,
    #[prost(bool, tag = "3")]
    pub(crate) readonly: bool,
    #[prost(bool, tag = "4")]
    pub(crate) selinux_relabel: bool,
    #[prost(enumeration = "MountPropagation", tag = "5")]
    pub(crate) propagation: i32,
    #[prost(bool, tag = "8")]
    pub(crate) recursive_read_only: bool,
    #[prost(message, optional, tag = "9")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "10")]
    pub(crate) image_sub_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Device {
    #[prost(string, tag = "1")]
    pub(crate) container_path: String,
    #[prost(string, tag = "2")]
    pub(crate) host_path: String,
    #[prost(string, tag = "3")]
    pub(crate) permissions: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) args: Vec<String>,
    #[prost(string, tag = "5")]
    pub(crate) working_dir: String,
    #[prost(message, repeated, tag = "6")]
    pub(crate) envs: Vec<KeyValue>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) mounts: Vec<Mount>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) devices: Vec<Device>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "10")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// Relative to the sandbox's `log_directory`.
    #[prost(string, tag = "11")]
    pub(crate) log_path: String,
    #[prost(bool, tag = "12")]
    pub(crate) stdin: bool,
    #[prost(bool, tag = "13")]
    pub(crate) stdin_once: bool,
    #[prost(bool, tag = "14")]
    pub(crate) tty: bool,
    #[prost(message, optional, tag = "15")]
    pub(crate) linux: Option<LinuxContainerConfig>,
    /// CRI signal number, see [`super::super::signal`].
    #[prost(int32, tag = "18")]
    pub(crate) stop_signal: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) resources: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<LinuxContainerSecurityContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Capability {
    #[prost(string, repeated, tag = "1")]
    pub(crate) add_capabilities: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) drop_capabilities: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxContainerSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(crate) capabilities: Option<Capability>,
    #[prost(bool, tag = "2")]
    pub(crate) privileged: bool,
    #[prost(message, optional, tag = "3")]
    pub(crate) namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "4")]
    pub(crate) selinux_options: Option<SeLinuxOption>,
    #[prost(message, optional, tag = "5")]
    pub(crate) run_as_user: Option<Int64Value>,
    #[prost(message, optional, tag = "12")]
    pub(crate) run_as_group: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(crate) run_as_username: String,
    #[prost(bool, tag = "7")]
    pub(crate) readonly_rootfs: bool,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) supplemental_groups: Vec<i64>,
    #[prost(enumeration = "SupplementalGroupsPolicy", tag = "17")]
    pub(crate) supplemental_groups_policy: i32,
    #[prost(bool, tag = "11")]
    pub(crate) no_new_privs: bool,
    #[prost(string, repeated, tag = "13")]
    pub(crate) masked_paths: Vec<String>,
    #[prost(string, repeated, tag = "14")]
    pub(crate) readonly_paths: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(crate) seccomp: Option<SecurityProfile>,
    #[prost(message, optional, tag = "16")]
    pub(crate) apparmor: Option<SecurityProfile>,
    /// Profile as a string, for runtimes older than field 16.
    #[prost(string, tag = "9")]
    pub(crate) apparmor_profile: String,
    /// Profile as a string, for runtimes older than field 15.
    #[prost(string, tag = "10")]
    pub(crate) seccomp_profile_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(crate) sandbox_config: Option<PodSandboxConfig>,
}

/// A request or response with a container ID.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerIdMessage {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    /// In seconds.
    #[prost(int64, tag = "2")]
    pub(crate) timeout: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum ContainerState {
    Created = 0,
    Running = 1,
    Exited = 2,
    Unknown = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerFilter {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "3")]
    pub(crate) pod_sandbox_id: String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(crate) label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) filter: Option<ContainerFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<Container>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub(crate) image_ref: String,
    #[prost(enumeration = "ContainerState", tag = "6")]
    pub(crate) state: i32,
    /// In nanoseconds.
    #[prost(int64, tag = "7")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "10")]
    pub(crate) image_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatusRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(bool, tag = "2")]
    pub(crate) verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<ContainerStatus>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(enumeration = "ContainerState", tag = "3")]
    pub(crate) state: i32,
    /// Times are nanoseconds; 0 if unset.
    #[prost(int64, tag = "5")]
    pub(crate) started_at: i64,
    #[prost(int64, tag = "6")]
    pub(crate) finished_at: i64,
    #[prost(int32, tag = "7")]
    pub(crate) exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub(crate) image_ref: String,
    #[prost(string, tag = "10")]
    pub(crate) reason: String,
    #[prost(string, tag = "11")]
    pub(crate) message: String,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Absolute path.
    #[prost(string, tag = "15")]
    pub(crate) log_path: String,
    #[prost(string, tag = "17")]
    pub(crate) image_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UpdateContainerResourcesRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) linux: Option<LinuxContainerResources>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) cmd: Vec<String>,
    /// In seconds; 0 is no timeout.
    #[prost(int64, tag = "3")]
    pub(crate) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExecSyncResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) stderr: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(crate) exit_code: i32,
}

#[expect(clippy::struct_excessive_bools, reason = "the protocol has them")]
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExecRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) cmd: Vec<String>,
    #[prost(bool, tag = "3")]
    pub(crate) tty: bool,
    #[prost(bool, tag = "4")]
    pub(crate) stdin: bool,
    #[prost(bool, tag = "5")]
    pub(crate) stdout: bool,
    #[prost(bool, tag = "6")]
    pub(crate) stderr: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "the protocol has them")]
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttachRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(bool, tag = "2")]
    pub(crate) stdin: bool,
    #[prost(bool, tag = "3")]
    pub(crate) tty: bool,
    #[prost(bool, tag = "4")]
    pub(crate) stdout: bool,
    #[prost(bool, tag = "5")]
    pub(crate) stderr: bool,
}

/// Response of `Exec` and `Attach`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StreamingUrl {
    #[prost(string, tag = "1")]
    pub(crate) url: String,
}
