//! What volumes are made of: claims, volumes, classes, drivers and what they can give.

use k3_workloads::{ClaimPhase, ClaimRef, ResourceQuantity, VolumeMode, VolumePhase};
use kubecontroller::{
    object::SlimObject,
    selector::{NodeSelector, Operator, Requirement, Selector},
};
use serde::Deserialize;

use super::SchedulerObject;
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

macro_rules! raw {
    ($(#[$doc:meta])* $reach:vis $name:ident { $($body:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $reach struct $name { $($body)* }
    };
}

raw! {
    /// A class of storage as it is read.
    pub RawClass {
        provisioner: String,
        volume_binding_mode: Option<String>,
        allowed_topologies: Vec<RawTopology>,
    }
}
raw! {
    /// Where a class can make volumes.
    pub(super) RawTopology { match_label_expressions: Vec<RawTopologyRule> }
}
raw! {
    /// A rule of where a class can make volumes.
    pub(super) RawTopologyRule { key: String, values: Vec<String> }
}
raw! {
    /// The drivers of a node as they are read.
    pub RawCsiNode { spec: RawCsiNodeSpec }
}
raw! {
    /// The drivers of a node.
    pub(super) RawCsiNodeSpec { drivers: Vec<RawCsiNodeDriver> }
}
raw! {
    /// A driver of a node.
    pub(super) RawCsiNodeDriver { name: String, allocatable: RawCount }
}
raw! {
    /// How many volumes a driver can attach.
    pub(super) RawCount { count: Option<i64> }
}
raw! {
    /// A driver as it is read.
    pub RawCsiDriver { spec: RawCsiDriverSpec }
}
raw! {
    /// The specification of a driver.
    pub(super) RawCsiDriverSpec { storage_capacity: bool, prevent_pod_scheduling_if_missing: bool }
}
raw! {
    /// A capacity as it is read.
    pub RawCapacity {
        storage_class_name: String,
        node_topology: Option<Selector>,
        capacity: Option<ResourceQuantity>,
        maximum_volume_size: Option<ResourceQuantity>,
    }
}
raw! {
    /// An attachment as it is read.
    pub RawAttachment { spec: RawAttachmentSpec }
}
raw! {
    /// The specification of an attachment.
    pub(super) RawAttachmentSpec { attacher: String, node_name: String, source: RawSource }
}
raw! {
    /// What is attached.
    pub(super) RawSource { persistent_volume_name: Option<String> }
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its UID.
    pub uid: Text,
    /// The version of its last change.
    pub version: Box<str>,
    /// Its class; empty when it has none.
    pub class: Text,
    /// The volume it is for; empty when there is none yet.
    pub volume: Text,
    /// Whether that is settled.
    pub bound: bool,
    /// The node that its volume is to be made for.
    pub node: Option<Text>,
    /// How it is used.
    pub modes: Box<[Text]>,
    /// Which volumes it takes.
    pub selector: Option<Selector>,
    /// How much it asks for.
    pub asked: Option<i64>,
    /// Filesystem or Block.
    pub mode: VolumeMode,
    /// Its class of attributes.
    pub attributes: Text,
    /// Whether its volume is lost.
    pub lost: bool,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// The uid of what controls it.
    pub owner: Option<Text>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Its name.
    pub name: Text,
    /// The version of its last change.
    pub version: Box<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its class; empty when it has none.
    pub class: Text,
    /// How much it holds.
    pub capacity: i64,
    /// How it can be used.
    pub modes: Box<[Text]>,
    /// The claim it is for.
    pub claim: Option<ClaimRef>,
    /// Where it can be reached from; anywhere when there is none.
    pub nodes: Option<NodeSelector>,
    /// Filesystem or Block.
    pub mode: VolumeMode,
    /// Its class of attributes.
    pub attributes: Text,
    /// Whether it is free.
    pub available: bool,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Its driver and its name there.
    pub driver: Option<(Text, Text)>,
}

/// A class of storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// Its name.
    pub name: Text,
    /// Who makes its volumes.
    pub provisioner: Text,
    /// Whether a claim waits for its first pod; `None` when that is not said.
    pub waits: Option<bool>,
    /// Where volumes can be made; anywhere when there is none.
    pub topologies: Box<[Selector]>,
}

/// The drivers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNode {
    /// The node.
    pub name: Text,
    /// Each driver, and how many volumes it can attach.
    pub drivers: Box<[(Text, Option<i64>)]>,
    /// The kinds of volume that drivers have taken over.
    pub migrated: Text,
}

/// A driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    /// Its name.
    pub name: Text,
    /// Whether it publishes storage capacity.
    pub capacity: bool,
    /// Whether pods keep away from nodes that do not have it.
    pub needed: bool,
}

/// How much a driver can still make somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiStorageCapacity {
    /// Namespace and name.
    pub key: (Text, Text),
    /// Of which class.
    pub class: Text,
    /// For which nodes.
    pub nodes: Option<Selector>,
    /// The largest volume it can make.
    pub limit: Option<i64>,
    /// All it can make.
    pub total: i64,
}

/// A volume that is attached to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// Its name.
    pub name: Text,
    /// By which driver.
    pub driver: Text,
    /// To which node.
    pub node: Text,
    /// Which volume.
    pub volume: Option<Text>,
}

const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

impl SchedulerObject for PersistentVolumeClaim {
    type Source = k3_workloads::PersistentVolumeClaim;

    fn read(source: &Self::Source, interner: &mut StringInterner) -> Self {
        let k3_workloads::PersistentVolumeClaim {
            metadata: meta,
            spec,
            status,
        } = source;
        let requested = &spec.resources.requests;
        PersistentVolumeClaim {
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
            uid: interner.text(&meta.uid),
            version: meta.resource_version.clone(),
            class: interner.text(source.class()),
            volume: interner.text(&spec.volume_name),
            bound: source.is_fully_bound(),
            node: source.selected_node().map(|node| interner.text(node)),
            modes: spec.access_modes.iter().map(|mode| interner.text(mode)).collect(),
            selector: spec.selector.clone(),
            asked: (!requested.storage.is_empty()).then(|| requested.amount().value()),
            mode: spec.volume_mode,
            attributes: interner.text(spec.volume_attributes_class_name.as_deref().unwrap_or("")),
            lost: status.phase == ClaimPhase::Lost,
            terminating: meta.is_terminating(),
            owner: meta.controller().map(|owner| interner.text(&owner.uid)),
        }
    }
}

impl PersistentVolumeClaim {
    /// Whether a reference to a claim refers to this one.
    pub fn is_in(&self, reference: &ClaimRef) -> bool {
        reference.refers_to(&self.namespace, &self.name, &self.uid)
    }
}

impl SchedulerObject for PersistentVolume {
    type Source = k3_workloads::PersistentVolume;

    fn read(source: &Self::Source, interner: &mut StringInterner) -> Self {
        let k3_workloads::PersistentVolume {
            metadata: meta,
            spec,
            status,
        } = source;
        PersistentVolume {
            name: interner.text(&meta.name),
            version: meta.resource_version.clone(),
            labels: Labels::read(meta.labels.iter(), interner),
            class: interner.text(source.class()),
            capacity: spec.capacity.amount().value(),
            modes: spec.access_modes.iter().map(|mode| interner.text(mode)).collect(),
            claim: spec.claim_ref.clone(),
            nodes: spec.node_affinity.required.clone(),
            mode: spec.volume_mode,
            attributes: interner.text(spec.volume_attributes_class_name.as_deref().unwrap_or("")),
            available: status.phase == VolumePhase::Available,
            terminating: meta.is_terminating(),
            driver: spec
                .csi
                .as_ref()
                .map(|csi| (interner.text(&csi.driver), interner.text(&csi.volume_handle))),
        }
    }
}

impl SchedulerObject for StorageClass {
    type Source = SlimObject<RawClass>;

    fn read(source: &SlimObject<RawClass>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields: raw,
        } = source;
        StorageClass {
            topologies: raw
                .allowed_topologies
                .iter()
                .map(RawTopology::to_selector)
                .collect(),
            name: interner.text(&meta.name),
            provisioner: interner.text(&raw.provisioner),
            waits: raw
                .volume_binding_mode
                .as_deref()
                .map(|mode| mode == "WaitForFirstConsumer"),
        }
    }
}

impl StorageClass {
    /// Whether volumes can be made for a node with these labels.
    pub fn reaches(&self, labels: &Labels) -> bool {
        self.topologies.is_empty() || self.topologies.iter().any(|topology| topology.matches(labels))
    }
}

impl RawTopology {
    /// A term without requirements selects nothing.
    fn to_selector(&self) -> Selector {
        let requirements = self.match_label_expressions.iter();
        let requirements =
            requirements.map(|one| Requirement::from_valid(&one.key, Operator::In, one.values.clone()));
        let selector = Selector::new(requirements.collect());
        if selector.is_empty() {
            Selector::NOTHING
        } else {
            selector
        }
    }
}

impl SchedulerObject for CsiNode {
    type Source = SlimObject<RawCsiNode>;

    fn read(source: &SlimObject<RawCsiNode>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields: raw,
        } = source;
        let drivers = raw.spec.drivers.iter();
        CsiNode {
            name: interner.text(&meta.name),
            drivers: drivers
                .map(|driver| (interner.text(&driver.name), driver.allocatable.count))
                .collect(),
            migrated: interner.text(meta.annotations.get(MIGRATED).unwrap_or_default()),
        }
    }
}

impl SchedulerObject for CsiDriver {
    type Source = SlimObject<RawCsiDriver>;

    fn read(source: &SlimObject<RawCsiDriver>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields: raw,
        } = source;
        CsiDriver {
            name: interner.text(&meta.name),
            capacity: raw.spec.storage_capacity,
            needed: raw.spec.prevent_pod_scheduling_if_missing,
        }
    }
}

impl SchedulerObject for CsiStorageCapacity {
    type Source = SlimObject<RawCapacity>;

    fn read(source: &SlimObject<RawCapacity>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields: raw,
        } = source;
        let limit = raw.maximum_volume_size.or(raw.capacity);
        CsiStorageCapacity {
            key: (interner.text(&meta.namespace), interner.text(&meta.name)),
            class: interner.text(&raw.storage_class_name),
            nodes: raw.node_topology.clone(),
            limit: limit.map(|amount| amount.value),
            total: raw.capacity.map_or(0, |amount| amount.value),
        }
    }
}

impl SchedulerObject for VolumeAttachment {
    type Source = SlimObject<RawAttachment>;

    fn read(source: &SlimObject<RawAttachment>, interner: &mut StringInterner) -> Self {
        let SlimObject {
            metadata: meta,
            fields: raw,
        } = source;
        let volume = raw.spec.source.persistent_volume_name.as_ref();
        VolumeAttachment {
            name: interner.text(&meta.name),
            driver: interner.text(&raw.spec.attacher),
            node: interner.text(&raw.spec.node_name),
            volume: volume.map(|name| interner.text(name)),
        }
    }
}
