//! Rolling updates, watched: the bounds that a deployment has by itself hold at every event.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::json;

use super::{CpuMeasurement, Deployment, deployment_name, get, report, report::Row, until};
use crate::{
    BenchError,
    api::{
        client::{ApiRequest, MERGE_PATCH},
        load::Session,
        objects,
        operations::{make_namespace, pods},
        watches::Watcher,
    },
};

/// A new version takes the place of the old one, and the bounds that a deployment has by itself hold all the time: a quarter
/// more than wanted at most, and three quarters of it available at least.
pub(super) async fn roll_over(session: &Session<'_>, replicas: usize) -> Result<Row, BenchError> {
    make_namespace(session, "rolling").await?;
    let path = "/apis/apps/v1/namespaces/rolling/deployments";
    let name = deployment_name(0);
    let deployment = objects::running_deployment(&name, replicas);
    session.ask(ApiRequest::post(path, &deployment), &[201]).await?;
    let path_of_object = format!("{path}/{name}");
    until(async || {
        let deployment: Deployment = get(session, &path_of_object).await?;
        Ok(deployment.status.available_replicas == replicas)
    })
    .await?;
    let mut bounds = Bounds::new(replicas);
    let mut watch = Watcher::open(session, format!("{}?watch=true", pods("rolling"))).await?;

    let begun = CpuMeasurement::now(session)?;
    let container = json!({"name": "main", "image": "example.com/app:2"});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    session
        .ask(ApiRequest::patch(&*path_of_object, MERGE_PATCH, &patch), &[200])
        .await?;
    while !bounds.is_over() {
        if !watch.events(|line| bounds.see(line)).await? {
            return Err("the watch ended before the new version was everywhere".into());
        }
    }
    begun.row(report::ROLLING, replicas)
}

/// The pods of a deployment while a new version takes the place of the old one.
struct Bounds {
    replicas: usize,
    /// All pods that are not terminating.
    here: HashSet<String>,
    available: HashSet<String>,
    /// Those of the new version that are ready.
    new: HashSet<String>,
    /// Whether all pods of the beginning have been seen.
    is_complete: bool,
}

impl Bounds {
    fn new(replicas: usize) -> Self {
        Bounds {
            replicas,
            here: HashSet::new(),
            available: HashSet::new(),
            new: HashSet::new(),
            is_complete: false,
        }
    }

    fn is_over(&self) -> bool {
        self.new.len() == self.replicas && self.here.len() == self.replicas
    }

    fn see(&mut self, line: &[u8]) -> Result<(), BenchError> {
        let event: Event = serde_json::from_slice(line)?;
        let pod = event.object;
        let name = pod.metadata.name;
        let is_here = event.kind != "DELETED" && pod.metadata.deletion_timestamp.is_none();
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        let is_ready = is_here && pod.status.conditions.iter().any(ready);
        let is_new = pod
            .spec
            .containers
            .iter()
            .any(|container| container.image.ends_with(":2"));
        set(&mut self.here, &name, is_here);
        set(&mut self.available, &name, is_ready);
        set(&mut self.new, &name, is_ready && is_new);
        self.is_complete |= self.available.len() >= self.replicas;
        let surge = self.replicas.div_ceil(4);
        if self.here.len() > self.replicas + surge {
            return Err(format!("{} pods are more than may be", self.here.len()).into());
        }
        let least = self.replicas - self.replicas / 4;
        if self.is_complete && self.available.len() < least {
            return Err(format!("{} pods are fewer than must be available", self.available.len()).into());
        }
        Ok(())
    }
}

fn set(names: &mut HashSet<String>, name: &str, is_in: bool) {
    if is_in {
        names.insert(name.to_owned());
    } else {
        names.remove(name);
    }
}

// --- what is read of pods ---

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Pod,
}

#[derive(Deserialize)]
struct Pod {
    metadata: PodMetadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    image: String,
}

#[derive(Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, name: &str, image: &str, is_ready: bool) -> Vec<u8> {
        let status = if is_ready { "True" } else { "False" };
        let object = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        json!({"type": kind, "object": object}).to_string().into_bytes()
    }

    #[test]
    fn bounds_that_are_broken_are_seen() {
        let mut bounds = Bounds::new(4);
        for name in ["a", "b", "c", "d"] {
            bounds.see(&event("ADDED", name, "app:1", true)).unwrap();
        }
        bounds.see(&event("ADDED", "e", "app:2", false)).unwrap();
        assert!(bounds.see(&event("ADDED", "f", "app:2", false)).is_err());
        bounds.see(&event("DELETED", "f", "app:2", false)).unwrap();
        bounds.see(&event("DELETED", "a", "app:1", false)).unwrap();
        assert!(bounds.see(&event("DELETED", "b", "app:1", false)).is_err());
    }

    #[test]
    fn it_is_over_when_all_are_new() {
        let mut bounds = Bounds::new(1);
        bounds.see(&event("ADDED", "a", "app:1", true)).unwrap();
        bounds.see(&event("ADDED", "b", "app:2", true)).unwrap();
        assert!(!bounds.is_over());
        bounds.see(&event("DELETED", "a", "app:1", true)).unwrap();
        assert!(bounds.is_over());
    }
}
