//! Owners and what they own: found by an index, taken in and let go.

use std::sync::Arc;

use kube::{Api, core::DynamicObject};
use kubecontroller::{
    object::Object,
    owner::{BaseControllerRefManager, ClaimDecision},
    store::{Index, Store},
};
use serde::de::IgnoredAny;

use crate::{
    objects::{Meta, Owner, Projection},
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};

/// Objects by the uid of the owner that controls them, and by the namespace if they have none. All controllers of a kind
/// share the index.
pub(crate) struct OwnerIndex<T> {
    by: Index<T>,
}

/// An owner that looks for what is its own.
pub(crate) struct ControllerRefManager<'a> {
    /// Its metadata.
    pub(crate) meta: &'a Meta,
    /// What it is.
    pub(crate) resource: &'static Resource,
    /// What its children are.
    pub(crate) children: &'static Resource,
}

// --- Family ---

impl<T: Object> OwnerIndex<T> {
    /// The family that is in a store.
    pub(crate) fn new(store: &Store<T>) -> Self {
        let by = store.shared_index("family", |object| {
            let owner = object.controller().map(|owner| owner.uid.to_owned());
            vec![owner.unwrap_or_else(|| orphans_of(object.namespace()))]
        });
        OwnerIndex { by }
    }

    /// What an owner controls.
    pub(crate) fn children(&self, uid: &str) -> Vec<Arc<T>> {
        self.by.get(uid)
    }

    /// What nobody controls in a namespace.
    pub(crate) fn orphans(&self, namespace: &str) -> Vec<Arc<T>> {
        self.by.get(&orphans_of(namespace))
    }
}

impl<T> Clone for OwnerIndex<T> {
    fn clone(&self) -> Self {
        OwnerIndex { by: self.by.clone() }
    }
}

/// No uid has a slash.
fn orphans_of(namespace: &str) -> String {
    format!("{namespace}/")
}

// --- Parent ---

impl ControllerRefManager<'_> {
    /// How children refer to it.
    pub(crate) fn owner(&self) -> Owner {
        self.meta.as_controller(self.resource)
    }

    /// Takes in orphans that match, lets children go that do not, and gives those that are its own then. Before the first is
    /// taken in, the server is asked whether the parent is still there: nothing is given to an owner that is gone.
    pub(crate) async fn claim<T: Object>(
        &self,
        writer: &ApiWriter,
        candidates: Vec<Arc<T>>,
        matches: impl Fn(&T) -> bool,
    ) -> kube::Result<Vec<Arc<T>>> {
        let claimant = BaseControllerRefManager {
            reference: self.owner().into(),
            namespace: self.meta.namespace.to_string(),
            is_terminating: self.meta.is_going(),
        };
        let is_settled = |object: &Arc<T>| {
            let claim = claimant.decide(&**object, matches(object));
            matches!(claim, ClaimDecision::Keep | ClaimDecision::Ignore)
        };
        if candidates.iter().all(is_settled) {
            let is_kept =
                |object: &Arc<T>| claimant.decide(&**object, matches(object)) == ClaimDecision::Keep;
            return Ok(candidates.into_iter().filter(is_kept).collect());
        }
        let kind = self.children.api_resource();
        let api = Api::<DynamicObject>::namespaced_with(writer.client().clone(), &self.meta.namespace, &kind);
        claimant
            .claim_objects(&api, candidates, matches, || self.is_there(writer))
            .await
    }

    /// Whether the server has it, and it is not going.
    pub(crate) async fn is_there(&self, writer: &ApiWriter) -> kube::Result<bool> {
        let object_ref = ObjectRef::new(self.resource, &self.meta.namespace, &self.meta.name);
        match writer.get::<Projection<IgnoredAny>>(object_ref).await {
            Ok(fresh) => Ok(fresh.metadata.uid == self.meta.uid && !fresh.metadata.is_going()),
            Err(error) if has_status_code(&error, 404) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
