//! A pod goes where its volumes are, or where they can be found or made.

use std::{borrow::Cow, sync::Arc};

use hashbrown::HashMap;

use super::{Plugin, calls::Early, score::MAX};
use crate::{
    cluster::{Cluster, Storage},
    event::Event,
    number::{count, real, whole},
    object::{Claim, Node, Pod, Volume, VolumeUse},
    pool::Text,
    status::{Code, Rejection, Verdict},
};

/// The claims of a pod, by what is still to be done for them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    bound: Vec<Arc<Claim>>,
    waiting: Vec<Arc<Claim>>,
    volumes: HashMap<Text, Vec<Arc<Volume>>>,
}

/// What is to be written before a pod can run on a node.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Volumes that are to be for claims.
    pub bind: Vec<(Arc<Volume>, Arc<Claim>)>,
    /// Claims whose volumes are to be made there.
    pub provision: Vec<Arc<Claim>>,
    room: Vec<i64>,
}

/// Sorts the claims of a pod.
pub(super) fn pre_filter(pod: &Pod, cluster: &Cluster) -> Result<(Early, Claims), Rejection> {
    let storage = &cluster.storage;
    let mut claims = Claims::default();
    let mut immediate = false;
    let mut any = false;
    for volume in &pod.spec.volumes {
        let (name, ephemeral) = match volume {
            VolumeUse::Claim(name) => (name.clone(), false),
            VolumeUse::Ephemeral(volume) => (pod.claim_of(volume), true),
            _ => continue,
        };
        any = true;
        let claim = usable(pod, storage, &name, ephemeral).map_err(never)?;
        if claim.bound {
            claims.bound.push(claim);
        } else if claim.volume.is_empty() && waits(&claim, storage)? {
            let volumes = || storage.volumes_of(&claim.class);
            claims.volumes.entry(claim.class.clone()).or_insert_with(volumes);
            claims.waiting.push(claim);
        } else {
            immediate = true;
        }
    }
    if immediate {
        return Err(Rejection::never(
            Plugin::VolumeBinding,
            "pod has unbound immediate PersistentVolumeClaims",
        ));
    }
    claims.waiting.sort_by_key(|claim| claim.asked);
    Ok((if any { Early::All } else { Early::Skip }, claims))
}

fn usable(pod: &Pod, storage: &Storage, name: &Text, ephemeral: bool) -> Result<Arc<Claim>, String> {
    let Some(claim) = storage.claim(&pod.namespace, name) else {
        return Err(if ephemeral {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\"")
        } else {
            format!("persistentvolumeclaim \"{name}\" not found")
        });
    };
    if claim.lost {
        let volume = &claim.volume;
        return Err(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
        ));
    }
    if claim.going {
        return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if ephemeral && claim.owner.as_ref() != Some(&pod.uid) {
        let (namespace, pod) = (&pod.namespace, &pod.name);
        return Err(format!(
            "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
        ));
    }
    Ok(claim.clone())
}

/// Whether a claim waits for its first pod.
fn waits(claim: &Claim, storage: &Storage) -> Result<bool, Rejection> {
    let Some(class) = storage.classes.get(&claim.class) else {
        return Ok(false);
    };
    class.waits.ok_or_else(|| {
        let message = format!("VolumeBindingMode not set for StorageClass \"{}\"", class.name);
        Rejection::error(Plugin::VolumeBinding, message)
    })
}

fn never(reason: impl Into<Cow<'static, str>>) -> Rejection {
    Rejection::many(Code::Unresolvable, Some(Plugin::VolumeBinding), [reason.into()])
}

/// Whether a pod's volumes are there, or can be.
pub(super) fn filter(claims: &Claims, storage: &Storage, node: &Node) -> Verdict {
    decide(claims, storage, node).map(drop)
}

/// What is to be done for a pod's volumes on a node.
pub(super) fn decide(claims: &Claims, storage: &Storage, node: &Node) -> Result<Decided, Rejection> {
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    match reachable(claims, storage, node) {
        Ok(true) => {}
        Ok(false) => reasons.push("node(s) didn't match PersistentVolume's node affinity".into()),
        Err(missing) => reasons.push(missing.into()),
    }
    let mut decided = Decided::default();
    if let Err(reason) = find(claims, storage, node, &mut decided)? {
        // A volume that is missing is named last.
        let at = usize::from(reasons.first().is_some_and(|first| first.contains("affinity")));
        reasons.insert(at, reason.into());
    }
    if reasons.is_empty() {
        return Ok(decided);
    }
    Err(Rejection::many(
        Code::Unresolvable,
        Some(Plugin::VolumeBinding),
        reasons,
    ))
}

fn reachable(claims: &Claims, storage: &Storage, node: &Node) -> Result<bool, &'static str> {
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

fn reaches(volume: &Volume, node: &Node) -> bool {
    volume
        .nodes
        .as_ref()
        .is_none_or(|rules| rules.matches(&node.name, &node.labels))
}

fn find(
    claims: &Claims,
    storage: &Storage,
    node: &Node,
    decided: &mut Decided,
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
        match smallest(claim, claims, storage, node, &taken) {
            Some(volume) => decided.bind.push((volume, claim.clone())),
            None => decided.provision.push(claim.clone()),
        }
    }
    for claim in &decided.provision {
        if claim.class.is_empty() {
            let message = format!("no class for claim \"{}/{}\"", claim.namespace, claim.name);
            return Err(Rejection::error(Plugin::VolumeBinding, message));
        }
        let Some(class) = storage.classes.get(&claim.class) else {
            let message = format!("failed to find storage class \"{}\"", claim.class);
            return Err(Rejection::error(Plugin::VolumeBinding, message));
        };
        let made = !matches!(&*class.provisioner, "" | "kubernetes.io/no-provisioner");
        if !made || !class.reaches(&node.labels) {
            return Ok(Err(NOTHING_FITS));
        }
        match room(claim, storage, &class.provisioner, node) {
            Room::Unknown => {}
            Room::Enough(total) => decided.room.push(total),
            Room::Lacking => return Ok(Err("node(s) did not have enough free storage")),
        }
    }
    Ok(Ok(()))
}

/// The smallest volume that does for a claim on a node.
fn smallest(
    claim: &Claim,
    claims: &Claims,
    storage: &Storage,
    node: &Node,
    taken: &[Text],
) -> Option<Arc<Volume>> {
    let mut best: Option<&Arc<Volume>> = None;
    for volume in claims.volumes.get(&claim.class)? {
        let holder = storage.claim_of(volume);
        let own = holder.is_some_and(|holder| holder.is(claim));
        if taken.contains(&volume.name)
            || (holder.is_some() && !own)
            || volume.capacity < claim.asked.unwrap_or(0)
            || volume.mode != claim.mode
            || volume.attributes != claim.attributes
            || volume.going
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

enum Room {
    Unknown,
    Enough(i64),
    Lacking,
}

/// Whether a driver can still make a volume for a node, if it says so.
fn room(claim: &Claim, storage: &Storage, provisioner: &Text, node: &Node) -> Room {
    let (Some(asked), Some(driver)) = (claim.asked, storage.drivers.get(provisioner)) else {
        return Room::Unknown;
    };
    if !driver.capacity {
        return Room::Unknown;
    }
    let found = storage.capacities.values().find(|capacity| {
        capacity.class == claim.class
            && capacity.limit.is_some_and(|limit| limit >= asked)
            && capacity
                .nodes
                .as_ref()
                .is_some_and(|nodes| nodes.matches(&node.labels))
    });
    found.map_or(Room::Lacking, |capacity| Room::Enough(capacity.total))
}

/// How well the volumes that are found fit what is asked: nodes whose storage would be emptier are better.
pub(super) fn score(claims: &Claims, storage: &Storage, node: &Node) -> i64 {
    let Ok(decided) = decide(claims, storage, node) else {
        return 0;
    };
    let mut classes: HashMap<&Text, (i64, i64)> = HashMap::new();
    if decided.bind.is_empty() {
        for (claim, total) in decided.provision.iter().zip(&decided.room) {
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
            MAX - asked * 100 / has
        }
    };
    let sum: i64 = classes.values().map(emptiness).sum();
    whole((real(sum) / real(count(classes.len()))).round())
}

impl Claims {
    /// Whether anything is still to be found or made.
    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Whether something helps a pod that was rejected.
pub(super) fn helps(pod: &Pod, event: &Event<'_>) -> bool {
    match event {
        Event::NodeCame(_) | Event::Volume { .. } => true,
        Event::NodeChanged { old, new } => old.labels != new.labels,
        Event::Class { old, new } => old.is_none_or(|old| old.topologies != new.topologies),
        Event::Claim { new, .. } => {
            new.namespace == pod.namespace && pod.claims().any(|name| name == new.name)
        }
        Event::CsiNode { old, new } => old.is_none_or(|old| old.migrated != new.migrated),
        Event::CsiDriver { old, new } => {
            let uses = |volume: &VolumeUse| matches!(volume, VolumeUse::Driver(name) if *name == new.name);
            old.capacity && !new.capacity && pod.spec.volumes.iter().any(uses)
        }
        Event::Capacity { old, new } => old.is_none_or(|old| new.limit > old.limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
