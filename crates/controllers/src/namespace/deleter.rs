//! Deletes what is in a namespace, of all kinds, and then lets the namespace go.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::Clock;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conditions::Findings;
use crate::{
    discovery::DiscoveryResult,
    objects::{Condition, Meta},
    resource::{NAMESPACES, PODS, Resource},
    writer::{ApiWriter, ObjectRef, error_message, has_status_code},
};

/// The finalizer of namespaces that is ours to take away.
const OURS: &str = "kubernetes";
/// How long finalizers are thought to take, in seconds.
const FINALIZING: u64 = 15;
/// How many kinds are deleted at once.
const AT_ONCE: usize = 8;

/// What became of a namespace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is not going, or nothing of ours holds it any more.
    Done,
    /// Something is left, and may take so many seconds to go.
    Left(u64),
}

/// Why a namespace did not get on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// The server refused.
    #[error("{}", error_message(.0))]
    Server(#[from] kube::Error),
    /// Not everything could be deleted.
    #[error("{0}")]
    Content(String),
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    finalizers: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMeta {
    name: String,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    deletion_grace_period_seconds: u64,
}

/// What is left of a kind.
#[derive(Default)]
struct Left {
    count: usize,
    held: BTreeMap<String, usize>,
    /// For how long, in seconds.
    wait: u64,
}

/// Deletes in the name of a writer.
pub(super) struct Deleter {
    pub(super) writer: ApiWriter,
    pub(super) clock: Clock,
}

// --- Deleter ---

impl Deleter {
    /// Gets a namespace as far as it goes. May be called again at any time, also after half of it.
    pub(super) async fn delete(&self, name: &str) -> Result<Progress, Problem> {
        let object_ref = ObjectRef::new(&NAMESPACES, "", name);
        let namespace: Namespace = match self.writer.get(object_ref).await {
            Err(error) if has_status_code(&error, 404) => return Ok(Progress::Done),
            other => other?,
        };
        let Some(going_since) = namespace.metadata.deletion_timestamp else {
            return Ok(Progress::Done);
        };
        let namespace = self.begin(object_ref, namespace).await?;
        if namespace.spec.finalizers.is_empty() {
            return Ok(Progress::Done);
        }
        let (findings, wait) = self.contents(name, going_since).await?;
        if let Some(conditions) = findings.conditions(&namespace.status.conditions, self.clock.now()) {
            let told =
                json!({"metadata": {"uid": namespace.metadata.uid}, "status": {"conditions": conditions}});
            let written = self
                .writer
                .update_with_merge::<Value>(object_ref.subresource("status"), &told)
                .await;
            if let Err(error) = written
                && !has_status_code(&error, 404)
            {
                tracing::warn!(namespace = name, %error, "cannot tell how the deletion of a namespace gets on");
            }
        }
        if !findings.failures.is_empty() || findings.undiscovered.is_some() {
            let told = findings.undiscovered.into_iter().chain(findings.failures);
            return Err(Problem::Content(told.collect::<Vec<_>>().join("; ")));
        }
        if !findings.left.is_empty() {
            return Ok(Progress::Left(wait));
        }
        self.end(object_ref, &namespace).await?;
        Ok(Progress::Done)
    }

    /// Says that the namespace is going, if that is not said yet.
    async fn begin(&self, object_ref: ObjectRef<'_>, namespace: Namespace) -> Result<Namespace, Problem> {
        if namespace.status.phase == "Terminating" {
            return Ok(namespace);
        }
        let told = json!({"metadata": {"uid": namespace.metadata.uid}, "status": {"phase": "Terminating"}});
        match self
            .writer
            .update_with_merge(object_ref.subresource("status"), &told)
            .await
        {
            Err(error) if has_status_code(&error, 404) => Ok(Namespace {
                spec: Spec::default(),
                ..namespace
            }),
            other => Ok(other?),
        }
    }

    /// Takes our finalizer away. Other finalizers stay, and hold the namespace.
    async fn end(&self, object_ref: ObjectRef<'_>, namespace: &Namespace) -> Result<(), Problem> {
        let metadata = json!({"name": object_ref.name, "uid": namespace.metadata.uid,
            "resourceVersion": namespace.metadata.resource_version});
        let others = namespace.spec.finalizers.iter().filter(|own| *own != OURS);
        let others: Vec<_> = others.collect();
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {"finalizers": others}});
        match self
            .writer
            .update::<Value>(object_ref.subresource("finalize"), &body)
            .await
        {
            Err(error) if has_status_code(&error, 404) => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Deletes the contents: pods first, because they may need what else is there to end well; then all the rest.
    async fn contents(&self, namespace: &str, going_since: Timestamp) -> Result<(Findings, u64), Problem> {
        let discovered = DiscoveryResult::fetch(&self.writer).await?;
        let mut findings = Findings {
            undiscovered: undiscovered(&discovered.failed),
            ..Findings::default()
        };
        let mut wait = 0;
        let resources: Vec<Resource> = discovered
            .with_verbs(&["delete"])
            .filter(|resource| resource.namespaced)
            .cloned()
            .collect();
        let (pods, rest): (Vec<_>, Vec<_>) = resources
            .into_iter()
            .partition(|resource| resource.group == PODS.group && resource.plural == PODS.plural);
        for part in [pods, rest] {
            let discovered = &discovered;
            let mut outcomes = stream::iter(part)
                .map(|resource| async move {
                    let left = self.kind(&resource, discovered, namespace, going_since).await;
                    (resource, left)
                })
                .buffer_unordered(AT_ONCE);
            while let Some((resource, outcome)) = outcomes.next().await {
                match outcome {
                    Ok(left) => {
                        wait = wait.max(left.wait);
                        for (finalizer, count) in left.held {
                            *findings.held.entry(finalizer).or_default() += count;
                        }
                        if left.count > 0 {
                            findings.left.push((resource, left.count));
                        }
                    }
                    Err(problem) => findings.failures.push(problem.to_string()),
                }
            }
            if !findings.left.is_empty() {
                break;
            }
        }
        Ok((findings, wait))
    }

    /// Deletes all objects of a kind. What is left has finalizers, or is given time to end.
    async fn kind(
        &self,
        resource: &Resource,
        discovered: &DiscoveryResult,
        namespace: &str,
        going_since: Timestamp,
    ) -> Result<Left, Problem> {
        let path = resource.path(namespace);
        let can = |verb: &str| discovered.with_verbs(&[verb]).any(|other| other == resource);
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if can("deletecollection") {
            let deleted =
                self.writer
                    .send::<Value>(http::Method::DELETE, &path, "application/json", Some(&options));
            match deleted.await {
                Err(error) if has_status_code(&error, 404) || has_status_code(&error, 405) => {
                    return Ok(Left::default());
                }
                other => other.map(|_| ())?,
            }
        } else if can("list") {
            for item in self.list(&path).await? {
                let object_ref = ObjectRef::new(resource, namespace, &item.metadata.name);
                self.writer.delete(object_ref, &options).await?;
            }
        }
        if !can("list") {
            return Ok(Left::default());
        }
        let items = self.list(&path).await?;
        let mut left = Left {
            count: items.len(),
            ..Left::default()
        };
        let gone_for = self
            .clock
            .now()
            .duration_since(going_since)
            .as_secs()
            .unsigned_abs();
        for item in items {
            left.wait = left.wait.max(
                item.metadata
                    .deletion_grace_period_seconds
                    .saturating_sub(gone_for),
            );
            for finalizer in item.metadata.finalizers {
                *left.held.entry(finalizer).or_default() += 1;
            }
        }
        if left.wait == 0 && !left.held.is_empty() {
            left.wait = FINALIZING;
        }
        let is_pod = resource.plural == PODS.plural && resource.group == PODS.group;
        if left.count > 0 && left.wait == 0 && !is_pod {
            let told = format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                resource.group, resource.version, resource.plural
            );
            return Err(Problem::Content(told));
        }
        Ok(left)
    }

    async fn list(&self, path: &str) -> Result<Vec<Item>, Problem> {
        const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        match self.writer.get_path::<List>(path, METADATA).await {
            Err(error) if has_status_code(&error, 404) || has_status_code(&error, 405) => Ok(Vec::new()),
            other => Ok(other?.items),
        }
    }
}

fn undiscovered(failed: &[String]) -> Option<String> {
    if failed.is_empty() {
        return None;
    }
    let told: Vec<_> = failed
        .iter()
        .map(|version| format!("{version}: stale GroupVersion discovery: {version}"))
        .collect();
    Some(format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        failed.len(),
        told.join(", ")
    ))
}
