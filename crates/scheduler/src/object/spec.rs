//! What pods of one template have in common.

use std::collections::BTreeMap;

use kubecontroller::selector::LabelSelector;
use serde::Deserialize;

use super::{
    AffinityTerm, NodeSelector, NodeSelectorTerm, RawAffinity, Requests, ResourceList, Toleration,
    node::RawToleration, requests::RawResources,
};
use crate::{
    interner::{StringInterner, Text},
    selector::{Requirement, Selector},
};

/// The specification of a pod as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSpec {
    /// Where it runs.
    pub node_name: String,
    /// Who is to place it.
    pub scheduler_name: String,
    /// How important it is.
    pub priority: Option<i32>,
    /// Whether `preemptionPolicy` allows preemption.
    pub preemption_policy: Option<String>,
    /// Labels of nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Wishes.
    pub affinity: RawAffinity,
    /// Taints it bears.
    pub tolerations: Vec<RawToleration>,
    /// How it spreads.
    pub topology_spread_constraints: Vec<RawSpread>,
    /// Its containers.
    pub containers: Vec<RawContainer>,
    /// What runs before them.
    pub init_containers: Vec<RawContainer>,
    /// What running it costs besides.
    pub overhead: ResourceList,
    /// What it asks for as a whole.
    pub resources: RawResources,
    /// Its volumes.
    pub volumes: Vec<RawVolumeUse>,
    /// What it waits for.
    pub scheduling_gates: Vec<RawGate>,
}

/// A container as far as scheduling reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawContainer {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// What it asks for.
    pub resources: RawResources,
    /// Its ports.
    pub ports: Vec<RawPort>,
    /// Whether it is a sidecar (`restartPolicy: Always`).
    pub restart_policy: Option<String>,
}

/// A port as it stands in a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawPort {
    /// On the node.
    pub host_port: u16,
    /// On which address of the node.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// TCP unless said.
    pub protocol: String,
}

/// A rule of spreading as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSpread {
    /// How uneven it may be.
    pub max_skew: i64,
    /// The label of nodes that makes places.
    pub topology_key: String,
    /// Whether it must be.
    pub when_unsatisfiable: String,
    /// Which pods count.
    pub label_selector: Option<LabelSelector>,
    /// Labels whose value on this pod counts too.
    pub match_label_keys: Vec<String>,
    /// How many places there must be.
    pub min_domains: Option<i64>,
    /// Whether only nodes count that the pod could be on by affinity.
    pub node_affinity_policy: Option<String>,
    /// Whether only nodes count whose taints the pod bears.
    pub node_taints_policy: Option<String>,
}

/// A gate as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawGate {
    /// Its name.
    pub name: String,
}

/// A volume as it stands in a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawVolumeUse {
    name: String,
    persistent_volume_claim: Option<RawClaimUse>,
    ephemeral: Option<serde::de::IgnoredAny>,
    gce_persistent_disk: Option<RawDisk>,
    aws_elastic_block_store: Option<RawDisk>,
    iscsi: Option<RawDisk>,
    rbd: Option<RawDisk>,
    image: Option<RawImage>,
    csi: Option<RawDriver>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawClaimUse {
    claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawImage {
    reference: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawDriver {
    driver: String,
}

/// The fields of the kinds of disk that only one may use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawDisk {
    pd_name: String,
    #[serde(rename = "volumeID")]
    volume_id: String,
    iqn: String,
    monitors: Vec<String>,
    pool: Option<String>,
    image: String,
    read_only: bool,
}

/// What pods of one template have in common. Equal ones are kept once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Who is to place it.
    pub scheduler: Text,
    /// How important it is.
    pub priority: i32,
    /// Whether `preemptionPolicy` allows preemption.
    pub preemption_allowed: bool,
    /// What labels nodes must have.
    pub node_selector: Option<Selector>,
    /// Which nodes it must be on.
    pub nodes: Option<NodeSelector>,
    /// Which nodes would be good.
    pub preferred_nodes: Box<[(i64, NodeSelectorTerm)]>,
    /// `requiredDuringSchedulingIgnoredDuringExecution` of pod affinity.
    pub required_affinity_terms: Box<[AffinityTerm]>,
    /// `requiredDuringSchedulingIgnoredDuringExecution` of pod anti-affinity.
    pub required_anti_affinity_terms: Box<[AffinityTerm]>,
    /// `preferredDuringSchedulingIgnoredDuringExecution` of pod affinity, with weights.
    pub preferred_affinity_terms: Box<[(i64, AffinityTerm)]>,
    /// `preferredDuringSchedulingIgnoredDuringExecution` of pod anti-affinity, with weights.
    pub preferred_anti_affinity_terms: Box<[(i64, AffinityTerm)]>,
    /// Whether it has pod affinity or anti-affinity.
    pub has_pod_affinity: bool,
    /// Taints it bears.
    pub tolerations: Box<[Toleration]>,
    /// How it spreads.
    pub spread: Box<[TopologySpreadConstraint]>,
    /// Ports of the node it needs.
    pub ports: Box<[HostPort]>,
    /// What it asks for.
    pub requests: Requests,
    /// Its volumes, as far as they bind it to nodes.
    pub volumes: Box<[PodVolume]>,
    /// The images it runs, one per container and image volume.
    pub images: Box<[Text]>,
    /// What it waits for.
    pub gates: Box<[Text]>,
}

/// A rule of spreading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    /// How uneven it may be.
    pub max_skew: i64,
    /// The label of nodes that makes places.
    pub topology: Text,
    /// Whether it must be; else it would be good.
    pub must: bool,
    /// Which pods count.
    pub selector: Selector,
    /// Labels whose value on this pod counts too.
    pub same: Box<[Text]>,
    /// How many places there must be.
    pub min_domains: i64,
    /// Which nodes count.
    pub policy: Policy,
}

/// Which nodes count when pods spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Only those that the pod could be on by affinity.
    pub affinity: bool,
    /// Only those whose taints the pod bears.
    pub taints: bool,
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// On which address; `0.0.0.0` is all.
    pub address: Text,
    /// TCP, UDP or SCTP.
    pub protocol: Text,
    /// Its number.
    pub port: u16,
}

/// A volume that binds a pod to nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodVolume {
    /// A claim by its name.
    PersistentVolumeClaim(Text),
    /// A claim that is made for the pod; by the name of the volume.
    Ephemeral(Text),
    /// A disk that only one may write: what it is, its names (any equal one is a conflict), whether it is read only
    /// and whether two readers may share it.
    Disk {
        /// Which kind of disk.
        kind: &'static str,
        /// Its identity.
        id: Text,
        /// Any of these in common makes it the same; without any the id alone does.
        servers: Box<[Text]>,
        /// Whether it is shared because both only read; never for some kinds.
        read_only: bool,
    },
    /// A volume that a driver makes in place.
    Driver(Text),
}

impl RawContainer {
    /// Whether an init container is a sidecar (`restartPolicy: Always`).
    pub fn stays(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

impl Spec {
    /// Takes a specification as it was read, of a pod in a namespace.
    pub fn read(raw: &RawSpec, namespace: &Text, interner: &mut StringInterner) -> Self {
        let affinity = &raw.affinity;
        let nodes = affinity.node_affinity.as_ref();
        let rules = nodes.map_or(&[][..], |nodes| &nodes.preferred).iter();
        let preferred_nodes = rules
            .filter(|preferred| preferred.weight != 0)
            .filter_map(|preferred| {
                Some((
                    preferred.weight,
                    NodeSelectorTerm::read(&preferred.preference, interner)?,
                ))
            })
            .collect();
        let nodes = nodes
            .and_then(|nodes| nodes.required.as_ref())
            .map(|raw| NodeSelector::read(raw, interner));
        let mut terms = |raw: &Option<super::affinity::RawPodAffinity>| {
            let (required, preferred) = raw
                .as_ref()
                .map_or((&[][..], &[][..]), |raw| (&*raw.required, &*raw.preferred));
            let required: Box<[_]> = required
                .iter()
                .map(|term| AffinityTerm::read(term, namespace, interner))
                .collect();
            let preferred = preferred.iter();
            let preferred = preferred.map(|raw| {
                (
                    raw.weight,
                    AffinityTerm::read(&raw.pod_affinity_term, namespace, interner),
                )
            });
            (required, preferred.collect::<Box<[_]>>())
        };
        let (near, preferred_affinity_terms) = terms(&affinity.pod_affinity);
        let (away, preferred_anti_affinity_terms) = terms(&affinity.pod_anti_affinity);
        let containers = raw.init_containers.iter().chain(&raw.containers);
        let images = containers.map(|container| container.image.as_str());
        let image_volumes = raw
            .volumes
            .iter()
            .filter_map(|volume| Some(volume.image.as_ref()?.reference.as_str()));
        let images = images
            .chain(image_volumes)
            .map(|name| interner.text(&tagged(name)))
            .collect();
        Spec {
            scheduler: interner.text(&raw.scheduler_name),
            priority: raw.priority.unwrap_or(0),
            preemption_allowed: raw.preemption_policy.as_deref() != Some("Never"),
            node_selector: (!raw.node_selector.is_empty())
                .then(|| Selector::from_labels(&raw.node_selector, interner)),
            nodes,
            preferred_nodes,
            required_affinity_terms: near,
            required_anti_affinity_terms: away,
            preferred_affinity_terms,
            preferred_anti_affinity_terms,
            has_pod_affinity: affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some(),
            tolerations: raw
                .tolerations
                .iter()
                .map(|raw| Toleration::read(raw, interner))
                .collect(),
            spread: raw
                .topology_spread_constraints
                .iter()
                .map(|raw| TopologySpreadConstraint::read(raw, interner))
                .collect(),
            ports: ports(raw, interner),
            requests: Requests::of_spec(raw, interner),
            volumes: raw
                .volumes
                .iter()
                .filter_map(|raw| PodVolume::read(raw, interner))
                .collect(),
            images,
            gates: raw
                .scheduling_gates
                .iter()
                .map(|gate| interner.text(&gate.name))
                .collect(),
        }
    }

    /// Whether a node's labels and name are what the pod must have.
    pub fn fits_node(&self, node: &super::Node) -> bool {
        self.node_selector
            .as_ref()
            .is_none_or(|selector| selector.matches(&node.labels))
            && self
                .nodes
                .as_ref()
                .is_none_or(|rules| rules.matches(&node.name, &node.labels))
    }
}

fn ports(raw: &RawSpec, interner: &mut StringInterner) -> Box<[HostPort]> {
    let staying = raw.init_containers.iter().filter(|container| container.stays());
    let ports = raw
        .containers
        .iter()
        .chain(staying)
        .flat_map(|container| &container.ports);
    let read = |port: &RawPort| HostPort {
        address: interner.text(if port.host_ip.is_empty() {
            "0.0.0.0"
        } else {
            &port.host_ip
        }),
        protocol: interner.text(if port.protocol.is_empty() {
            "TCP"
        } else {
            &port.protocol
        }),
        port: port.host_port,
    };
    ports.filter(|port| port.host_port > 0).map(read).collect()
}

/// The name of an image with its tag.
pub(super) fn tagged(name: &str) -> String {
    if name.rfind(':') <= name.rfind('/') {
        format!("{name}:latest")
    } else {
        name.to_owned()
    }
}

impl TopologySpreadConstraint {
    fn read(raw: &RawSpread, interner: &mut StringInterner) -> Self {
        TopologySpreadConstraint {
            max_skew: raw.max_skew,
            topology: interner.text(&raw.topology_key),
            must: raw.when_unsatisfiable == "DoNotSchedule",
            selector: Selector::read(raw.label_selector.as_ref(), interner),
            same: raw
                .match_label_keys
                .iter()
                .map(|key| interner.text(key))
                .collect(),
            min_domains: raw.min_domains.unwrap_or(1),
            policy: Policy {
                affinity: raw.node_affinity_policy.as_deref() != Some("Ignore"),
                taints: raw.node_taints_policy.as_deref() == Some("Honor"),
            },
        }
    }

    /// Which pods count for a pod with these labels.
    pub fn selector_for(&self, labels: &crate::labels::Labels) -> Selector {
        let same = self
            .same
            .iter()
            .filter_map(|key| Some(Requirement::equal(key.clone(), labels.get(key)?.clone())));
        self.selector.clone().and(same.collect())
    }
}

impl PodVolume {
    fn read(raw: &RawVolumeUse, interner: &mut StringInterner) -> Option<Self> {
        let disk =
            |kind, raw: &RawDisk, id: &str, read_only, interner: &mut StringInterner| PodVolume::Disk {
                kind,
                id: interner.text(id),
                servers: raw.monitors.iter().map(|name| interner.text(name)).collect(),
                read_only,
            };
        if let Some(claim) = &raw.persistent_volume_claim {
            return Some(PodVolume::PersistentVolumeClaim(interner.text(&claim.claim_name)));
        }
        if raw.ephemeral.is_some() {
            return Some(PodVolume::Ephemeral(interner.text(&raw.name)));
        }
        if let Some(raw) = &raw.gce_persistent_disk {
            return Some(disk("gce", raw, &raw.pd_name, raw.read_only, interner));
        }
        if let Some(raw) = &raw.aws_elastic_block_store {
            return Some(disk("aws", raw, &raw.volume_id, false, interner));
        }
        if let Some(raw) = &raw.iscsi {
            return Some(disk("iscsi", raw, &raw.iqn, raw.read_only, interner));
        }
        if let Some(raw) = &raw.rbd {
            let id = format!("{}/{}", raw.pool.as_deref().unwrap_or("rbd"), raw.image);
            return Some(disk("rbd", raw, &id, raw.read_only, interner));
        }
        raw.csi
            .as_ref()
            .map(|raw| PodVolume::Driver(interner.text(&raw.driver)))
    }

    /// Whether two pods cannot have these on one node.
    pub fn conflicts(&self, other: &PodVolume) -> bool {
        let (
            PodVolume::Disk {
                kind,
                id,
                servers,
                read_only,
            },
            PodVolume::Disk {
                kind: other_kind,
                id: other_id,
                servers: other_servers,
                read_only: other_read_only,
            },
        ) = (self, other)
        else {
            return false;
        };
        let shared = *read_only && *other_read_only;
        let same_server = *kind != "rbd" || servers.iter().any(|server| other_servers.contains(server));
        kind == other_kind && id == other_id && same_server && !shared
    }
}
