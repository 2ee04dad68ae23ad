//! What the runtime is asked for, made of a pod's spec. Pure.
//!
//! ```text
//! sandbox     what the containers of a pod share
//! container   one container
//! names       host names
//! dns         where names are resolved
//! hosts       the text of /etc/hosts
//! security    who a container is and what it may do
//! resources   what it may use, in the words of cgroups
//! amounts     requests, limits and the class of a pod
//! remembered  what the agent finds again on containers
//! ```
//!
//! Promises:
//! - What a container says of itself goes before what its pod says for all.
//! - What cannot be had as it is asked for is an error, and never something weaker.

pub mod amounts;
mod container;
mod dns;
mod hosts;
mod names;
mod remembered;
mod resources;
mod sandbox;
mod security;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod};

pub use self::{
    container::{Request, container},
    dns::{Note, notes},
    hosts::hosts_file,
    names::Names,
    remembered::{Remembered, hash},
    resources::resources,
    sandbox::sandbox,
};

/// Which of a pod's lists a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It runs before the others; as a sidecar also along with them.
    Init,
    /// It is one of those the pod is for.
    Regular,
    /// It was put into the pod later, to look around.
    Ephemeral,
}

/// Why a pod, or a container, cannot be made as it is asked for. The words reach users in events and statuses.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// A name is not one that hosts can have.
    #[error("pod {field} \"{value}\" is not a valid DNS {form}: {problems}")]
    HostName {
        /// Which field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it should be.
        form: &'static str,
        /// What is wrong.
        problems: String,
    },
    /// The whole name does not fit into what the kernel keeps.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {0} is too long (64 characters is the max, {len} characters requested)",
        len = .0.len()
    )]
    LongHostName(String),
    /// It must not be root, and would be.
    #[error("{0}")]
    Root(String),
    /// A profile that cannot be found by what is said of it.
    #[error("{0}")]
    Profile(String),
    /// A policy nobody knows.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    GroupsPolicy(String),
    /// A port that is none.
    #[error("container {container} has a port that is none: {port}")]
    Port {
        /// The container.
        container: String,
        /// The number.
        port: i32,
    },
}

/// A container that was put into a pod later, as one of the usual kind.
pub fn ephemeral(container: &EphemeralContainer) -> Container {
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

/// A pod as messages name it.
fn said(pod: &Pod) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!(
        "{}_{}({})",
        text(&meta.name),
        text(&meta.namespace),
        text(&meta.uid)
    )
}
