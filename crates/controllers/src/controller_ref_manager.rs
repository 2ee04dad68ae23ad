//! Controller references: an index of objects by controller, adoption and release.

use std::sync::Arc;

use k3_workloads::{ObjectMeta, OwnerReference};
use kube::{Api, core::DynamicObject};
use kubecontroller::{
    object::Object,
    owner::{BaseControllerRefManager, ClaimDecision},
    resource::Resource,
    store::{Index, Store},
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use serde::de::IgnoredAny;

use crate::objects::Projection;

/// Index of objects by the UID of their controller; orphans by namespace. All controllers of a kind share the index.
pub(crate) struct OwnerIndex<T> {
    by: Index<T>,
}

/// Adopts and releases objects for one owner.
// upstream: pkg/controller/controller_ref_manager.go BaseControllerRefManager
pub(crate) struct ControllerRefManager<'a> {
    /// Metadata of the owner.
    pub(crate) meta: &'a ObjectMeta,
    /// Resource of the owner.
    pub(crate) resource: &'static Resource,
    /// Resource of the owned objects.
    pub(crate) children: &'static Resource,
}

// --- OwnerIndex ---

impl<T: Object> OwnerIndex<T> {
    /// The index of a store.
    pub(crate) fn new(store: &Store<T>) -> Self {
        let by = store.shared_index("controller", |object| {
            let owner = object.controller().map(|owner| owner.uid.to_owned());
            vec![owner.unwrap_or_else(|| orphans_of(object.namespace()))]
        });
        OwnerIndex { by }
    }

    /// Objects controlled by an owner.
    pub(crate) fn children(&self, uid: &str) -> Vec<Arc<T>> {
        self.by.get(uid)
    }

    /// Objects without a controller in a namespace.
    pub(crate) fn orphans(&self, namespace: &str) -> Vec<Arc<T>> {
        self.by.get(&orphans_of(namespace))
    }
}

impl<T> Clone for OwnerIndex<T> {
    fn clone(&self) -> Self {
        OwnerIndex { by: self.by.clone() }
    }
}

/// A UID never contains a slash.
fn orphans_of(namespace: &str) -> String {
    format!("{namespace}/")
}

// --- ControllerRefManager ---

impl ControllerRefManager<'_> {
    /// The owner reference to it.
    pub(crate) fn owner(&self) -> OwnerReference {
        self.meta.as_controller(self.resource)
    }

    /// Adopts matching orphans, releases objects that no longer match, and returns those it controls. Before the first adoption the
    /// server is asked whether the owner still exists: a deleted owner must not adopt.
    // upstream: pkg/controller/controller_ref_manager.go ClaimObject, ClaimPods, ClaimReplicaSets
    pub(crate) async fn claim<T: Object>(
        &self,
        writer: &ApiWriter,
        candidates: Vec<Arc<T>>,
        matches: impl Fn(&T) -> bool,
    ) -> kube::Result<Vec<Arc<T>>> {
        let claimant = BaseControllerRefManager {
            reference: self.owner().into(),
            namespace: self.meta.namespace.to_string(),
            is_terminating: self.meta.is_terminating(),
        };
        let is_settled = |object: &Arc<T>| {
            let claim = claimant.decide(&**object, &matches);
            matches!(claim, ClaimDecision::Keep | ClaimDecision::Ignore)
        };
        if candidates.iter().all(is_settled) {
            let is_kept = |object: &Arc<T>| claimant.decide(&**object, &matches) == ClaimDecision::Keep;
            return Ok(candidates.into_iter().filter(is_kept).collect());
        }
        let kind = self.children.api_resource();
        let api = Api::<DynamicObject>::namespaced_with(writer.client().clone(), &self.meta.namespace, &kind);
        claimant
            .claim_objects(&api, candidates, matches, || self.is_there(writer))
            .await
    }

    /// Whether the owner exists on the server and is not terminating.
    // upstream: pkg/controller/controller_ref_manager.go RecheckDeletionTimestamp, CanAdopt
    pub(crate) async fn is_there(&self, writer: &ApiWriter) -> kube::Result<bool> {
        let object_ref = ObjectRef::new(self.resource, &self.meta.namespace, &self.meta.name);
        match writer.get::<Projection<IgnoredAny>>(object_ref).await {
            Ok(fresh) => Ok(fresh.metadata.uid == self.meta.uid && !fresh.metadata.is_terminating()),
            Err(error) if has_status_code(&error, 404) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
