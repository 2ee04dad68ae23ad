//! Plugin `VolumeBinding`: bound volumes must be reachable from the node, unbound claims bindable or provisionable there.

use std::{borrow::Cow, sync::Arc};

use hashbrown::HashMap;

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, PreScoreResult, SchedulerPlugin,
    normalize_score::MAX_NODE_SCORE,
};
use crate::{
    cache::{SchedulerCache, Storage},
    cluster_event::{ClusterEvent, ClusterEventKind},
    interner::Text,
    number::{count, to_f64, to_i64},
    object::{Node, PersistentVolume, PersistentVolumeClaim, Pod, PodVolume},
    status::{FilterResult, Rejection, RejectionCode},
};

#[derive(Debug)]
pub(super) struct VolumeBinding;

/// The claims of a pod, by what is still to be done for them.
#[derive(Clone, Debug, Default)]
pub(super) struct PodVolumeClaims {
    bound: Vec<Arc<PersistentVolumeClaim>>,
    waiting: Vec<Arc<PersistentVolumeClaim>>,
    volumes: HashMap<Text, Vec<Arc<PersistentVolume>>>,
}

/// What is to be written before a pod can run on a node.
#[derive(Clone, Debug, Default)]
pub struct PodVolumes {
    /// Volumes that are to be for claims.
    pub bind: Vec<(Arc<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    /// Claims whose volumes are to be made there.
    pub provision: Vec<Arc<PersistentVolumeClaim>>,
    capacities: Vec<i64>,
}

impl SchedulerPlugin for VolumeBinding {
    type State = PodVolumeClaims;

    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[
            ExtensionPoint::Filter,
            ExtensionPoint::Score,
            ExtensionPoint::Reserve,
        ]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::NodeAdd,
            ClusterEventKind::NodeUpdate,
            ClusterEventKind::PersistentVolumeClaim,
            ClusterEventKind::PersistentVolume,
            ClusterEventKind::StorageClass,
            ClusterEventKind::CsiNode,
            ClusterEventKind::CsiDriver,
            ClusterEventKind::CsiStorageCapacity,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go EventsToRegister
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::NodeAdd(_) | ClusterEvent::PersistentVolume { .. } => true,
            ClusterEvent::NodeUpdate { old, new } => old.labels != new.labels,
            ClusterEvent::StorageClass { old, new } => old.is_none_or(|old| old.topologies != new.topologies),
            ClusterEvent::PersistentVolumeClaim { new, .. } => {
                new.namespace == pod.namespace && pod.claims().any(|name| name == new.name)
            }
            ClusterEvent::CsiNode { old, new } => old.is_none_or(|old| old.migrated != new.migrated),
            ClusterEvent::CsiDriver { old, new } => {
                let uses =
                    |volume: &PodVolume| matches!(volume, PodVolume::Driver(name) if *name == new.name);
                old.capacity && !new.capacity && pod.spec.volumes.iter().any(uses)
            }
            ClusterEvent::CsiStorageCapacity { old, new } => old.is_none_or(|old| new.limit > old.limit),
            _ => false,
        }
    }

    /// Sorts the claims of the pod.
    // upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go PreFilter
    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        claims: &mut PodVolumeClaims,
    ) -> Result<PreFilterResult, Rejection> {
        let CycleContext { pod, cluster } = *cycle;
        let storage = &cluster.storage;
        let mut immediate = false;
        let mut any = false;
        for volume in &pod.spec.volumes {
            let claim = match volume {
                PodVolume::PersistentVolumeClaim(name) => usable_claim(pod, storage, name),
                PodVolume::Ephemeral(volume) => usable_ephemeral_claim(pod, storage, &pod.claim_of(volume)),
                _ => continue,
            };
            any = true;
            let claim = claim.map_err(|unusable| never(unusable.to_string()))?;
            if claim.bound {
                claims.bound.push(claim);
            } else if claim.volume.is_empty() && is_delay_binding_claim(&claim, storage)? {
                let volumes = || storage.volumes_of(&claim.class);
                claims.volumes.entry(claim.class.clone()).or_insert_with(volumes);
                claims.waiting.push(claim);
            } else {
                immediate = true;
            }
        }
        if immediate {
            return Err(Rejection::unresolvable(
                "pod has unbound immediate PersistentVolumeClaims",
            ));
        }
        claims.waiting.sort_by_key(|claim| claim.asked);
        Ok(PreFilterResult::all_if(any))
    }

    // upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go Filter
    fn filter(
        &self,
        cycle: &CycleContext<'_>,
        claims: &PodVolumeClaims,
        node: &CandidateNode<'_>,
    ) -> FilterResult {
        find_pod_volumes(claims, &cycle.cluster.storage, node.node).map(drop)
    }

    fn pre_score(
        &self,
        _: &CycleContext<'_>,
        claims: &mut PodVolumeClaims,
        _: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        PreScoreResult::score_if(claims.any_waiting())
    }

    // upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go Score
    fn score(&self, cycle: &CycleContext<'_>, claims: &PodVolumeClaims, node: &CandidateNode<'_>) -> i64 {
        score(claims, &cycle.cluster.storage, node.node)
    }

    // upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go Reserve
    fn reserve(
        &self,
        cycle: &CycleContext<'_>,
        claims: &PodVolumeClaims,
        node: &CandidateNode<'_>,
        volumes: &mut PodVolumes,
    ) -> Result<(), Rejection> {
        if claims.any_waiting() {
            *volumes = find_pod_volumes(claims, &cycle.cluster.storage, node.node)?;
        }
        Ok(())
    }
}

/// Why a pod cannot use a claim.
#[derive(Debug, thiserror::Error)]
enum UnusableClaim {
    #[error("persistentvolumeclaim \"{0}\" not found")]
    NotFound(Text),
    #[error("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{0}\"")]
    NotCreated(Text),
    #[error("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\"")]
    Lost { name: Text, volume: Text },
    #[error("persistentvolumeclaim \"{0}\" is being deleted")]
    Terminating(Text),
    #[error("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)")]
    NotOwned {
        namespace: Text,
        name: Text,
        pod: Box<str>,
    },
}

/// The claim that a pod names.
// upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go podHasPVCs
fn usable_claim(
    pod: &Pod,
    storage: &Storage,
    name: &Text,
) -> Result<Arc<PersistentVolumeClaim>, UnusableClaim> {
    let Some(claim) = storage.claim(&pod.namespace, name) else {
        return Err(UnusableClaim::NotFound(name.clone()));
    };
    if claim.lost {
        return Err(UnusableClaim::Lost {
            name: name.clone(),
            volume: claim.volume.clone(),
        });
    }
    if claim.terminating {
        return Err(UnusableClaim::Terminating(name.clone()));
    }
    Ok(claim.clone())
}

/// The claim that is created for an ephemeral volume of a pod.
// upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go podHasPVCs
fn usable_ephemeral_claim(
    pod: &Pod,
    storage: &Storage,
    name: &Text,
) -> Result<Arc<PersistentVolumeClaim>, UnusableClaim> {
    let claim = match usable_claim(pod, storage, name) {
        Err(UnusableClaim::NotFound(name)) => return Err(UnusableClaim::NotCreated(name)),
        found => found?,
    };
    if claim.owner.as_ref() != Some(&pod.uid) {
        return Err(UnusableClaim::NotOwned {
            namespace: pod.namespace.clone(),
            name: name.clone(),
            pod: pod.name.clone(),
        });
    }
    Ok(claim)
}

/// Whether a claim waits for its first pod.
fn is_delay_binding_claim(claim: &PersistentVolumeClaim, storage: &Storage) -> Result<bool, Rejection> {
    let Some(class) = storage.classes.get(&claim.class) else {
        return Ok(false);
    };
    class.waits.ok_or_else(|| {
        let message = format!("VolumeBindingMode not set for StorageClass \"{}\"", class.name);
        Rejection::error(message)
    })
}

fn never(reason: impl Into<Cow<'static, str>>) -> Rejection {
    Rejection::many(RejectionCode::UnschedulableAndUnresolvable, [reason.into()])
}

/// What is to be done for a pod's volumes on a node.
// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go FindPodVolumes
fn find_pod_volumes(
    claims: &PodVolumeClaims,
    storage: &Storage,
    node: &Node,
) -> Result<PodVolumes, Rejection> {
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    match reachable(claims, storage, node) {
        Ok(true) => {}
        Ok(false) => reasons.push("node(s) didn't match PersistentVolume's node affinity".into()),
        Err(missing) => reasons.push(missing.into()),
    }
    let mut decided = PodVolumes::default();
    if let Err(reason) = find(claims, storage, node, &mut decided)? {
        // A volume that is missing is named last.
        let at = usize::from(reasons.first().is_some_and(|first| first.contains("affinity")));
        reasons.insert(at, reason.into());
    }
    if reasons.is_empty() {
        return Ok(decided);
    }
    Err(Rejection::many(
        RejectionCode::UnschedulableAndUnresolvable,
        reasons,
    ))
}

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go checkBoundClaims
fn reachable(claims: &PodVolumeClaims, storage: &Storage, node: &Node) -> Result<bool, &'static str> {
    for claim in &claims.bound {
        let Some(volume) = storage.volume(&claim.volume) else {
            return Err("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)");
        };
        if !reaches(volume, node) {
            return Ok(false);
        }
    }
    Ok(true)
}

// upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go CheckNodeAffinity; it knows the labels alone
fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let required = volume.nodes.as_ref();
    required.is_none_or(|required| required.matches(None, &node.labels))
}

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go findMatchingVolumes, checkVolumeProvisions
fn find(
    claims: &PodVolumeClaims,
    storage: &Storage,
    node: &Node,
    decided: &mut PodVolumes,
) -> Result<Result<(), &'static str>, Rejection> {
    const NOTHING_FITS: &str = "node(s) didn't find available persistent volumes to bind";
    for claim in &claims.waiting {
        if let Some(chosen) = storage.claim_node(claim) {
            if *chosen != node.name {
                return Ok(Err(NOTHING_FITS));
            }
            decided.provision.push(claim.clone());
            continue;
        }
        let taken: Vec<_> = decided
            .bind
            .iter()
            .map(|(volume, _)| volume.name.clone())
            .collect();
        match find_smallest_matching_volume(claim, claims, storage, node, &taken) {
            Some(volume) => decided.bind.push((volume, claim.clone())),
            None => decided.provision.push(claim.clone()),
        }
    }
    for claim in &decided.provision {
        if claim.class.is_empty() {
            let message = format!("no class for claim \"{}/{}\"", claim.namespace, claim.name);
            return Err(Rejection::error(message));
        }
        let Some(class) = storage.classes.get(&claim.class) else {
            let message = format!("failed to find storage class \"{}\"", claim.class);
            return Err(Rejection::error(message));
        };
        let made = !matches!(&*class.provisioner, "" | "kubernetes.io/no-provisioner");
        if !made || !class.reaches(&node.labels) {
            return Ok(Err(NOTHING_FITS));
        }
        match has_enough_capacity(claim, storage, &class.provisioner, node) {
            CapacityCheck::Unknown => {}
            CapacityCheck::Enough(total) => decided.capacities.push(total),
            CapacityCheck::Lacking => return Ok(Err("node(s) did not have enough free storage")),
        }
    }
    Ok(Ok(()))
}

/// The smallest volume that does for a claim on a node.
fn find_smallest_matching_volume(
    claim: &PersistentVolumeClaim,
    claims: &PodVolumeClaims,
    storage: &Storage,
    node: &Node,
    taken: &[Text],
) -> Option<Arc<PersistentVolume>> {
    let mut best: Option<&Arc<PersistentVolume>> = None;
    for volume in claims.volumes.get(&claim.class)? {
        let holder = storage.claim_of(volume);
        let own = holder.is_some_and(|holder| claim.is_in(holder));
        if taken.contains(&volume.name)
            || (holder.is_some() && !own)
            || volume.capacity < claim.asked.unwrap_or(0)
            || volume.mode != claim.mode
            || volume.attributes != claim.attributes
            || volume.terminating
        {
            continue;
        }
        if own {
            return reaches(volume, node).then(|| volume.clone());
        }
        let selected = claim
            .selector
            .as_ref()
            .is_none_or(|selector| selector.matches(&volume.labels));
        let usable = claim.modes.iter().all(|mode| volume.modes.contains(mode));
        let smaller = best.is_none_or(|best| volume.capacity < best.capacity);
        if volume.available && selected && reaches(volume, node) && usable && smaller {
            best = Some(volume);
        }
    }
    best.cloned()
}

enum CapacityCheck {
    Unknown,
    Enough(i64),
    Lacking,
}

/// Whether a driver that publishes storage capacity can provision a volume for a node.
// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go hasEnoughCapacity
fn has_enough_capacity(
    claim: &PersistentVolumeClaim,
    storage: &Storage,
    provisioner: &Text,
    node: &Node,
) -> CapacityCheck {
    let (Some(asked), Some(driver)) = (claim.asked, storage.drivers.get(provisioner)) else {
        return CapacityCheck::Unknown;
    };
    if !driver.capacity {
        return CapacityCheck::Unknown;
    }
    let found = storage.capacities.values().find(|capacity| {
        capacity.class == claim.class
            && capacity.limit.is_some_and(|limit| limit >= asked)
            && capacity
                .nodes
                .as_ref()
                .is_some_and(|nodes| nodes.matches(&node.labels))
    });
    found.map_or(CapacityCheck::Lacking, |capacity| {
        CapacityCheck::Enough(capacity.total)
    })
}

/// How well the volumes that are found fit what is asked: nodes whose storage would be emptier are better.
fn score(claims: &PodVolumeClaims, storage: &Storage, node: &Node) -> i64 {
    let Ok(decided) = find_pod_volumes(claims, storage, node) else {
        return 0;
    };
    let mut classes: HashMap<&Text, (i64, i64)> = HashMap::new();
    if decided.bind.is_empty() {
        for (claim, total) in decided.provision.iter().zip(&decided.capacities) {
            let class = classes.entry(&claim.class).or_default();
            *class = (class.0 + claim.asked.unwrap_or(0), *total);
        }
    } else {
        for (volume, claim) in &decided.bind {
            let class = classes.entry(&volume.class).or_default();
            *class = (class.0 + claim.asked.unwrap_or(0), class.1 + volume.capacity);
        }
    }
    if classes.is_empty() {
        return 0;
    }
    let emptiness = |(asked, has): &(i64, i64)| {
        if *has == 0 || asked > has {
            0
        } else {
            MAX_NODE_SCORE - asked * 100 / has
        }
    };
    let sum: i64 = classes.values().map(emptiness).sum();
    to_i64((to_f64(sum) / to_f64(count(classes.len()))).round())
}

impl PodVolumeClaims {
    /// Whether anything is still to be found or made.
    fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
