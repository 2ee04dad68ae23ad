//! Expected scale of the controllers of pods.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k3_workloads::{OwnerReference, Pod};
use kubecontroller::{Key, store::Store};
use serde::Deserialize;

use crate::{
    objects::{Deployment, Projection, ReplicaSet, ReplicationController, StatefulSet},
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};

/// The scale subresource of any kind.
type Scale = Projection<ScaleSpec>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: i32,
}

/// Finds the scale of controllers.
pub(super) struct ScaleFinder {
    pub(super) writer: ApiWriter,
    pub(super) controllers: Store<ReplicationController>,
    pub(super) sets: Store<ReplicaSet>,
    pub(super) deployments: Store<Deployment>,
    pub(super) stateful: Store<StatefulSet>,
}

/// The total scale.
#[derive(Debug, Default)]
pub(super) struct ExpectedScale {
    pub(super) wanted: i32,
    /// Whether there are pods without a controller (unmanaged pods).
    pub(super) has_unmanaged_pods: bool,
}

/// Why the scale is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("found no controllers for pod {0:?}")]
    NoController(Box<str>),
    #[error("no matches for kind {kind:?} in version {version:?}")]
    NoKind { kind: Box<str>, version: Box<str> },
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    #[error("{}", crate::writer::error_message(.0))]
    Api(#[from] kube::Error),
}

/// Resources of a group and version.
#[derive(Deserialize)]
struct ApiResourceList {
    #[serde(default)]
    resources: Vec<ApiResourceEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiResourceEntry {
    name: String,
    kind: String,
    namespaced: bool,
}

// --- ScaleFinder ---

impl ScaleFinder {
    /// The total scale of the controllers of these pods.
    // upstream: pkg/controller/disruption/disruption.go getExpectedScale
    pub(super) async fn expected_scale(&self, pods: &[Arc<Pod>]) -> Result<ExpectedScale, ScaleError> {
        let mut has_unmanaged_pods = false;
        // By UID of a pod's controller: several of them may have the same owner, which counts once.
        let mut seen: HashSet<&str> = HashSet::new();
        let mut wanted: HashMap<Box<str>, i32> = HashMap::new();
        for pod in pods {
            let Some(owner) = pod.metadata.controller() else {
                has_unmanaged_pods = true;
                continue;
            };
            if !seen.insert(&owner.uid) {
                continue;
            }
            let scale = match self.scale_from_informers(owner, &pod.metadata.namespace) {
                Some(scale) => Some(scale),
                None => {
                    self.scale_from_subresource(owner, &pod.metadata.namespace)
                        .await?
                }
            };
            let (uid, replicas) = scale.ok_or_else(|| ScaleError::NoController(pod.metadata.name.clone()))?;
            wanted.insert(uid, replicas);
        }
        Ok(ExpectedScale {
            wanted: wanted.values().fold(0, |sum, one| sum.saturating_add(*one)),
            has_unmanaged_pods,
        })
    }

    /// From informers: UID of the scale's owner, and the scale.
    // upstream: pkg/controller/disruption/disruption.go getPodReplicaSet, getPodStatefulSet, getPodDeployment, getPodReplicationController
    fn scale_from_informers(&self, owner: &OwnerReference, namespace: &str) -> Option<(Box<str>, i32)> {
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

    /// From the scale subresource of any kind.
    // upstream: pkg/controller/disruption/disruption.go getScaleController, implementsScale
    async fn scale_from_subresource(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<(Box<str>, i32)>, ScaleError> {
        let version = &*owner.api_version;
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let listed: ApiResourceList = match self
            .writer
            .get_path(&format!("{root}/{version}"), "application/json")
            .await
        {
            Err(error) if has_status_code(&error, 404) => ApiResourceList {
                resources: Vec::new(),
            },
            listed => listed?,
        };
        let is_meant =
            |resource: &&ApiResourceEntry| resource.kind == *owner.kind && !resource.name.contains('/');
        let Some(found) = listed.resources.iter().find(is_meant) else {
            return Err(ScaleError::NoKind {
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
                Err(ScaleError::NoScale(named.join(".")))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The scale of an owner with the expected UID, not of another object with its name.
fn scale(owner: &OwnerReference, uid: &str, replicas: i32) -> Option<(Box<str>, i32)> {
    (&*owner.uid == uid).then(|| (uid.into(), replicas))
}

fn group(owner: &OwnerReference) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}
