//! How many pods the owners of pods want.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kubecontroller::{Key, store::Store};
use serde::Deserialize;

use crate::{
    objects::{Deployment, Owner, Pod, Projection, ReplicaSet, ReplicationController, StatefulSet},
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};

/// What the server says of anything that can be scaled.
type Scale = Projection<Wanted>;

/// How many pods are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Wanted {
    replicas: i32,
}

/// Where it is said how many pods are wanted.
pub(super) struct Scales {
    pub(super) writer: ApiWriter,
    pub(super) controllers: Store<ReplicationController>,
    pub(super) sets: Store<ReplicaSet>,
    pub(super) deployments: Store<Deployment>,
    pub(super) stateful: Store<StatefulSet>,
}

/// How many pods are wanted in all.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) wanted: i32,
    /// Whether there are pods that nobody controls, of which nobody says how many there are to be.
    pub(super) has_strays: bool,
}

/// Why nobody knows how many pods are wanted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("found no controllers for pod {0:?}")]
    NoController(Box<str>),
    #[error("no matches for kind {kind:?} in version {version:?}")]
    NoKind { kind: Box<str>, version: Box<str> },
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    #[error("{}", crate::writer::error_message(.0))]
    Api(#[from] kube::Error),
}

/// The resources of a group and version.
#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    resources: Vec<ListedResource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedResource {
    name: String,
    kind: String,
    namespaced: bool,
}

// --- Scales ---

impl Scales {
    /// How many pods the controllers of these pods want in all.
    pub(super) async fn total(&self, pods: &[Arc<Pod>]) -> Result<Total, Unknown> {
        let mut has_strays = false;
        // By the uid of the controller of a pod: several of these may have the same owner, which counts once.
        let mut seen: HashSet<&str> = HashSet::new();
        let mut wanted: HashMap<Box<str>, i32> = HashMap::new();
        for pod in pods {
            let Some(owner) = pod.metadata.controller() else {
                has_strays = true;
                continue;
            };
            if !seen.insert(&owner.uid) {
                continue;
            }
            let scale = match self.known(owner, &pod.metadata.namespace) {
                Some(scale) => Some(scale),
                None => self.asked(owner, &pod.metadata.namespace).await?,
            };
            let (uid, replicas) = scale.ok_or_else(|| Unknown::NoController(pod.metadata.name.clone()))?;
            wanted.insert(uid, replicas);
        }
        Ok(Total {
            wanted: wanted.values().fold(0, |sum, one| sum.saturating_add(*one)),
            has_strays,
        })
    }

    /// What informers know: the uid of who wants pods, and how many.
    fn known(&self, owner: &Owner, namespace: &str) -> Option<(Box<str>, i32)> {
        let key = Key::new(namespace, &owner.name);
        match (group(owner), &*owner.kind) {
            ("", "ReplicationController") => {
                let controller = self.controllers.get(&key)?;
                scale(owner, &controller.metadata.uid, controller.spec.replicas)
            }
            ("apps" | "extensions", "ReplicaSet") => {
                let set = self.sets.get(&key)?;
                let own = scale(owner, &set.metadata.uid, set.spec.replicas)?;
                let Some(above) = set
                    .metadata
                    .controller()
                    .filter(|above| &*above.kind == "Deployment")
                else {
                    return Some(own);
                };
                let deployment = self.deployments.get(&Key::new(namespace, &above.name))?;
                let is_known = ["apps", "extensions"].contains(&group(above));
                scale(above, &deployment.metadata.uid, deployment.spec.replicas).filter(|_| is_known)
            }
            ("apps", "StatefulSet") => {
                let set = self.stateful.get(&key)?;
                scale(owner, &set.metadata.uid, set.spec.replicas)
            }
            _ => None,
        }
    }

    /// What the server says of any kind that can be scaled.
    async fn asked(&self, owner: &Owner, namespace: &str) -> Result<Option<(Box<str>, i32)>, Unknown> {
        let version = &*owner.api_version;
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let listed: Listed = match self
            .writer
            .get_path(&format!("{root}/{version}"), "application/json")
            .await
        {
            Err(error) if has_status_code(&error, 404) => Listed {
                resources: Vec::new(),
            },
            listed => listed?,
        };
        let is_meant =
            |resource: &&ListedResource| resource.kind == *owner.kind && !resource.name.contains('/');
        let Some(found) = listed.resources.iter().find(is_meant) else {
            return Err(Unknown::NoKind {
                kind: owner.kind.clone(),
                version: version.into(),
            });
        };
        let group = group(owner);
        let resource = Resource {
            group: group.to_owned().into(),
            version: version.rsplit('/').next().unwrap_or_default().to_owned().into(),
            plural: found.name.clone().into(),
            kind: owner.kind.to_string().into(),
            namespaced: found.namespaced,
        };
        let object_ref = ObjectRef::new(&resource, namespace, &owner.name).subresource("scale");
        match self.writer.get::<Scale>(object_ref).await {
            Ok(scaled) => Ok(scale(owner, &scaled.metadata.uid, scaled.spec.replicas)),
            Err(error) if has_status_code(&error, 404) => {
                let part = format!("{}/scale", found.name);
                if listed.resources.iter().any(|resource| resource.name == part) {
                    return Ok(None);
                }
                let parts = [&*found.name, group];
                let named: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                Err(Unknown::NoScale(named.join(".")))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What is known of an owner, if it is the one that is meant and not another of its name.
fn scale(owner: &Owner, uid: &str, replicas: i32) -> Option<(Box<str>, i32)> {
    (&*owner.uid == uid).then(|| (uid.into(), replicas))
}

fn group(owner: &Owner) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}
