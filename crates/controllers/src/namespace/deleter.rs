//! Deletes all objects in a namespace, then removes the namespace's finalizer.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use k3_workloads::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::Clock;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conditions::DeletionResult;
use crate::{
    discovery::DiscoveryResult,
    resource::{NAMESPACES, PODS, Resource},
    writer::{ApiWriter, ObjectRef, error_message, has_status_code},
};

/// The finalizer of namespaces that this controller removes.
const NAMESPACE_FINALIZER: &str = "kubernetes";
/// Estimate for finalizers, in seconds.
const FINALIZER_ESTIMATE_SECONDS: u64 = 15;
/// Resources deleted concurrently.
const CONCURRENT_RESOURCES: usize = 8;

/// The result of a deletion attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeletionProgress {
    /// The namespace is not terminating, or has no finalizer of this controller.
    Done,
    /// Objects remain; the estimate is in seconds.
    RemainingObjects(u64),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NamespaceDeletionError {
    #[error("{}", error_message(.0))]
    Server(#[from] kube::Error),
    #[error("{0}")]
    Content(String),
}

#[derive(Deserialize)]
struct Namespace {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NamespaceSpec,
    #[serde(default)]
    status: NamespaceStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamespaceSpec {
    finalizers: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamespaceStatus {
    phase: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct ObjectList {
    #[serde(default)]
    items: Vec<ListItem>,
}

#[derive(Deserialize)]
struct ListItem {
    metadata: ListItemMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListItemMeta {
    name: String,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    deletion_grace_period_seconds: u64,
}

/// Remaining objects of a resource.
#[derive(Default)]
struct RemainingObjects {
    count: usize,
    finalizers_remaining: BTreeMap<String, usize>,
    /// Estimate in seconds.
    wait: u64,
}

pub(super) struct NamespacedResourcesDeleter {
    pub(super) writer: ApiWriter,
    pub(super) clock: Clock,
}

// --- NamespacedResourcesDeleter ---

impl NamespacedResourcesDeleter {
    /// Deletes as much as possible. Idempotent.
    // upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go Delete
    pub(super) async fn delete(&self, name: &str) -> Result<DeletionProgress, NamespaceDeletionError> {
        let object_ref = ObjectRef::new(&NAMESPACES, "", name);
        let namespace: Namespace = match self.writer.get(object_ref).await {
            Err(error) if has_status_code(&error, 404) => return Ok(DeletionProgress::Done),
            other => other?,
        };
        let Some(deleted_at) = namespace.metadata.deletion_timestamp else {
            return Ok(DeletionProgress::Done);
        };
        let namespace = self.set_terminating(object_ref, namespace).await?;
        if namespace.spec.finalizers.is_empty() {
            return Ok(DeletionProgress::Done);
        }
        let (result, wait) = self.delete_all_content(name, deleted_at).await?;
        if let Some(conditions) = result.conditions(&namespace.status.conditions, self.clock.now()) {
            let resource_counts =
                json!({"metadata": {"uid": namespace.metadata.uid}, "status": {"conditions": conditions}});
            let written = self
                .writer
                .merge_patch::<Value>(object_ref.subresource("status"), &resource_counts)
                .await;
            if let Err(error) = written
                && !has_status_code(&error, 404)
            {
                tracing::warn!(namespace = name, %error, "failed to write the conditions of a terminating namespace");
            }
        }
        if !result.failures.is_empty() || result.discovery_error.is_some() {
            let resource_counts = result.discovery_error.into_iter().chain(result.failures);
            return Err(NamespaceDeletionError::Content(
                resource_counts.collect::<Vec<_>>().join("; "),
            ));
        }
        if !result.remaining.is_empty() {
            return Ok(DeletionProgress::RemainingObjects(wait));
        }
        self.finalize_namespace(object_ref, &namespace).await?;
        Ok(DeletionProgress::Done)
    }

    /// Sets the phase to Terminating if it is not.
    // upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go updateNamespaceStatusFunc
    async fn set_terminating(
        &self,
        object_ref: ObjectRef<'_>,
        namespace: Namespace,
    ) -> Result<Namespace, NamespaceDeletionError> {
        if namespace.status.phase == "Terminating" {
            return Ok(namespace);
        }
        let resource_counts =
            json!({"metadata": {"uid": namespace.metadata.uid}, "status": {"phase": "Terminating"}});
        match self
            .writer
            .merge_patch(object_ref.subresource("status"), &resource_counts)
            .await
        {
            Err(error) if has_status_code(&error, 404) => Ok(Namespace {
                spec: NamespaceSpec::default(),
                ..namespace
            }),
            other => Ok(other?),
        }
    }

    /// Removes the finalizer. Other finalizers are kept, and keep the namespace.
    // upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go finalizeNamespace
    async fn finalize_namespace(
        &self,
        object_ref: ObjectRef<'_>,
        namespace: &Namespace,
    ) -> Result<(), NamespaceDeletionError> {
        let metadata = json!({"name": object_ref.name, "uid": namespace.metadata.uid,
            "resourceVersion": namespace.metadata.resource_version});
        let others = namespace
            .spec
            .finalizers
            .iter()
            .filter(|own| *own != NAMESPACE_FINALIZER);
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

    /// Deletes the contents in the namespace deletion order (KEP-5080): pods first, since they may need other objects (network
    /// policies, secrets) to terminate cleanly; then everything else.
    // upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go deleteAllContent
    async fn delete_all_content(
        &self,
        namespace: &str,
        deleted_at: Timestamp,
    ) -> Result<(DeletionResult, u64), NamespaceDeletionError> {
        let discovered = DiscoveryResult::fetch(&self.writer).await?;
        let mut result = DeletionResult {
            discovery_error: undiscovered(&discovered.failed),
            ..DeletionResult::default()
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
                    let remaining = self
                        .delete_all_of_resource(&resource, discovered, namespace, deleted_at)
                        .await;
                    (resource, remaining)
                })
                .buffer_unordered(CONCURRENT_RESOURCES);
            while let Some((resource, outcome)) = outcomes.next().await {
                match outcome {
                    Ok(remaining) => {
                        wait = wait.max(remaining.wait);
                        for (finalizer, count) in remaining.finalizers_remaining {
                            *result.finalizers_remaining.entry(finalizer).or_default() += count;
                        }
                        if remaining.count > 0 {
                            result.remaining.push((resource, remaining.count));
                        }
                    }
                    Err(problem) => result.failures.push(problem.to_string()),
                }
            }
            if !result.remaining.is_empty() {
                break;
            }
        }
        Ok((result, wait))
    }

    /// Deletes all objects of a resource. Remaining ones have finalizers, or a grace period.
    // upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go deleteAllContentForGroupVersionResource
    async fn delete_all_of_resource(
        &self,
        resource: &Resource,
        discovered: &DiscoveryResult,
        namespace: &str,
        deleted_at: Timestamp,
    ) -> Result<RemainingObjects, NamespaceDeletionError> {
        let path = resource.path(namespace);
        let can = |verb: &str| discovered.with_verbs(&[verb]).any(|other| other == resource);
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if can("deletecollection") {
            let deleted =
                self.writer
                    .send::<Value>(http::Method::DELETE, &path, "application/json", Some(&options));
            match deleted.await {
                Err(error) if has_status_code(&error, 404) || has_status_code(&error, 405) => {
                    return Ok(RemainingObjects::default());
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
            return Ok(RemainingObjects::default());
        }
        let items = self.list(&path).await?;
        let mut remaining = RemainingObjects {
            count: items.len(),
            ..RemainingObjects::default()
        };
        let deleted_for = self
            .clock
            .now()
            .duration_since(deleted_at)
            .as_secs()
            .unsigned_abs();
        for item in items {
            remaining.wait = remaining.wait.max(
                item.metadata
                    .deletion_grace_period_seconds
                    .saturating_sub(deleted_for),
            );
            for finalizer in item.metadata.finalizers {
                *remaining.finalizers_remaining.entry(finalizer).or_default() += 1;
            }
        }
        if remaining.wait == 0 && !remaining.finalizers_remaining.is_empty() {
            remaining.wait = FINALIZER_ESTIMATE_SECONDS;
        }
        let is_pod = resource.plural == PODS.plural && resource.group == PODS.group;
        if remaining.count > 0 && remaining.wait == 0 && !is_pod {
            let resource_counts = format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                resource.group, resource.version, resource.plural
            );
            return Err(NamespaceDeletionError::Content(resource_counts));
        }
        Ok(remaining)
    }

    async fn list(&self, path: &str) -> Result<Vec<ListItem>, NamespaceDeletionError> {
        const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        match self.writer.get_path::<ObjectList>(path, METADATA).await {
            Err(error) if has_status_code(&error, 404) || has_status_code(&error, 405) => Ok(Vec::new()),
            other => Ok(other?.items),
        }
    }
}

fn undiscovered(failed: &[String]) -> Option<String> {
    if failed.is_empty() {
        return None;
    }
    let resource_counts: Vec<_> = failed
        .iter()
        .map(|version| format!("{version}: stale GroupVersion discovery: {version}"))
        .collect();
    Some(format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        failed.len(),
        resource_counts.join(", ")
    ))
}
