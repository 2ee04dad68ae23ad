//! Configuration of one container.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go generateContainerConfig

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{
    ContainerType, SpecError, annotations, resources::generate_container_resources,
    security::effective_security_context,
};
use crate::{
    NodeFacts,
    environment::expand,
    runtime::{ContainerId, ContainerSpec, Image, Mount},
};

/// Input of [`generate_container_config`].
#[derive(Clone, Copy)]
pub struct ContainerConfigInput<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container of the pod's spec.
    pub container: &'a Container,
    /// The list of the pod's spec that contains the container.
    pub kind: ContainerType,
    /// Restart count.
    pub attempt: u32,
    /// The image of the container, already pulled.
    pub image: &'a Image,
    /// Complete environment.
    pub environment: &'a [(String, String)],
    /// All mounts.
    pub mounts: &'a [Mount],
    /// The container whose process namespace an ephemeral container joins.
    pub target: Option<&'a ContainerId>,
    /// Facts about the node.
    pub facts: &'a NodeFacts,
}

/// Configuration of a container for the runtime.
pub fn generate_container_config(input: &ContainerConfigInput<'_>) -> Result<ContainerSpec, SpecError> {
    let ContainerConfigInput {
        pod,
        container,
        environment,
        image,
        facts,
        ..
    } = *input;
    let expanded = |list: &Option<Vec<String>>| -> Vec<String> {
        let parts = list.iter().flatten();
        parts.map(|part| expand(part, environment)).collect()
    };
    let spec = pod.spec.as_ref();
    // With a shared or the host's PID namespace there is no target to join.
    let shares =
        spec.is_some_and(|spec| spec.host_pid == Some(true) || spec.share_process_namespace == Some(true));
    let target = input
        .target
        .filter(|_| input.kind == ContainerType::Ephemeral && !shares);
    let lifecycle = container.lifecycle.as_ref();
    Ok(ContainerSpec {
        name: container.name.clone(),
        attempt: input.attempt,
        image: image.id.clone(),
        user_image: container.image.clone().unwrap_or_default(),
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        env: environment.to_vec(),
        mounts: input.mounts.to_vec(),
        devices: Vec::new(),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        resources: generate_container_resources(pod, container, facts),
        security: effective_security_context(pod, container, image, facts)?,
        stop_signal: lifecycle
            .and_then(|lifecycle| lifecycle.stop_signal.clone())
            .unwrap_or_default(),
        process_target: target.cloned(),
        labels: [].into(),
        annotations: annotations::container_annotations(pod, container, input.attempt),
    })
}
