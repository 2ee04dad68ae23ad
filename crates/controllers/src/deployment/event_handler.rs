//! Maps ReplicaSet and Pod events to the Deployments that have to be synced.

use std::sync::Arc;

use k3_workloads::{ObjectMeta, Pod};
use kubecontroller::{
    Key,
    informer::Delta,
    object::Object,
    store::{Index, Store},
};

use crate::{
    objects::{Deployment, ReplicaSet, StrategyKind},
    resource::{DEPLOYMENTS, REPLICA_SETS},
};

/// Finds the Deployments that a ReplicaSet or a Pod belongs to.
#[derive(Clone)]
pub(super) struct DeploymentEventHandler {
    deployments: Store<Deployment>,
    by_namespace: Index<Deployment>,
    sets: Store<ReplicaSet>,
}

impl DeploymentEventHandler {
    pub(super) fn new(deployments: &Store<Deployment>, sets: &Store<ReplicaSet>) -> Self {
        let by_namespace = deployments.by_namespace();
        DeploymentEventHandler {
            deployments: deployments.clone(),
            by_namespace,
            sets: sets.clone(),
        }
    }

    /// The Deployments to sync after a ReplicaSet changed: the current controller, the previous one, and, for an orphan, all
    /// whose selector matches.
    // upstream: pkg/controller/deployment/deployment_controller.go addReplicaSet, updateReplicaSet, deleteReplicaSet
    pub(super) fn deployments_of_replica_set(&self, delta: &Delta<ReplicaSet>) -> Vec<Key> {
        let (old, new) = match delta {
            Delta::Sync { .. } => return Vec::new(),
            Delta::Added { new, .. } => (None, Some(new)),
            Delta::Updated { old, new } | Delta::Replaced { old, new } => (Some(old), Some(new)),
            Delta::Deleted { last, .. } => (Some(last), None),
        };
        let owner = |set: Option<&Arc<ReplicaSet>>| set.and_then(|set| self.owner(&set.metadata));
        let mut keys: Vec<_> = owner(new)
            .map(|deployment| deployment.key())
            .into_iter()
            .collect();
        if let Some(before) = owner(old).map(|deployment| deployment.key())
            && !keys.contains(&before)
        {
            keys.push(before);
        }
        if let Some(orphan) = new.filter(|set| set.metadata.controller().is_none()) {
            keys.extend(self.adopting_deployments(orphan));
        }
        keys
    }

    /// The Deployment of a deleted pod. Only strategy `Recreate` waits for pods to be deleted.
    // upstream: pkg/controller/deployment/deployment_controller.go deletePod
    pub(super) fn deployments_of_pod(&self, delta: &Delta<Pod>) -> Vec<Key> {
        let Delta::Deleted { last, .. } = delta else {
            return Vec::new();
        };
        let deployment = self.set(&last.metadata).and_then(|set| self.owner(&set.metadata));
        let waits = |deployment: &Arc<Deployment>| deployment.spec.strategy.kind == StrategyKind::Recreate;
        deployment
            .filter(waits)
            .map(|deployment| deployment.key())
            .into_iter()
            .collect()
    }

    fn owner(&self, meta: &ObjectMeta) -> Option<Arc<Deployment>> {
        let owner = meta
            .controller()
            .filter(|owner| *owner.kind == *DEPLOYMENTS.kind)?;
        let deployment = self.deployments.get(&Key::new(&meta.namespace, &owner.name))?;
        (deployment.metadata.uid == owner.uid).then_some(deployment)
    }

    fn set(&self, meta: &ObjectMeta) -> Option<Arc<ReplicaSet>> {
        let owner = meta
            .controller()
            .filter(|owner| *owner.kind == *REPLICA_SETS.kind)?;
        let set = self.sets.get(&Key::new(&meta.namespace, &owner.name))?;
        (set.metadata.uid == owner.uid).then_some(set)
    }

    fn adopting_deployments(&self, set: &ReplicaSet) -> Vec<Key> {
        if set.metadata.labels.is_empty() {
            return Vec::new();
        }
        let would_adopt = |deployment: &&Arc<Deployment>| {
            let selector = &deployment.spec.selector.selector;
            !selector.is_empty() && selector.matches(&set.metadata.labels)
        };
        let deployments = self.by_namespace.get(&set.metadata.namespace);
        deployments
            .iter()
            .filter(would_adopt)
            .map(|deployment| deployment.key())
            .collect()
    }
}
