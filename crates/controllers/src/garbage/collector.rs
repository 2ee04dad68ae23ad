//! Carries out what the graph says is to be looked at.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
};

use futures_util::{TryStreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::EventRecorder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    absent::Absent,
    dependent::{Dependent, FOREGROUND, ORPHAN, Reference},
    graph::{self, Graph, Node, Uid, Work},
    verdict::{Owner, Verdict, judge},
};
use crate::{
    news::News,
    resource::Resource,
    writer::{Place, Writer, is},
};

/// How many dependents lose an owner at once.
const AT_ONCE: usize = 20;

/// What collects. All that changes is behind locks, none of which is held while something is waited for.
pub(super) struct Collector {
    writer: Writer,
    recorder: EventRecorder,
    graph: Mutex<Graph>,
    absent: Mutex<Absent>,
    /// The resources that are served, by group and kind.
    resources: RwLock<HashMap<(String, String), Resource>>,
}

/// An object as the server has it now.
#[derive(Deserialize)]
struct Live {
    metadata: LiveMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LiveMetadata {
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    owner_references: Vec<Value>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// A kind that an object names as that of its owner is not served; it may come to be.
    #[error("no resource serves the kind {0} of {1:?}")]
    UnknownKind(String, String),
    /// The server refused.
    #[error(transparent)]
    Server(#[from] kube::Error),
}

// --- Collector ---

impl Collector {
    pub(super) fn new(writer: Writer, recorder: EventRecorder) -> Self {
        Collector {
            writer,
            recorder,
            graph: Mutex::default(),
            absent: Mutex::default(),
            resources: RwLock::default(),
        }
    }

    /// An object was made or has changed.
    pub(super) fn saw(&self, resource: &Resource, object: &Dependent) -> Vec<Work> {
        self.graph().saw(resource, object)
    }

    /// An object is gone.
    pub(super) fn lost(&self, uid: &str) -> Vec<Work> {
        self.graph().lost(uid)
    }

    /// These resources are served now.
    pub(super) fn serves(&self, resources: &[Resource]) {
        let by_kind = resources.iter().map(|resource| {
            let kind = (resource.group.to_string(), resource.kind.to_string());
            (kind, resource.clone())
        });
        *self.resources.write().unwrap_or_else(PoisonError::into_inner) = by_kind.collect();
    }

    /// Does a piece of work. Gives what follows from it.
    pub(super) async fn work(&self, work: &Work) -> Result<Vec<Work>, Problem> {
        match work {
            Work::Judge(uid) => self.judge(uid).await,
            Work::Orphan(uid) => self.orphan(uid).await.map(|()| Vec::new()),
            Work::Report { dependent, owner } => {
                self.report(dependent, owner);
                Ok(Vec::new())
            }
        }
    }

    /// Tells that an object names an owner that is in another namespace.
    fn report(&self, dependent: &Uid, owner: &Uid) {
        let Some(node) = self.graph().get(dependent).cloned() else {
            return;
        };
        let Some(owner) = node.owner(owner) else { return };
        let graph::Place {
            api_version,
            kind,
            namespace,
            name,
        } = &node.place;
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
        News::warning("OwnerRefInvalidNamespace", message).tell(&self.recorder, &about);
    }

    async fn judge(&self, uid: &Uid) -> Result<Vec<Work>, Problem> {
        let Some(node) = self.graph().get(uid).cloned() else {
            return Ok(Vec::new());
        };
        if node.is_going && !node.waits {
            return Ok(Vec::new());
        }
        let (resource, namespace) = self.place(&node)?;
        let place = Place::new(&resource, &namespace, &node.place.name);
        let live = match self.read(place).await? {
            Some(live) if live.metadata.uid == **uid => live,
            _ => return Ok(self.lost(uid)),
        };
        if live.waits() {
            return self.waiting(uid, place, &live).await;
        }
        if live.metadata.deletion_timestamp.is_some() {
            return Ok(Vec::new());
        }
        let mut owners = Vec::new();
        for owner in &live.metadata.owner_references {
            owners.push(self.owner(owner, &namespace).await?);
        }
        let dependents = self.graph().dependents(uid);
        let delete = |policy: &str| {
            let uid = &live.metadata.uid;
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy, "preconditions": {"uid": uid}})
        };
        match judge(&owners, !dependents.is_empty(), &live.metadata.finalizers) {
            Verdict::Stays => {}
            Verdict::LosesOwners(positions) => {
                let left = live.metadata.owner_references.iter().enumerate();
                let left = left.filter(|(position, _)| positions.binary_search(position).is_err());
                self.set_owners(place, &live, left.map(|(_, owner)| owner.clone()).collect())
                    .await?;
            }
            Verdict::GoesWaiting => {
                if dependents.iter().any(|(_, dependent)| dependent.waits) {
                    let mut owners = live.metadata.owner_references.clone();
                    for owner in &mut owners {
                        owner["blockOwnerDeletion"] = false.into();
                    }
                    self.set_owners(place, &live, owners).await?;
                }
                self.delete(place, &delete("Foreground")).await?;
            }
            Verdict::Goes(policy) => self.delete(place, &delete(policy)).await?,
        }
        Ok(Vec::new())
    }

    /// An object that waits for its dependents: lets it go, or sees to those that hold it.
    async fn waiting(&self, uid: &Uid, place: Place<'_>, live: &Live) -> Result<Vec<Work>, Problem> {
        let blocking = self.graph().blocking(uid);
        if blocking.is_empty() {
            self.release(place, live, FOREGROUND).await?;
            return Ok(Vec::new());
        }
        let idle = blocking.into_iter().filter(|(_, dependent)| !dependent.waits);
        Ok(idle.map(|(uid, _)| Work::Judge(uid)).collect())
    }

    async fn orphan(&self, uid: &Uid) -> Result<(), Problem> {
        let Some(node) = self.graph().get(uid).cloned() else {
            return Ok(());
        };
        let dependents = self.graph().dependents(uid);
        stream::iter(dependents.into_iter().map(Ok::<_, Problem>))
            .try_for_each_concurrent(AT_ONCE, |(dependent, node)| async move {
                self.leave(uid, &dependent, &node).await
            })
            .await?;
        let (resource, namespace) = self.place(&node)?;
        let place = Place::new(&resource, &namespace, &node.place.name);
        match self.read(place).await? {
            Some(live) if live.metadata.uid == **uid => self.release(place, &live, ORPHAN).await,
            _ => Ok(()),
        }
    }

    /// Takes an owner out of the owners of a dependent.
    async fn leave(&self, owner: &str, uid: &str, node: &Node) -> Result<(), Problem> {
        let (resource, namespace) = self.place(node)?;
        let place = Place::new(&resource, &namespace, &node.place.name);
        let Some(live) = self.read(place).await? else {
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
        self.set_owners(place, &live, left).await
    }

    /// What an owner is that an object in a namespace names.
    async fn owner(&self, reference: &Value, namespace: &str) -> Result<Owner, Problem> {
        let Ok(owner) = Reference::deserialize(reference) else {
            return Ok(Owner::Solid);
        };
        if self
            .absent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .has(&owner, namespace)
        {
            return Ok(Owner::Absent);
        }
        let resource = self.resource(&owner.api_version, &owner.kind)?;
        if resource.namespaced && namespace.is_empty() {
            // Which namespace is meant cannot be known: whoever wrote this has to mend it.
            tracing::warn!(kind = %owner.kind, name = %owner.name, "a cluster-wide object names an owner that is in a namespace");
            return Ok(Owner::Solid);
        }
        match self.read(Place::new(&resource, namespace, &owner.name)).await? {
            Some(live) if live.metadata.uid == *owner.uid => Ok(if live.waits() {
                Owner::Waiting
            } else {
                Owner::Solid
            }),
            _ => {
                let mut absent = self.absent.lock().unwrap_or_else(PoisonError::into_inner);
                absent.remember(&owner, namespace);
                Ok(Owner::Absent)
            }
        }
    }

    async fn read(&self, place: Place<'_>) -> Result<Option<Live>, Problem> {
        match self.writer.get(place).await {
            Ok(live) => Ok(Some(live)),
            Err(error) if is(&error, 404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete(&self, place: Place<'_>, options: &Value) -> Result<(), Problem> {
        match self.writer.delete(place, options).await {
            // Another object has its place by now.
            Err(error) if is(&error, 409) => Ok(()),
            other => Ok(other?),
        }
    }

    async fn set_owners(&self, place: Place<'_>, live: &Live, owners: Vec<Value>) -> Result<(), Problem> {
        self.change(place, live, "ownerReferences", owners.into()).await
    }

    async fn release(&self, place: Place<'_>, live: &Live, finalizer: &str) -> Result<(), Problem> {
        let left = live.metadata.finalizers.iter().filter(|own| *own != finalizer);
        let left: Vec<_> = left.cloned().collect();
        if left.len() == live.metadata.finalizers.len() {
            return Ok(());
        }
        self.change(place, live, "finalizers", left.into()).await
    }

    /// Changes the object that was read, and no later form of it.
    async fn change(&self, place: Place<'_>, live: &Live, field: &str, value: Value) -> Result<(), Problem> {
        let metadata = json!({"uid": live.metadata.uid, "resourceVersion": live.metadata.resource_version, field: value});
        let changed = self
            .writer
            .merge::<Value>(place, &json!({"metadata": metadata}))
            .await;
        match changed {
            Err(error) if is(&error, 404) => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// The resource of an object, and the namespace it is in: what a dependent says of its owner's is only a guess.
    fn place(&self, node: &Node) -> Result<(Resource, String), Problem> {
        let resource = self.resource(&node.place.api_version, &node.place.kind)?;
        let namespace = if resource.namespaced {
            node.place.namespace.to_string()
        } else {
            String::new()
        };
        Ok((resource, namespace))
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, Problem> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let found = resources.get(&(group.to_owned(), kind.to_owned()));
        found
            .cloned()
            .ok_or_else(|| Problem::UnknownKind(kind.to_owned(), group.to_owned()))
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Live ---

impl Live {
    fn waits(&self) -> bool {
        let has = |finalizer: &String| finalizer == FOREGROUND;
        self.metadata.deletion_timestamp.is_some() && self.metadata.finalizers.iter().any(has)
    }
}
