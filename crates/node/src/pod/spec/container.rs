//! One container.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Kind, SpecError, remembered, resources::resources, security::security};
use crate::{
    Facts,
    environment::expand,
    runtime::{ContainerId, ContainerSpec, Image, Mount},
};

/// A container that is to be made.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its pod.
    pub pod: &'a Pod,
    /// What the pod says of it.
    pub container: &'a Container,
    /// Which of the pod's lists it is in.
    pub kind: Kind,
    /// How often it was begun before.
    pub attempt: u32,
    /// Its image, which is there.
    pub image: &'a Image,
    /// Its environment, complete.
    pub environment: &'a [(String, String)],
    /// What is mounted.
    pub mounts: &'a [Mount],
    /// The container whose processes an ephemeral one wants to see.
    pub target: Option<&'a ContainerId>,
    /// What is known of the node.
    pub facts: &'a Facts,
}

/// The container as the runtime is asked for it.
pub fn container(request: &Request<'_>) -> Result<ContainerSpec, SpecError> {
    let Request {
        pod,
        container,
        environment,
        image,
        facts,
        ..
    } = *request;
    let filled = |list: &Option<Vec<String>>| -> Vec<String> {
        let words = list.iter().flatten();
        words.map(|word| expand(word, environment)).collect()
    };
    let spec = pod.spec.as_ref();
    // With a shared or the machine's namespace it sees those processes anyhow.
    let shares =
        spec.is_some_and(|spec| spec.host_pid == Some(true) || spec.share_process_namespace == Some(true));
    let target = request
        .target
        .filter(|_| request.kind == Kind::Ephemeral && !shares);
    let lifecycle = container.lifecycle.as_ref();
    Ok(ContainerSpec {
        name: container.name.clone(),
        attempt: request.attempt,
        image: image.id.clone(),
        user_image: container.image.clone().unwrap_or_default(),
        command: filled(&container.command),
        args: filled(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        env: environment.to_vec(),
        mounts: request.mounts.to_vec(),
        devices: Vec::new(),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        resources: resources(pod, container, facts),
        security: security(pod, container, image, facts)?,
        stop_signal: lifecycle
            .and_then(|lifecycle| lifecycle.stop_signal.clone())
            .unwrap_or_default(),
        process_target: target.cloned(),
        labels: [].into(),
        annotations: remembered::annotations(pod, container, request.attempt),
    })
}
