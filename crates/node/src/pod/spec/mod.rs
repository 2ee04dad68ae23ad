//! Converts a pod's spec to the configuration of sandboxes and containers. Pure.
//!
//! ```text
//! sandbox         the settings that all containers of a pod share
//! container       one container
//! hostname        host names
//! dns             resolver configuration
//! hosts           content of /etc/hosts
//! security        user, groups, capabilities, profiles
//! resources       cgroup limits of a container
//! pod_resources   requests, limits and QoS class of a pod
//! annotations     state that the agent stores on containers
//! ```
//!
//! Promises:
//! - Settings of a container take precedence over those of its pod.
//! - A setting that cannot be fulfilled is an error, never replaced by a weaker setting.

mod annotations;
mod container;
mod dns;
mod hostname;
mod hosts;
pub mod pod_resources;
mod resources;
mod sandbox;
mod security;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer};

pub use self::{
    annotations::{ContainerAnnotations, hash_container},
    container::{ContainerConfigInput, generate_container_config},
    dns::{DnsWarning, dns_warnings},
    hostname::PodHostname,
    hosts::hosts_file,
    resources::generate_container_resources,
    sandbox::generate_pod_sandbox_config,
    security::RunAsNonRootError,
};

/// The list of the pod spec that a container is in.
// upstream: pkg/api/v1/pod/util.go ContainerType
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerType {
    /// `initContainers`, sidecars included.
    Init,
    /// `containers`.
    Regular,
    /// `ephemeralContainers`.
    Ephemeral,
}

/// Why a sandbox or container cannot be configured. The messages appear in events and statuses.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// An invalid host name.
    #[error("pod {field} \"{value}\" is not a valid DNS {name_format}: {problems}")]
    HostName {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: String,
        /// Expected format.
        name_format: &'static str,
        /// Validation messages.
        problems: String,
    },
    /// The FQDN exceeds the kernel's limit.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {0} is too long (64 characters is the max, {len} characters requested)",
        len = .0.len()
    )]
    LongHostName(String),
    /// `runAsNonRoot` is violated.
    #[error("{source} (pod: \"{pod}\", container: {container})")]
    Root {
        /// The pod.
        pod: String,
        /// Container name.
        container: String,
        /// How it is violated.
        source: RunAsNonRootError,
    },
    /// An invalid seccomp or `AppArmor` profile.
    #[error("{0}")]
    Profile(String),
    /// An unknown `supplementalGroupsPolicy`.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    GroupsPolicy(String),
    /// An invalid port number.
    #[error("container {container} has an invalid port: {port}")]
    Port {
        /// Container name.
        container: String,
        /// Port number.
        port: i32,
    },
}

/// Converts an ephemeral container to a regular one.
pub fn ephemeral_as_container(container: &EphemeralContainer) -> Container {
    let EphemeralContainer {
        target_container_name: _,
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    } = container.clone();
    Container {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    }
}
