//! What volumes are made of: claims, volumes, classes, drivers and what they can give.

use kubecontroller::{object::SlimMeta, selector::LabelSelector};
use serde::Deserialize;

use super::{NodeSelector, RawNodeSelector, ResourceList, ResourceQuantity, SchedulerObject};
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
    selector::Selector,
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
    /// A claim as it is read.
    pub RawClaim { spec: RawClaimSpec, status: RawPhase }
}
raw! {
    /// The specification of a claim.
    pub(super) RawClaimSpec {
        storage_class_name: Option<String>,
        volume_name: String,
        access_modes: Vec<String>,
        selector: Option<LabelSelector>,
        resources: RawAsked,
        volume_mode: Option<String>,
        volume_attributes_class_name: Option<String>,
    }
}
raw! {
    /// What a claim asks for.
    pub(super) RawAsked { requests: ResourceList }
}
raw! {
    /// The status of a claim or a volume.
    pub(super) RawPhase { phase: String }
}
raw! {
    /// A volume as it is read.
    pub RawVolume { spec: RawVolumeSpec, status: RawPhase }
}
raw! {
    /// The specification of a volume.
    pub(super) RawVolumeSpec {
        storage_class_name: String,
        capacity: ResourceList,
        access_modes: Vec<String>,
        claim_ref: Option<ClaimRef>,
        node_affinity: RawVolumeAffinity,
        volume_mode: Option<String>,
        volume_attributes_class_name: Option<String>,
        csi: Option<RawCsi>,
    }
}
raw! {
    /// Where a volume can be reached from.
    pub(super) RawVolumeAffinity { required: Option<RawNodeSelector> }
}
raw! {
    /// The driver of a volume.
    pub(super) RawCsi { driver: String, volume_handle: String }
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
        node_topology: Option<LabelSelector>,
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

/// A claim that a volume is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty when any claim of that name is meant.
    pub uid: String,
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
    pub mode: Text,
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
    pub mode: Text,
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
    pub topologies: Box<[Topology]>,
}

/// Labels of nodes, and the values that each may have.
pub(super) type Topology = Box<[(Text, Box<[Text]>)]>;

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

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

impl SchedulerObject for PersistentVolumeClaim {
    type Fields = RawClaim;

    fn read(meta: &SlimMeta, raw: &RawClaim, interner: &mut StringInterner) -> Self {
        let RawClaim { spec, status } = raw;
        let class = meta.annotations.get(CLASS).or(spec.storage_class_name.as_deref());
        let owner = meta
            .owner_references
            .iter()
            .find(|owner| owner.controller == Some(true));
        PersistentVolumeClaim {
            namespace: interner.text(&meta.namespace),
            name: interner.text(&meta.name),
            uid: interner.text(&meta.uid),
            version: meta.resource_version.as_str().into(),
            class: interner.text(class.unwrap_or_default()),
            volume: interner.text(&spec.volume_name),
            bound: !spec.volume_name.is_empty() && meta.annotations.get(BIND_COMPLETED).is_some(),
            node: meta
                .annotations
                .get(SELECTED_NODE)
                .map(|node| interner.text(node)),
            modes: spec.access_modes.iter().map(|mode| interner.text(mode)).collect(),
            selector: spec
                .selector
                .as_ref()
                .map(|raw| Selector::read(Some(raw), interner)),
            asked: spec.resources.requests.get("storage").map(|amount| amount.value),
            mode: interner.text(spec.volume_mode.as_deref().unwrap_or("Filesystem")),
            attributes: interner.text(spec.volume_attributes_class_name.as_deref().unwrap_or("")),
            lost: status.phase == "Lost",
            terminating: meta.deletion_timestamp.is_some(),
            owner: owner.map(|owner| interner.text(&owner.uid)),
        }
    }
}

impl ClaimRef {
    /// Whether a claim is meant.
    pub fn is(&self, claim: &PersistentVolumeClaim) -> bool {
        *self.name == *claim.name
            && *self.namespace == *claim.namespace
            && (self.uid.is_empty() || *self.uid == *claim.uid)
    }
}

impl SchedulerObject for PersistentVolume {
    type Fields = RawVolume;

    fn read(meta: &SlimMeta, raw: &RawVolume, interner: &mut StringInterner) -> Self {
        let RawVolume { spec, status } = raw;
        let class = meta.annotations.get(CLASS).unwrap_or(&spec.storage_class_name);
        PersistentVolume {
            name: interner.text(&meta.name),
            version: meta.resource_version.as_str().into(),
            labels: Labels::read(meta.labels.iter(), interner),
            class: interner.text(class),
            capacity: spec.capacity.get("storage").map_or(0, |amount| amount.value),
            modes: spec.access_modes.iter().map(|mode| interner.text(mode)).collect(),
            claim: spec.claim_ref.clone(),
            nodes: spec
                .node_affinity
                .required
                .as_ref()
                .map(|raw| NodeSelector::read(raw, interner)),
            mode: interner.text(spec.volume_mode.as_deref().unwrap_or("Filesystem")),
            attributes: interner.text(spec.volume_attributes_class_name.as_deref().unwrap_or("")),
            available: status.phase == "Available",
            terminating: meta.deletion_timestamp.is_some(),
            driver: spec
                .csi
                .as_ref()
                .map(|csi| (interner.text(&csi.driver), interner.text(&csi.volume_handle))),
        }
    }
}

impl SchedulerObject for StorageClass {
    type Fields = RawClass;

    fn read(meta: &SlimMeta, raw: &RawClass, interner: &mut StringInterner) -> Self {
        let mut texts = |texts: &[String]| texts.iter().map(|text| interner.text(text)).collect::<Box<[_]>>();
        let topologies = raw.allowed_topologies.iter().map(|topology| {
            let rules = topology.match_label_expressions.iter();
            rules
                .map(|rule| (Text::from(rule.key.as_str()), texts(&rule.values)))
                .collect()
        });
        StorageClass {
            topologies: topologies.collect(),
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
        let holds =
            |rule: &(Text, Box<[Text]>)| labels.get(&rule.0).is_some_and(|value| rule.1.contains(value));
        // A term without rules holds for nothing.
        let term = |rules: &[(Text, Box<[Text]>)]| !rules.is_empty() && rules.iter().all(holds);
        self.topologies.is_empty() || self.topologies.iter().any(|rules| term(rules))
    }
}

impl SchedulerObject for CsiNode {
    type Fields = RawCsiNode;

    fn read(meta: &SlimMeta, raw: &RawCsiNode, interner: &mut StringInterner) -> Self {
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
    type Fields = RawCsiDriver;

    fn read(meta: &SlimMeta, raw: &RawCsiDriver, interner: &mut StringInterner) -> Self {
        CsiDriver {
            name: interner.text(&meta.name),
            capacity: raw.spec.storage_capacity,
            needed: raw.spec.prevent_pod_scheduling_if_missing,
        }
    }
}

impl SchedulerObject for CsiStorageCapacity {
    type Fields = RawCapacity;

    fn read(meta: &SlimMeta, raw: &RawCapacity, interner: &mut StringInterner) -> Self {
        let limit = raw.maximum_volume_size.or(raw.capacity);
        CsiStorageCapacity {
            key: (interner.text(&meta.namespace), interner.text(&meta.name)),
            class: interner.text(&raw.storage_class_name),
            nodes: raw
                .node_topology
                .as_ref()
                .map(|raw| Selector::read(Some(raw), interner)),
            limit: limit.map(|amount| amount.value),
            total: raw.capacity.map_or(0, |amount| amount.value),
        }
    }
}

impl SchedulerObject for VolumeAttachment {
    type Fields = RawAttachment;

    fn read(meta: &SlimMeta, raw: &RawAttachment, interner: &mut StringInterner) -> Self {
        let volume = raw.spec.source.persistent_volume_name.as_ref();
        VolumeAttachment {
            name: interner.text(&meta.name),
            driver: interner.text(&raw.spec.attacher),
            node: interner.text(&raw.spec.node_name),
            volume: volume.map(|name| interner.text(name)),
        }
    }
}
