//! Owners: who an object was made for, and who looks after it.
//!
//! An object has at most one owner that controls it. Owners are in the namespace of what they own, or in none; the garbage
//! collector would take anything else for an orphan and delete it.

use std::{fmt::Debug, future::Future, sync::Arc};

use futures_util::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::object::Object;

/// Why an object cannot be owned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerReferenceError {
    /// Somebody else controls it.
    #[error("{child} cannot be controlled by {owner}: {controller} controls it already")]
    AlreadyOwned {
        /// The object.
        child: String,
        /// Who controls it.
        controller: String,
        /// Who wanted to.
        owner: String,
    },
    /// What is in a namespace cannot own what is in none.
    #[error("{child} is in no namespace and cannot be owned by {owner}, which is in one")]
    ClusterScopedChild {
        /// The object.
        child: String,
        /// Who wanted to own it.
        owner: String,
    },
    /// Owners are in the namespace of what they own.
    #[error("{child} cannot be owned by {owner}, which is in another namespace")]
    CrossNamespace {
        /// The object.
        child: String,
        /// Who wanted to own it.
        owner: String,
    },
    /// An owner that was not created yet has no uid.
    #[error("{owner} cannot own anything: it has no name or no uid")]
    MissingUid {
        /// Who wanted to own something.
        owner: String,
    },
}

/// What is to become of an object that a controller may look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    /// It is the controller's, and stays.
    Keep,
    /// It has no controller, and the selector matches: it becomes the controller's.
    Adopt,
    /// It is the controller's, but the selector no longer matches: it is let go.
    Release,
    /// It is none of the controller's business.
    Ignore,
}

/// Who claims objects.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseControllerRefManager {
    /// How objects refer to it.
    pub reference: OwnerReference,
    /// Its namespace; empty if it is in none.
    pub namespace: String,
    /// Whether it is going: then it takes nothing and lets nothing go.
    pub is_terminating: bool,
}

// --- references ---

/// How objects refer to the one that controls them.
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

/// Makes `owner` the one that controls `child`, which is about to be written. A reference that is there already is renewed.
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
pub fn set_controller_reference<O, C>(owner: &O, child: &mut C) -> Result<(), OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    check_places(owner, child)?;
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
    put(reference, child);
    Ok(())
}

/// Makes `owner` one of the owners of `child`, which goes when all of them are gone.
pub fn set_owner_reference<O, C>(owner: &O, child: &mut C) -> Result<(), OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    check_places(owner, child)?;
    let reference = owner
        .owner_ref(&())
        .ok_or_else(|| OwnerReferenceError::MissingUid {
            owner: name_of(owner),
        })?;
    put(reference, child);
    Ok(())
}

fn check_places<O, C>(owner: &O, child: &C) -> Result<(), OwnerReferenceError>
where
    O: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    let places = (
        owner.meta().namespace.as_deref(),
        child.meta().namespace.as_deref(),
    );
    let names = || (name_of(child), name_of(owner));
    match places {
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

fn put<C: Resource<DynamicType = ()>>(reference: OwnerReference, child: &mut C) {
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

// --- claims ---

impl BaseControllerRefManager {
    /// An object that controls others.
    pub fn new<O: Resource<DynamicType = ()>>(owner: &O) -> Result<Self, OwnerReferenceError> {
        Ok(BaseControllerRefManager {
            reference: controller_reference(owner)?,
            namespace: owner.meta().namespace.clone().unwrap_or_default(),
            is_terminating: owner.meta().deletion_timestamp.is_some(),
        })
    }

    /// What is to become of an object, which the controller's selector matches or not.
    pub fn decide<T: Object>(&self, object: &T, is_match: bool) -> ClaimDecision {
        let Some(controller) = object.controller() else {
            let is_elsewhere = !self.namespace.is_empty() && self.namespace != object.namespace();
            let may_adopt = is_match && !self.is_terminating && !object.is_terminating() && !is_elsewhere;
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

    /// Adopts and releases objects, and gives those that are the controller's then.
    ///
    /// Before the first adoption `may_adopt` is asked, once: it should read the controller from the API and tell whether it is
    /// still there, with the same uid, and not going. What is in the store may be older than its end, and an object must not be
    /// given to an owner that is gone.
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
        let (mut mine, mut orphans, mut strangers) = (Vec::new(), Vec::new(), Vec::new());
        for object in objects {
            match self.decide(&*object, matches(&object)) {
                ClaimDecision::Keep => mine.push(object),
                ClaimDecision::Adopt => orphans.push(object),
                ClaimDecision::Release => strangers.push(object),
                ClaimDecision::Ignore => {}
            }
        }
        for released in join_all(strangers.iter().map(|object| self.release(api, &**object))).await {
            released?;
        }
        if !orphans.is_empty() && may_adopt().await? {
            let adopted = join_all(orphans.iter().map(|object| self.adopt(api, &**object))).await;
            for (object, is_adopted) in orphans.into_iter().zip(adopted) {
                if is_adopted? {
                    mine.push(object);
                }
            }
        }
        Ok(mine)
    }

    /// Makes the controller the owner of an object that has none. Says whether the object was still there.
    pub async fn adopt<K, T>(&self, api: &Api<K>, object: &T) -> Result<bool, kube::Error>
    where
        K: Clone + DeserializeOwned + Debug,
        T: Object,
    {
        let owners: Vec<_> = object.owners().map(|owner| owner.uid).collect();
        let mut operations = vec![same_object(object)];
        if owners.is_empty() {
            operations.push(json!({"op": "test", "path": "/metadata/ownerReferences", "value": null}));
            operations
                .push(json!({"op": "add", "path": "/metadata/ownerReferences", "value": [self.reference]}));
        } else {
            operations
                .push(json!({"op": "add", "path": "/metadata/ownerReferences/-", "value": self.reference}));
        }
        patch(api, object, operations).await
    }

    /// Lets an object go. One that is gone, or another one by now, is let go already.
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
        let operations = vec![same_object(object), test, json!({"op": "remove", "path": path})];
        patch(api, object, operations).await.map(|_| ())
    }
}

/// Not another object that has the name by now.
fn same_object<T: Object>(object: &T) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": object.uid()})
}

/// Says whether the object was still there.
async fn patch<K, T>(api: &Api<K>, object: &T, operations: Vec<Value>) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
    T: Object,
{
    let operations = serde_json::from_value(Value::Array(operations)).map_err(kube::Error::SerdeError)?;
    let patch = Patch::Json::<()>(operations);
    match api.patch(object.name(), &PatchParams::default(), &patch).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
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
        let mistake = set_controller_reference(&set("c"), &mut child).unwrap_err();
        let words =
            "Pod shop/pod cannot be controlled by ReplicaSet shop/c: ReplicaSet a controls it already";
        assert_eq!(mistake.to_string(), words);
        assert_eq!(owners(&child).len(), 2);
        // An owner that is to control the object is promoted, not listed twice.
        let mut child = pod("pod", &json!({}));
        set_owner_reference(&set("a"), &mut child).unwrap();
        set_controller_reference(&set("a"), &mut child).unwrap();
        assert_eq!(owners(&child), [("a", true)]);
    }

    #[test]
    fn owners_are_in_the_namespace_of_what_they_own_or_in_none() {
        let elsewhere: ReplicaSet = object(&json!({"name": "a", "namespace": "blog", "uid": "1"}));
        let mut child = pod("pod", &json!({}));
        let mistake = set_controller_reference(&elsewhere, &mut child).unwrap_err();
        assert!(
            matches!(mistake, OwnerReferenceError::CrossNamespace { .. }),
            "{mistake}"
        );
        let mut node: Node = object(&json!({"name": "n1"}));
        let mistake = set_controller_reference(&set("a"), &mut node).unwrap_err();
        assert!(
            matches!(mistake, OwnerReferenceError::ClusterScopedChild { .. }),
            "{mistake}"
        );
        let cluster_wide: Namespace = object(&json!({"name": "shop", "uid": "1"}));
        set_controller_reference(&cluster_wide, &mut child).unwrap();
        set_owner_reference(&cluster_wide, &mut node).unwrap();
        let nameless: ConfigMap = object(&json!({"name": "a", "namespace": "shop"}));
        let mistake = set_owner_reference(&nameless, &mut child).unwrap_err();
        assert!(
            matches!(mistake, OwnerReferenceError::MissingUid { .. }),
            "{mistake}"
        );
    }

    #[test]
    fn what_becomes_of_an_object_depends_on_owner_selector_and_who_is_going() {
        let claimant = BaseControllerRefManager::new(&set("a")).unwrap();
        let going = BaseControllerRefManager {
            is_terminating: true,
            ..claimant.clone()
        };
        let owner = |name: &str| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": format!("uid-{name}"), "controller": true}]);
        let mine = pod("pod", &json!({"ownerReferences": owner("a")}));
        let theirs = pod("pod", &json!({"ownerReferences": owner("b")}));
        let orphan = pod("pod", &json!({}));
        let going_orphan = pod("pod", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let far_orphan = pod("pod", &json!({"namespace": "blog"}));
        for (claimant, object, is_match, claim) in [
            (&claimant, &mine, true, ClaimDecision::Keep),
            (&claimant, &mine, false, ClaimDecision::Release),
            (&going, &mine, true, ClaimDecision::Keep),
            (&going, &mine, false, ClaimDecision::Ignore),
            (&claimant, &theirs, true, ClaimDecision::Ignore),
            (&claimant, &theirs, false, ClaimDecision::Ignore),
            (&claimant, &orphan, true, ClaimDecision::Adopt),
            (&claimant, &orphan, false, ClaimDecision::Ignore),
            (&going, &orphan, true, ClaimDecision::Ignore),
            (&claimant, &going_orphan, true, ClaimDecision::Ignore),
            (&claimant, &far_orphan, true, ClaimDecision::Ignore),
        ] {
            assert_eq!(
                claimant.decide(object, is_match),
                claim,
                "{:?} {is_match}",
                object.metadata
            );
        }
    }

    #[tokio::test]
    async fn claims_are_written() {
        let api = FakeApi::new();
        let pods: Api<Pod> = Api::namespaced(api.client(), "shop");
        let claimant = BaseControllerRefManager::new(&set("a")).unwrap();
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
        let ours = serde_json::to_value(&claimant.reference).unwrap();
        let all = [
            pod("bare", &json!({})),
            pod("owned", &json!({"ownerReferences": [other]})),
            pod("kept", &json!({"ownerReferences": [ours]})),
            pod(
                "left",
                &json!({"ownerReferences": [other, ours], "labels": {"app": "db"}}),
            ),
            pod("foreign", &json!({"labels": {"app": "db"}})),
            pod("gone", &json!({"uid": "1"})),
        ];
        let all: Vec<_> = all.iter().map(|pod| Arc::new(api.put(pod))).collect();
        api.remove::<Pod>("shop", "gone");
        let is_web = |pod: &Pod| pod.label("app") == Some("web");

        let asked = Cell::new(0);
        let may = |answer: bool| {
            asked.set(asked.get() + 1);
            std::future::ready(Ok(answer))
        };
        let mine = claimant
            .claim_objects(&pods, all.clone(), is_web, || may(false))
            .await
            .unwrap();
        assert_eq!((mine.len(), asked.get()), (1, 1));
        let mine = claimant.claim_objects(&pods, all, is_web, || may(true)).await;
        // The one that was released meanwhile is not released twice: that is an answer of the API, and tried again.
        assert!(mine.is_err());
        let all: Vec<_> = api.list::<Pod>().into_iter().map(Arc::new).collect();
        let mine = claimant
            .claim_objects(&pods, all, is_web, || may(true))
            .await
            .unwrap();
        let mut names: Vec<_> = mine.iter().map(|pod| pod.name().to_owned()).collect();
        names.sort();
        assert_eq!(
            (names, asked.get()),
            (vec!["bare".into(), "kept".into(), "owned".into()], 2)
        );
        let left: Pod = api.get("shop", "left").unwrap();
        assert_eq!(owners(&left), [("c", false)]);
        let owned: Pod = api.get("shop", "owned").unwrap();
        assert_eq!(owners(&owned), [("c", false), ("a", true)]);
        let bare: Pod = api.get("shop", "bare").unwrap();
        assert_eq!(owners(&bare), [("a", true)]);
    }
}
