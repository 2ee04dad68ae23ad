//! Keeps the APIServices of custom groups: one for each served version.

use std::collections::BTreeSet;

use k3_api::{kinds::builtin, selector::label::Labels, status::Status, strategy::Tree};
use serde_json::{Value, json};

use crate::registry::{Registry, RequestContext, Resource, own_user};

/// The label of API services managed with definitions.
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Brings the API services of a group in line with what is served.
// upstream: staging/src/k8s.io/kube-aggregator/pkg/controllers/autoregister/autoregister_controller.go checkAPIService
pub(super) async fn keep(registry: &Registry, group: &str) -> Result<(), Status> {
    let resource = resource(registry);
    let wanted = versions(registry, group);
    for version in &wanted {
        let service = service(group, version);
        let key = resource.key("", service.at("metadata").text("name"))?;
        if resource.cache.get(&key).is_some() {
            continue;
        }
        let made = registry.create_own(resource.kind.clone(), service, own_user(), "kube-apiserver");
        accept(made.await, 409)?;
    }
    for service in ours(registry) {
        let spec = service.at("spec");
        if spec.text("group") != group || wanted.contains(spec.text("version")) {
            continue;
        }
        let mut ctx = RequestContext::own(resource.kind.clone(), "", own_user(), registry.now());
        let name = service.at("metadata").text("name");
        name.clone_into(&mut ctx.target.name);
        accept(registry.delete(&ctx).await.map(drop), 404)?;
    }
    Ok(())
}

/// The groups that have such API services.
pub(super) fn groups(registry: &Registry) -> impl Iterator<Item = String> {
    let services = ours(registry).into_iter();
    services.map(|service| service.at("spec").text("group").to_owned())
}

fn resource(registry: &Registry) -> Resource {
    let kind = builtin().kind("apiregistration.k8s.io", "v1", "APIService");
    registry.resource(kind.expect("the kind is built in"))
}

/// The API services managed with definitions.
fn ours(registry: &Registry) -> Vec<Value> {
    let snapshot = registry.cached_objects(&resource(registry));
    let objects = snapshot.objects.values();
    objects
        .filter(|object| object.labels().get(LABEL) == Some("true"))
        .map(|object| object.tree())
        .collect()
}

/// That another server did the same is as good.
fn accept(done: Result<(), Status>, code: u16) -> Result<(), Status> {
    match done {
        Err(status) if status.code != code => Err(status),
        _ => Ok(()),
    }
}

/// The versions of a group that definitions serve and nothing built in does.
fn versions(registry: &Registry, group: &str) -> BTreeSet<String> {
    let is_builtin = |version: &str| {
        let mut kinds = builtin().all().iter();
        kinds.any(|kind| kind.group == group && kind.version == version)
    };
    let all = registry.definitions().all();
    let served = all.values().filter(|served| served.definition.group == group);
    served
        .flat_map(|served| served.versions())
        .filter(|(version, _)| version.served && !is_builtin(&version.name))
        .map(|(version, _)| version.name.clone())
        .collect()
}

// upstream: pkg/controlplane/controller/crdregistration/crdregistration_controller.go handleVersionUpdate
fn service(group: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}"), "labels": {LABEL: "true"}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
        "status": {},
    })
}
