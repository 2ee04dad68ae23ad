//! Volumes and what they are made of, with what was decided about them but not yet written.

use std::sync::Arc;

use hashbrown::HashMap;
use k3_workloads::ClaimRef;

use crate::{
    interner::Text,
    object::{
        CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
        VolumeAttachment,
    },
};

/// Namespace and name.
pub(crate) type Key = (Text, Text);

/// Persistent volumes, claims, storage classes and CSI objects, with assumed bindings that are not written yet.
// upstream: pkg/scheduler/util/assumecache/assume_cache.go AssumeCache
#[derive(Debug, Default)]
pub(crate) struct Storage {
    claims: HashMap<Key, Arc<PersistentVolumeClaim>>,
    volumes: HashMap<Text, Arc<PersistentVolume>>,
    /// Classes by name.
    pub classes: HashMap<Text, Arc<StorageClass>>,
    /// The drivers of nodes.
    pub csi_nodes: HashMap<Text, Arc<CsiNode>>,
    /// Drivers by name.
    pub drivers: HashMap<Text, Arc<CsiDriver>>,
    /// What drivers can still make.
    pub capacities: HashMap<Key, Arc<CsiStorageCapacity>>,
    /// What is attached.
    pub attachments: HashMap<Text, Arc<VolumeAttachment>>,
    assumed_claims: HashMap<Key, Text>,
    assumed_volumes: HashMap<Text, ClaimRef>,
}

impl Storage {
    /// Takes a claim as it is now. A newer state takes the place of what was assumed.
    pub(crate) fn set_claim(&mut self, claim: impl Into<Arc<PersistentVolumeClaim>>) {
        let claim = claim.into();
        let key = (claim.namespace.clone(), claim.name.clone());
        self.assumed_claims.remove(&key);
        self.claims.insert(key, claim);
    }

    /// Removes a claim.
    pub(crate) fn remove_claim(&mut self, key: &Key) {
        self.assumed_claims.remove(key);
        self.claims.remove(key);
    }

    /// Takes a volume as it is now. A newer state takes the place of what was assumed.
    pub(crate) fn set_volume(&mut self, volume: impl Into<Arc<PersistentVolume>>) {
        let volume = volume.into();
        self.assumed_volumes.remove(&volume.name);
        self.volumes.insert(volume.name.clone(), volume);
    }

    /// Removes a volume.
    pub(crate) fn remove_volume(&mut self, name: &str) {
        self.assumed_volumes.remove(name);
        self.volumes.remove(name);
    }

    /// A claim.
    pub(crate) fn claim(&self, namespace: &Text, name: &Text) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(&(namespace.clone(), name.clone()))
    }

    /// The node that the volume of a claim is to be made for, also when that was only just decided.
    pub(crate) fn claim_node<'s>(&'s self, claim: &'s PersistentVolumeClaim) -> Option<&'s Text> {
        let assumed = self
            .assumed_claims
            .get(&(claim.namespace.clone(), claim.name.clone()));
        assumed.or(claim.node.as_ref())
    }

    /// A volume.
    pub(crate) fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// The volumes of a class, in the order of their names.
    pub(crate) fn volumes_of(&self, class: &str) -> Vec<Arc<PersistentVolume>> {
        let volumes = self.volumes.values().filter(|volume| &*volume.class == class);
        let mut volumes: Vec<_> = volumes.cloned().collect();
        volumes.sort_by(|one, other| one.name.cmp(&other.name));
        volumes
    }

    /// The claim that a volume is for, also when that was only just decided.
    pub(crate) fn claim_of<'s>(&'s self, volume: &'s PersistentVolume) -> Option<&'s ClaimRef> {
        self.assumed_volumes.get(&volume.name).or(volume.claim.as_ref())
    }

    /// A volume is to be for a claim.
    pub(crate) fn assume_volume(&mut self, volume: Text, claim: &PersistentVolumeClaim) {
        let claim = ClaimRef {
            namespace: (*claim.namespace).into(),
            name: (*claim.name).into(),
            uid: (*claim.uid).into(),
        };
        self.assumed_volumes.insert(volume, claim);
    }

    /// The volume of a claim is to be made for a node.
    pub(crate) fn assume_claim(&mut self, claim: &PersistentVolumeClaim, node: Text) {
        self.assumed_claims
            .insert((claim.namespace.clone(), claim.name.clone()), node);
    }

    /// What was decided does not hold any more.
    pub(crate) fn forget(
        &mut self,
        volumes: impl IntoIterator<Item = Text>,
        claims: impl IntoIterator<Item = Key>,
    ) {
        for volume in volumes {
            self.assumed_volumes.remove(&volume);
        }
        for claim in claims {
            self.assumed_claims.remove(&claim);
        }
    }
}
