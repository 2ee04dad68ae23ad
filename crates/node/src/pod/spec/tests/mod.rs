//! Configuration generated from pod specs.

#![expect(clippy::needless_pass_by_value, reason = "callers pass JSON literals")]

mod containers;
mod resources;
mod sandboxes;
mod security;

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{
    ContainerConfigInput, ContainerType, SpecError, generate_container_config, generate_pod_sandbox_config,
};
use crate::{
    HostFacts, NodeFacts,
    runtime::{ContainerSpec, Image, SandboxSpec},
};

/// A pod with that spec.
fn pod(spec: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"app": "web"}},
        "spec": spec,
    });
    serde_json::from_value(pod).unwrap()
}

/// A cluster with DNS, on a machine with its own resolver configuration.
fn facts() -> NodeFacts {
    NodeFacts {
        addresses: vec!["192.168.0.9".parse().unwrap()],
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".to_owned(),
        machine: HostFacts {
            resolv_conf: Some("nameserver 9.9.9.9\nsearch lan.\noptions rotate timeout:1\n".to_owned()),
            memory: 10_000,
            huge_page_sizes: vec!["2MB".to_owned(), "1GB".to_owned()],
            seccomp_profiles: "/var/lib/seccomp".into(),
            ..HostFacts::default()
        },
        ..NodeFacts::default()
    }
}

fn sandbox_of(spec: Value) -> Result<SandboxSpec, SpecError> {
    generate_pod_sandbox_config(&pod(spec), &facts(), 2, Path::new("/logs"))
}

/// The first container of a pod.
fn container_of(pod: &Pod, image: &Image) -> Result<ContainerSpec, SpecError> {
    let environment = [
        ("A".to_owned(), "1".to_owned()),
        ("B".to_owned(), "two".to_owned()),
    ];
    generate_container_config(&ContainerConfigInput {
        pod,
        container: &pod.spec.as_ref().unwrap().containers[0],
        kind: ContainerType::Regular,
        attempt: 4,
        image,
        environment: &environment,
        mounts: &[],
        target: None,
        facts: &facts(),
    })
}
