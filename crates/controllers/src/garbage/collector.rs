//! Carries out the graph's work items: attemptToDelete and attemptToOrphan.

use std::collections::HashMap;

use futures_util::{TryStreamExt, stream};
use k3_workloads::OwnerReference;
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    decode,
    events::EventRecorder,
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    absent_owner_cache::AbsentOwnerCache,
    classify::{DeletionDecision, OwnerState, decide_deletion},
    dependent::{Dependent, FOREGROUND, ORPHAN},
    graph::{self, DependencyGraph, GraphNode, GraphWorkItem, Uid},
};
use crate::event_message::EventMessage;

/// Dependents that are orphaned concurrently.
const CONCURRENT_ORPHANING: usize = 20;

/// Processes work items. All mutable state is behind locks, none of which is held across an await.
pub(super) struct WorkProcessor {
    writer: ApiWriter,
    recorder: EventRecorder,
    graph: Mutex<DependencyGraph>,
    absent_owners: Mutex<AbsentOwnerCache>,
    /// Served resources by group and kind.
    resources: RwLock<HashMap<(String, String), Resource>>,
}

/// An object as read from the server.
#[derive(Deserialize)]
struct LiveObject {
    metadata: LiveObjectMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LiveObjectMeta {
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    owner_references: Vec<Value>,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessingError {
    /// The kind of an owner reference is not served; it may be later (a CRD).
    #[error("no resource serves the kind {0} of {1:?}")]
    UnknownKind(String, String),
    #[error(transparent)]
    Server(#[from] kube::Error),
}

// --- WorkProcessor ---

impl WorkProcessor {
    pub(super) fn new(writer: ApiWriter, recorder: EventRecorder) -> Self {
        WorkProcessor {
            writer,
            recorder,
            graph: Mutex::default(),
            absent_owners: Mutex::default(),
            resources: RwLock::default(),
        }
    }

    /// An object was added or updated.
    pub(super) fn observe(&self, resource: &Resource, object: &Dependent) -> Vec<GraphWorkItem> {
        self.graph().observe(resource, object)
    }

    /// An object was deleted.
    pub(super) fn remove(&self, uid: &str) -> Vec<GraphWorkItem> {
        self.graph().remove(uid)
    }

    /// Replaces the set of served resources.
    pub(super) fn set_resources(&self, resources: &[Resource]) {
        let by_kind = resources.iter().map(|resource| {
            let kind = (resource.group.to_string(), resource.kind.to_string());
            (kind, resource.clone())
        });
        *self.resources.write() = by_kind.collect();
    }

    /// Processes a work item. Returns follow-up items.
    // upstream: pkg/controller/garbagecollector/garbagecollector.go processAttemptToDeleteWorker, processAttemptToOrphanWorker
    pub(super) async fn process(&self, work: &GraphWorkItem) -> Result<Vec<GraphWorkItem>, ProcessingError> {
        match work {
            GraphWorkItem::AttemptToDelete(uid) => self.attempt_to_delete_item(uid).await,
            GraphWorkItem::AttemptToOrphan(uid) => self.orphan_dependents(uid).await.map(|()| Vec::new()),
            GraphWorkItem::ReportInvalidNamespaceOwnerRef { dependent, owner } => {
                self.report_invalid_namespace_owner_ref(dependent, owner);
                Ok(Vec::new())
            }
        }
    }

    /// Records an event for an owner reference that points to another namespace.
    // upstream: pkg/controller/garbagecollector/graph_builder.go reportInvalidNamespaceOwnerRef
    fn report_invalid_namespace_owner_ref(&self, dependent: &Uid, owner: &Uid) {
        let Some(node) = self.graph().get(dependent).cloned() else {
            return;
        };
        let Some(owner) = node.classify_owner(owner) else {
            return;
        };
        let graph::ObjectRef {
            api_version,
            kind,
            namespace,
            name,
        } = &node.object_ref;
        let about = ObjectReference {
            api_version: Some(api_version.to_string()),
            kind: Some(kind.to_string()),
            namespace: (!namespace.is_empty()).then(|| namespace.to_string()),
            name: Some(name.to_string()),
            uid: Some(dependent.to_string()),
            ..ObjectReference::default()
        };
        let message = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
            owner.api_version, owner.kind, owner.name, owner.uid
        );
        EventMessage::warning("OwnerRefInvalidNamespace", message).record(&self.recorder, &about);
    }

    // upstream: pkg/controller/garbagecollector/garbagecollector.go attemptToDeleteItem
    async fn attempt_to_delete_item(&self, uid: &Uid) -> Result<Vec<GraphWorkItem>, ProcessingError> {
        let Some(node) = self.graph().get(uid).cloned() else {
            return Ok(Vec::new());
        };
        if node.is_being_deleted && !node.deleting_dependents {
            return Ok(Vec::new());
        }
        let (resource, namespace) = self.resource_and_namespace(&node)?;
        let object_ref = ObjectRef::new(&resource, &namespace, &node.object_ref.name);
        let live = match self.read(object_ref).await? {
            Some(live) if live.metadata.uid == **uid => live,
            _ => return Ok(self.remove(uid)),
        };
        if live.waits() {
            return self
                .process_deleting_dependents_item(uid, object_ref, &live)
                .await;
        }
        if live.metadata.deletion_timestamp.is_some() {
            return Ok(Vec::new());
        }
        let mut owners = Vec::new();
        for owner in &live.metadata.owner_references {
            owners.push(self.classify_owner(owner, &namespace).await?);
        }
        let dependents = self.graph().dependents(uid);
        let delete = |policy: &str| {
            let uid = &live.metadata.uid;
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy, "preconditions": {"uid": uid}})
        };
        match decide_deletion(&owners, dependents.len(), &live.metadata.finalizers) {
            DeletionDecision::Keep => {}
            DeletionDecision::RemoveOwnerReferences(positions) => {
                let left = live.metadata.owner_references.iter().enumerate();
                let left = left.filter(|(position, _)| positions.binary_search(position).is_err());
                self.set_owners(object_ref, &live, left.map(|(_, owner)| owner.clone()).collect())
                    .await?;
            }
            DeletionDecision::DeleteForeground => {
                if dependents
                    .iter()
                    .any(|(_, dependent)| dependent.deleting_dependents)
                {
                    let mut owners = live.metadata.owner_references.clone();
                    for owner in &mut owners {
                        owner["blockOwnerDeletion"] = false.into();
                    }
                    self.set_owners(object_ref, &live, owners).await?;
                }
                self.delete(object_ref, &delete("Foreground")).await?;
            }
            DeletionDecision::Delete(policy) => self.delete(object_ref, &delete(policy)).await?,
        }
        Ok(Vec::new())
    }

    /// Foreground deletion: removes the finalizer if no dependent blocks, else enqueues the blocking dependents.
    // upstream: pkg/controller/garbagecollector/garbagecollector.go processDeletingDependentsItem
    async fn process_deleting_dependents_item(
        &self,
        uid: &Uid,
        object_ref: ObjectRef<'_>,
        live: &LiveObject,
    ) -> Result<Vec<GraphWorkItem>, ProcessingError> {
        let blocking = self.graph().blocking_dependents(uid);
        if blocking.is_empty() {
            self.release(object_ref, live, FOREGROUND).await?;
            return Ok(Vec::new());
        }
        let idle = blocking
            .into_iter()
            .filter(|(_, dependent)| !dependent.deleting_dependents);
        Ok(idle.map(|(uid, _)| GraphWorkItem::AttemptToDelete(uid)).collect())
    }

    // upstream: pkg/controller/garbagecollector/garbagecollector.go orphanDependents
    async fn orphan_dependents(&self, uid: &Uid) -> Result<(), ProcessingError> {
        let Some(node) = self.graph().get(uid).cloned() else {
            return Ok(());
        };
        let dependents = self.graph().dependents(uid);
        stream::iter(dependents.into_iter().map(Ok::<_, ProcessingError>))
            .try_for_each_concurrent(CONCURRENT_ORPHANING, |(dependent, node)| async move {
                self.remove_owner_reference(uid, &dependent, &node).await
            })
            .await?;
        let (resource, namespace) = self.resource_and_namespace(&node)?;
        let object_ref = ObjectRef::new(&resource, &namespace, &node.object_ref.name);
        match self.read(object_ref).await? {
            Some(live) if live.metadata.uid == **uid => self.release(object_ref, &live, ORPHAN).await,
            _ => Ok(()),
        }
    }

    /// Removes an owner reference from a dependent.
    // upstream: pkg/controller/garbagecollector/patch.go deleteOwnerRefJSONMergePatch
    async fn remove_owner_reference(
        &self,
        owner: &str,
        uid: &str,
        node: &GraphNode,
    ) -> Result<(), ProcessingError> {
        let (resource, namespace) = self.resource_and_namespace(node)?;
        let object_ref = ObjectRef::new(&resource, &namespace, &node.object_ref.name);
        let Some(live) = self.read(object_ref).await? else {
            return Ok(());
        };
        let is_other = |reference: &&Value| reference["uid"].as_str() != Some(owner);
        let left: Vec<_> = live
            .metadata
            .owner_references
            .iter()
            .filter(is_other)
            .cloned()
            .collect();
        if live.metadata.uid != *uid || left.len() == live.metadata.owner_references.len() {
            return Ok(());
        }
        self.set_owners(object_ref, &live, left).await
    }

    /// Looks up an owner reference of an object in a namespace.
    // upstream: pkg/controller/garbagecollector/garbagecollector.go isDangling, classifyReferences
    async fn classify_owner(
        &self,
        reference: &Value,
        namespace: &str,
    ) -> Result<OwnerState, ProcessingError> {
        let Ok(owner) = decode::from_value::<OwnerReference>(reference) else {
            return Ok(OwnerState::Solid);
        };
        if self.absent_owners.lock().has(&owner, namespace) {
            return Ok(OwnerState::AbsentOwnerCache);
        }
        let resource = self.resource(&owner.api_version, &owner.kind)?;
        if resource.namespaced && namespace.is_empty() {
            // The namespace of the owner is unknown: only the author of the reference can correct it.
            tracing::warn!(kind = %owner.kind, name = %owner.name, "invalid owner reference: cluster-scoped object refers to a namespaced owner");
            return Ok(OwnerState::Solid);
        }
        match self
            .read(ObjectRef::new(&resource, namespace, &owner.name))
            .await?
        {
            Some(live) if live.metadata.uid == *owner.uid => Ok(if live.waits() {
                OwnerState::Waiting
            } else {
                OwnerState::Solid
            }),
            _ => {
                let mut absent_owners = self.absent_owners.lock();
                absent_owners.remember(&owner, namespace);
                Ok(OwnerState::AbsentOwnerCache)
            }
        }
    }

    async fn read(&self, object_ref: ObjectRef<'_>) -> Result<Option<LiveObject>, ProcessingError> {
        match self.writer.get(object_ref).await {
            Ok(live) => Ok(Some(live)),
            Err(error) if has_status_code(&error, 404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    // upstream: pkg/controller/garbagecollector/operations.go deleteObject
    async fn delete(&self, object_ref: ObjectRef<'_>, options: &Value) -> Result<(), ProcessingError> {
        match self.writer.delete(object_ref, options).await {
            // Another object has the name by now.
            Err(error) if has_status_code(&error, 409) => Ok(()),
            other => Ok(other?),
        }
    }

    async fn set_owners(
        &self,
        object_ref: ObjectRef<'_>,
        live: &LiveObject,
        owners: Vec<Value>,
    ) -> Result<(), ProcessingError> {
        self.patch_metadata(object_ref, live, "ownerReferences", owners.into())
            .await
    }

    // upstream: pkg/controller/garbagecollector/operations.go removeFinalizer
    async fn release(
        &self,
        object_ref: ObjectRef<'_>,
        live: &LiveObject,
        finalizer: &str,
    ) -> Result<(), ProcessingError> {
        let left = live.metadata.finalizers.iter().filter(|own| *own != finalizer);
        let left: Vec<_> = left.cloned().collect();
        if left.len() == live.metadata.finalizers.len() {
            return Ok(());
        }
        self.patch_metadata(object_ref, live, "finalizers", left.into())
            .await
    }

    /// Patches the object at the resourceVersion that was read.
    async fn patch_metadata(
        &self,
        object_ref: ObjectRef<'_>,
        live: &LiveObject,
        field: &str,
        value: Value,
    ) -> Result<(), ProcessingError> {
        let metadata = json!({"uid": live.metadata.uid, "resourceVersion": live.metadata.resource_version, field: value});
        let changed = self
            .writer
            .merge_patch::<Value>(object_ref, &json!({"metadata": metadata}))
            .await;
        match changed {
            Err(error) if has_status_code(&error, 404) => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Resource and namespace of an object. The namespace of an owner that was only seen in references is a guess.
    fn resource_and_namespace(&self, node: &GraphNode) -> Result<(Resource, String), ProcessingError> {
        let resource = self.resource(&node.object_ref.api_version, &node.object_ref.kind)?;
        let namespace = if resource.namespaced {
            node.object_ref.namespace.to_string()
        } else {
            String::new()
        };
        Ok((resource, namespace))
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, ProcessingError> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let resources = self.resources.read();
        let found = resources.get(&(group.to_owned(), kind.to_owned()));
        found
            .cloned()
            .ok_or_else(|| ProcessingError::UnknownKind(kind.to_owned(), group.to_owned()))
    }

    fn graph(&self) -> MutexGuard<'_, DependencyGraph> {
        self.graph.lock()
    }
}

// --- Live ---

impl LiveObject {
    fn waits(&self) -> bool {
        let has = |finalizer: &String| finalizer == FOREGROUND;
        self.metadata.deletion_timestamp.is_some() && self.metadata.finalizers.iter().any(has)
    }
}
