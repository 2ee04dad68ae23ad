//! Owner references, adoption and release.
//!
//! An object has at most one controller: the owner reference with `controller: true`. An owner must be in the namespace of the
//! object or cluster-scoped. The garbage collector treats any other owner as absent and deletes the object.

use std::{fmt::Debug, future::Future, sync::Arc};

use futures_util::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{object::Object, writer::is_not_found};

/// Why an owner reference cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerReferenceError {
    /// Another owner controls the object: controller-runtime's `AlreadyOwnedError`.
    #[error("{child} cannot be controlled by {owner}: {controller} controls it already")]
    AlreadyOwned {
        /// The object.
        child: String,
        /// The current controller.
        controller: String,
        /// The owner that was to control it.
        owner: String,
    },
    /// A namespaced object cannot own a cluster-scoped one.
    #[error("{child} is cluster-scoped and cannot be owned by {owner}, which is namespaced")]
    ClusterScopedChild {
        /// The object.
        child: String,
        /// The owner.
        owner: String,
    },
    /// An owner must be in the namespace of the object.
    #[error("{child} cannot be owned by {owner}, which is in another namespace")]
    CrossNamespace {
        /// The object.
        child: String,
        /// The owner.
        owner: String,
    },
    /// The owner has no name or no uid, because it was not created yet.
    #[error("{owner} cannot own other objects: it has no name or no uid")]
    MissingUid {
        /// The owner.
        owner: String,
    },
}

/// What a controller does with an object that it may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    /// The controller owns the object, and its selector matches.
    Keep,
    /// The object has no controller, and the selector matches: set the owner reference.
    Adopt,
    /// The controller owns the object, but its selector no longer matches: remove the owner reference.
    Release,
    /// Another controller owns the object, or neither owner nor selector match.
    Ignore,
}

/// Adopts and releases objects for a controller, such as a `ReplicaSet` for its pods.
// upstream: pkg/controller/controller_ref_manager.go BaseControllerRefManager
#[derive(Clone, Debug, PartialEq)]
pub struct BaseControllerRefManager {
    /// The owner reference to the controller.
    pub reference: OwnerReference,
    /// The namespace of the controller; empty if it is cluster-scoped.
    pub namespace: String,
    /// Whether the controller is terminating. Then it neither adopts nor releases.
    pub is_terminating: bool,
}

// --- owner references ---

/// The owner reference to a controller (`metav1.NewControllerRef`).
#[doc(alias = "NewControllerRef")]
pub fn controller_reference<O>(owner: &O) -> Result<OwnerReference, OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
{
    let reference = owner
        .controller_owner_ref(&())
        .ok_or_else(|| OwnerReferenceError::MissingUid {
            owner: name_of(owner),
        })?;
    Ok(OwnerReference {
        block_owner_deletion: Some(true),
        ..reference
    })
}

/// Makes `owner` the controller of `child`, which is not written yet: controller-runtime's `SetControllerReference`. An existing
/// reference to `owner` is replaced.
///
/// ```
/// use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
/// use kubecontroller::owner::set_controller_reference;
///
/// let mut set = ReplicaSet::default();
/// set.metadata.name = Some("web".to_owned());
/// set.metadata.uid = Some("1".to_owned());
/// let mut pod = Pod::default();
/// set_controller_reference(&set, &mut pod).unwrap();
/// assert_eq!(pod.metadata.owner_references.unwrap()[0].kind, "ReplicaSet");
/// ```
#[doc(alias = "SetControllerReference")]
pub fn set_controller_reference<O, C>(owner: &O, child: &mut C) -> Result<(), OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    check_namespaces(owner, child)?;
    let reference = controller_reference(owner)?;
    let controller = child.meta().owner_references.iter().flatten();
    let other = controller
        .filter(|known| known.controller == Some(true))
        .find(|known| known.uid != reference.uid);
    if let Some(other) = other {
        return Err(OwnerReferenceError::AlreadyOwned {
            child: name_of(child),
            controller: format!("{} {}", other.kind, other.name),
            owner: name_of(owner),
        });
    }
    upsert_reference(reference, child);
    Ok(())
}

/// Makes `owner` one of the owners of `child`, without making it the controller: controller-runtime's `SetOwnerReference`. `child`
/// is garbage collected when its last owner is deleted.
#[doc(alias = "SetOwnerReference")]
pub fn set_owner_reference<O, C>(owner: &O, child: &mut C) -> Result<(), OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    check_namespaces(owner, child)?;
    let reference = owner
        .owner_ref(&())
        .ok_or_else(|| OwnerReferenceError::MissingUid {
            owner: name_of(owner),
        })?;
    upsert_reference(reference, child);
    Ok(())
}

fn check_namespaces<O, C>(owner: &O, child: &C) -> Result<(), OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    let namespaces = (
        owner.meta().namespace.as_deref(),
        child.meta().namespace.as_deref(),
    );
    let names = || (name_of(child), name_of(owner));
    match namespaces {
        (None | Some(""), _) => Ok(()),
        (Some(_), None | Some("")) => {
            let (child, owner) = names();
            Err(OwnerReferenceError::ClusterScopedChild { child, owner })
        }
        (Some(owner), Some(child)) if owner == child => Ok(()),
        (Some(_), Some(_)) => {
            let (child, owner) = names();
            Err(OwnerReferenceError::CrossNamespace { child, owner })
        }
    }
}

fn upsert_reference<C: Resource<DynamicType = ()>>(reference: OwnerReference, child: &mut C) {
    let group_of = |api_version: &str| {
        api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
            .to_owned()
    };
    let references = child.meta_mut().owner_references.get_or_insert_default();
    let is_same = |known: &OwnerReference| {
        let same_kind =
            known.kind == reference.kind && group_of(&known.api_version) == group_of(&reference.api_version);
        known.uid == reference.uid || (same_kind && known.name == reference.name)
    };
    match references.iter_mut().find(|known| is_same(known)) {
        Some(known) => *known = reference,
        None => references.push(reference),
    }
}

/// `Kind namespace/name`.
fn name_of<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let meta = object.meta();
    let name = meta
        .name
        .as_deref()
        .or(meta.generate_name.as_deref())
        .unwrap_or_default();
    match meta.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => format!("{} {namespace}/{name}", K::kind(&())),
        _ => format!("{} {name}", K::kind(&())),
    }
}

// --- BaseControllerRefManager ---

impl BaseControllerRefManager {
    /// A manager for the objects of a controller.
    pub fn new<O: Resource<DynamicType = ()>>(owner: &O) -> Result<Self, OwnerReferenceError> {
        Ok(BaseControllerRefManager {
            reference: controller_reference(owner)?,
            namespace: owner.meta().namespace.clone().unwrap_or_default(),
            is_terminating: owner.meta().deletion_timestamp.is_some(),
        })
    }

    /// Decides what to do with an object. `matches` is whether the selector of the controller matches it.
    // upstream: pkg/controller/controller_ref_manager.go ClaimObject
    pub fn decide<T: Object>(&self, object: &T, matches: impl FnOnce(&T) -> bool) -> ClaimDecision {
        let is_match = matches(object);
        let Some(controller) = object.controller() else {
            let is_foreign = !self.namespace.is_empty() && self.namespace != object.namespace();
            let may_adopt = is_match && !self.is_terminating && !object.is_terminating() && !is_foreign;
            return if may_adopt {
                ClaimDecision::Adopt
            } else {
                ClaimDecision::Ignore
            };
        };
        match (controller.uid == self.reference.uid, is_match) {
            (false, _) => ClaimDecision::Ignore,
            (true, true) => ClaimDecision::Keep,
            (true, false) if self.is_terminating => ClaimDecision::Ignore,
            (true, false) => ClaimDecision::Release,
        }
    }

    /// Adopts and releases objects. Returns the objects that the controller then owns.
    ///
    /// `may_adopt` is called once, before the first adoption. It should read the controller from the API server and return whether
    /// it still exists with the same uid and is not terminating (client-go's `RecheckDeletionTimestamp`). The store may be behind,
    /// and an object must not be given to a deleted owner: the garbage collector would delete it.
    // upstream: pkg/controller/controller_ref_manager.go CanAdopt
    pub async fn claim_objects<K, T, F, Fut>(
        &self,
        api: &Api<K>,
        objects: impl IntoIterator<Item = Arc<T>>,
        matches: impl Fn(&T) -> bool,
        may_adopt: F,
    ) -> Result<Vec<Arc<T>>, kube::Error>
    where
        K: Clone + DeserializeOwned + Debug,
        T: Object,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<bool, kube::Error>>,
    {
        let mut owned = Vec::new();
        let mut to_adopt = Vec::new();
        let mut to_release = Vec::new();
        for object in objects {
            match self.decide(&*object, &matches) {
                ClaimDecision::Keep => owned.push(object),
                ClaimDecision::Adopt => to_adopt.push(object),
                ClaimDecision::Release => to_release.push(object),
                ClaimDecision::Ignore => {}
            }
        }
        for released in join_all(to_release.iter().map(|object| self.release(api, &**object))).await {
            released?;
        }
        if !to_adopt.is_empty() && may_adopt().await? {
            let adopted = join_all(to_adopt.iter().map(|object| self.adopt(api, &**object))).await;
            for (object, is_adopted) in to_adopt.into_iter().zip(adopted) {
                if is_adopted? {
                    owned.push(object);
                }
            }
        }
        Ok(owned)
    }

    /// Adds the owner reference of the controller. Returns false if the object no longer exists.
    // upstream: pkg/controller/controller_ref_manager.go AdoptPod
    pub async fn adopt<K, T>(&self, api: &Api<K>, object: &T) -> Result<bool, kube::Error>
    where
        K: Clone + DeserializeOwned + Debug,
        T: Object,
    {
        let owners: Vec<_> = object.owners().map(|owner| owner.uid).collect();
        let mut operations = vec![test_uid(object)];
        if owners.is_empty() {
            // Fails if an owner was added meanwhile, instead of overwriting it.
            operations.push(json!({"op": "test", "path": "/metadata/ownerReferences", "value": null}));
            operations
                .push(json!({"op": "add", "path": "/metadata/ownerReferences", "value": [self.reference]}));
        } else {
            operations
                .push(json!({"op": "add", "path": "/metadata/ownerReferences/-", "value": self.reference}));
        }
        patch(api, object, operations).await
    }

    /// Removes the owner reference of the controller. Succeeds if the object no longer exists.
    // upstream: pkg/controller/controller_ref_manager.go ReleasePod
    pub async fn release<K, T>(&self, api: &Api<K>, object: &T) -> Result<(), kube::Error>
    where
        K: Clone + DeserializeOwned + Debug,
        T: Object,
    {
        let position = object.owners().position(|owner| owner.uid == self.reference.uid);
        let Some(position) = position else {
            return Ok(());
        };
        let path = format!("/metadata/ownerReferences/{position}");
        let test = json!({"op": "test", "path": format!("{path}/uid"), "value": self.reference.uid});
        let operations = vec![test_uid(object), test, json!({"op": "remove", "path": path})];
        patch(api, object, operations).await.map(|_| ())
    }
}

/// Fails the patch if the object was deleted and recreated under the same name.
fn test_uid<T: Object>(object: &T) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": object.uid()})
}

/// Returns false if the object no longer exists.
async fn patch<K, T>(api: &Api<K>, object: &T, operations: Vec<Value>) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    let operations = serde_json::from_value(Value::Array(operations)).map_err(kube::Error::SerdeError)?;
    let patch = Patch::Json::<()>(operations);
    match api.patch(object.name(), &PatchParams::default(), &patch).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use k8s_openapi::api::{
        apps::v1::ReplicaSet,
        core::v1::{ConfigMap, Namespace, Node, Pod},
    };
    use kube::Api;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::FakeApi;

    fn object<K: DeserializeOwned>(metadata: &Value) -> K {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn set(name: &str) -> ReplicaSet {
        object(&json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}")}))
    }

    fn pod(name: &str, more: &Value) -> Pod {
        let mut metadata = json!({"name": name, "namespace": "shop", "labels": {"app": "web"}});
        for (field, value) in more.as_object().into_iter().flatten() {
            metadata[field] = value.clone();
        }
        object(&metadata)
    }

    fn owners(pod: &Pod) -> Vec<(&str, bool)> {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners
            .map(|owner| (owner.name.as_str(), owner.controller == Some(true)))
            .collect()
    }

    #[test]
    fn an_object_has_one_controller_and_any_number_of_owners() {
        let mut child = pod("pod", &json!({}));
        set_owner_reference(&set("b"), &mut child).unwrap();
        set_controller_reference(&set("a"), &mut child).unwrap();
        set_controller_reference(&set("a"), &mut child).unwrap();
        assert_eq!(owners(&child), [("b", false), ("a", true)]);
        let references = child.metadata.owner_references.clone().unwrap_or_default();
        assert_eq!(references[1].block_owner_deletion, Some(true));
        assert_eq!(
            (references[1].api_version.as_str(), references[1].kind.as_str()),
            ("apps/v1", "ReplicaSet")
        );
        let error = set_controller_reference(&set("c"), &mut child).unwrap_err();
        let message =
            "Pod shop/pod cannot be controlled by ReplicaSet shop/c: ReplicaSet a controls it already";
        assert_eq!(error.to_string(), message);
        assert_eq!(owners(&child).len(), 2);
        // Making an existing owner the controller replaces its reference.
        let mut child = pod("pod", &json!({}));
        set_owner_reference(&set("a"), &mut child).unwrap();
        set_controller_reference(&set("a"), &mut child).unwrap();
        assert_eq!(owners(&child), [("a", true)]);
    }

    #[test]
    fn rejects_owners_in_other_namespaces() {
        let foreign: ReplicaSet = object(&json!({"name": "a", "namespace": "blog", "uid": "1"}));
        let mut child = pod("pod", &json!({}));
        let error = set_controller_reference(&foreign, &mut child).unwrap_err();
        assert!(
            matches!(error, OwnerReferenceError::CrossNamespace { .. }),
            "{error}"
        );
        let mut node: Node = object(&json!({"name": "n1"}));
        let error = set_controller_reference(&set("a"), &mut node).unwrap_err();
        assert!(
            matches!(error, OwnerReferenceError::ClusterScopedChild { .. }),
            "{error}"
        );
        let cluster_scoped: Namespace = object(&json!({"name": "shop", "uid": "1"}));
        set_controller_reference(&cluster_scoped, &mut child).unwrap();
        set_owner_reference(&cluster_scoped, &mut node).unwrap();
        let without_uid: ConfigMap = object(&json!({"name": "a", "namespace": "shop"}));
        let error = set_owner_reference(&without_uid, &mut child).unwrap_err();
        assert!(matches!(error, OwnerReferenceError::MissingUid { .. }), "{error}");
    }

    #[test]
    fn decides_by_controller_selector_namespace_and_deletion() {
        let live = BaseControllerRefManager::new(&set("a")).unwrap();
        let terminating = BaseControllerRefManager {
            is_terminating: true,
            ..live.clone()
        };
        let owner = |name: &str| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": format!("uid-{name}"), "controller": true}]);
        let mine = pod("pod", &json!({"ownerReferences": owner("a")}));
        let theirs = pod("pod", &json!({"ownerReferences": owner("b")}));
        let orphan = pod("pod", &json!({}));
        let terminating_orphan = pod("pod", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let foreign_orphan = pod("pod", &json!({"namespace": "blog"}));
        for (manager, object, is_match, decision) in [
            (&live, &mine, true, ClaimDecision::Keep),
            (&live, &mine, false, ClaimDecision::Release),
            (&terminating, &mine, true, ClaimDecision::Keep),
            (&terminating, &mine, false, ClaimDecision::Ignore),
            (&live, &theirs, true, ClaimDecision::Ignore),
            (&live, &theirs, false, ClaimDecision::Ignore),
            (&live, &orphan, true, ClaimDecision::Adopt),
            (&live, &orphan, false, ClaimDecision::Ignore),
            (&terminating, &orphan, true, ClaimDecision::Ignore),
            (&live, &terminating_orphan, true, ClaimDecision::Ignore),
            (&live, &foreign_orphan, true, ClaimDecision::Ignore),
        ] {
            assert_eq!(
                manager.decide(object, |_| is_match),
                decision,
                "{:?} {is_match}",
                object.metadata
            );
        }
    }

    #[tokio::test]
    async fn claim_objects_adopts_and_releases() {
        let api = FakeApi::new();
        let pods: Api<Pod> = Api::namespaced(api.client(), "shop");
        let manager = BaseControllerRefManager::new(&set("a")).unwrap();
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
        let ours = serde_json::to_value(&manager.reference).unwrap();
        let all = [
            pod("bare", &json!({})),
            pod("owned", &json!({"ownerReferences": [other]})),
            pod("kept", &json!({"ownerReferences": [ours]})),
            pod(
                "released",
                &json!({"ownerReferences": [other, ours], "labels": {"app": "db"}}),
            ),
            pod("foreign", &json!({"labels": {"app": "db"}})),
            pod("deleted", &json!({"uid": "1"})),
        ];
        let all: Vec<_> = all.iter().map(|pod| Arc::new(api.put(pod))).collect();
        api.remove::<Pod>("shop", "deleted");
        let is_web = |pod: &Pod| pod.label("app") == Some("web");

        let checks = Cell::new(0);
        let may_adopt = |answer: bool| {
            checks.set(checks.get() + 1);
            std::future::ready(Ok(answer))
        };
        let owned = manager
            .claim_objects(&pods, all.clone(), is_web, || may_adopt(false))
            .await
            .unwrap();
        assert_eq!((owned.len(), checks.get()), (1, 1));
        let result = manager
            .claim_objects(&pods, all, is_web, || may_adopt(true))
            .await;
        // `all` still has the pod that the first call released. Releasing it again fails its test, and the caller retries.
        assert!(result.is_err());
        let all: Vec<_> = api.list::<Pod>().into_iter().map(Arc::new).collect();
        let owned = manager
            .claim_objects(&pods, all, is_web, || may_adopt(true))
            .await
            .unwrap();
        let mut names: Vec<_> = owned.iter().map(|pod| pod.name().to_owned()).collect();
        names.sort();
        assert_eq!(
            (names, checks.get()),
            (vec!["bare".into(), "kept".into(), "owned".into()], 2)
        );
        let released: Pod = api.get("shop", "released").unwrap();
        assert_eq!(owners(&released), [("c", false)]);
        let owned: Pod = api.get("shop", "owned").unwrap();
        assert_eq!(owners(&owned), [("c", false), ("a", true)]);
        let bare: Pod = api.get("shop", "bare").unwrap();
        assert_eq!(owners(&bare), [("a", true)]);
    }
}
