//! What pods of one template have in common.

use std::sync::Arc;

use k3_workloads::{
    ContainerPort, PodAffinity, PodSpec, SharedList, TemplateSpec, Toleration, Volume, VolumeSource,
};
use kubecontroller::selector::{NodeSelector, NodeSelectorTerm, Requirement, Selector};

use super::{AffinityTerm, Requests};
use crate::interner::{SpecSource, StringInterner, Text};

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
    pub node_selector: Selector,
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
    pub tolerations: SharedList<Toleration>,
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

impl Spec {
    /// The specification of a pod in a namespace: derived once for all pods that have it.
    pub fn derive(spec: &PodSpec, namespace: &Text, interner: &mut StringInterner) -> Arc<Self> {
        let source = SpecSource {
            namespace: namespace.clone(),
            template: spec.template.clone(),
            affinity: spec.affinity.clone(),
            volumes: spec.volumes.clone(),
        };
        if let Some(derived) = interner.derived_specs.get(&source) {
            return derived;
        }
        let derived = Spec::read(spec, namespace, interner);
        let derived = interner.specs.share(derived);
        interner.derived_specs.insert(source, Arc::clone(&derived));
        derived
    }

    fn read(spec: &PodSpec, namespace: &Text, interner: &mut StringInterner) -> Self {
        let raw = &*spec.template;
        let affinity = spec.affinity.as_deref();
        let nodes = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        let rules = nodes.map_or(&[][..], |nodes| &nodes.preferred).iter();
        let preferred_nodes = rules
            .filter(|preferred| preferred.weight != 0 && !preferred.preference.is_empty())
            .map(|preferred| (preferred.weight, preferred.preference.clone()))
            .collect();
        let nodes = nodes.and_then(|nodes| nodes.required.clone());
        let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let pod_anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let mut terms = |raw: Option<&PodAffinity>| {
            let (required, preferred) =
                raw.map_or((&[][..], &[][..]), |raw| (&*raw.required, &*raw.preferred));
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
        let (near, preferred_affinity_terms) = terms(pod_affinity);
        let (away, preferred_anti_affinity_terms) = terms(pod_anti_affinity);
        let containers = raw.init_containers.iter().chain(&raw.containers);
        let images = containers.map(|container| &*container.image);
        let image_volumes = spec.volumes.iter().filter_map(|volume| match &volume.source {
            VolumeSource::Image(reference) => Some(&**reference),
            _ => None,
        });
        let images = images
            .chain(image_volumes)
            .map(|name| interner.text(&tagged(name)))
            .collect();
        Spec {
            scheduler: interner.text(&raw.scheduler_name),
            priority: raw.priority.unwrap_or(0),
            preemption_allowed: &*raw.preemption_policy != "Never",
            node_selector: Selector::from_labels(raw.node_selector.iter()),
            nodes,
            preferred_nodes,
            required_affinity_terms: near,
            required_anti_affinity_terms: away,
            preferred_affinity_terms,
            preferred_anti_affinity_terms,
            has_pod_affinity: pod_affinity.is_some() || pod_anti_affinity.is_some(),
            tolerations: raw.tolerations.clone(),
            spread: raw
                .topology_spread_constraints
                .iter()
                .map(|raw| TopologySpreadConstraint::read(raw, interner))
                .collect(),
            ports: ports(raw, interner),
            requests: Requests::of_spec(raw, interner),
            volumes: spec
                .volumes
                .iter()
                .filter_map(|raw| PodVolume::read(raw, interner))
                .collect(),
            images,
            gates: raw
                .scheduling_gates
                .iter()
                .map(|gate| interner.text(gate))
                .collect(),
        }
    }

    /// Whether a node's labels and name are what the pod must have.
    pub fn fits_node(&self, node: &super::Node) -> bool {
        let required = self.nodes.as_ref();
        self.node_selector.matches(&node.labels)
            && required.is_none_or(|required| required.matches(Some(&node.name), &node.labels))
    }
}

fn ports(raw: &TemplateSpec, interner: &mut StringInterner) -> Box<[HostPort]> {
    let staying = raw
        .init_containers
        .iter()
        .filter(|container| container.is_sidecar);
    let ports = raw
        .containers
        .iter()
        .chain(staying)
        .flat_map(|container| &container.ports);
    let read = |port: &ContainerPort| HostPort {
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
    fn read(raw: &k3_workloads::TopologySpreadConstraint, interner: &mut StringInterner) -> Self {
        TopologySpreadConstraint {
            max_skew: raw.max_skew,
            topology: interner.text(&raw.topology_key),
            must: &*raw.when_unsatisfiable == "DoNotSchedule",
            selector: raw.label_selector.clone().unwrap_or(Selector::NOTHING),
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
            .filter_map(|key| Some(Requirement::equals(&**key, &**labels.get(key)?)));
        self.selector.clone().and(&same.collect::<Vec<_>>())
    }
}

impl PodVolume {
    fn read(volume: &Volume, interner: &mut StringInterner) -> Option<Self> {
        let disk = |kind, id: &str, read_only, interner: &mut StringInterner| PodVolume::Disk {
            kind,
            id: interner.text(id),
            servers: Box::new([]),
            read_only,
        };
        Some(match &volume.source {
            VolumeSource::PersistentVolumeClaim(claim) => {
                PodVolume::PersistentVolumeClaim(interner.text(claim))
            }
            VolumeSource::Ephemeral => PodVolume::Ephemeral(interner.text(&volume.name)),
            VolumeSource::GcePersistentDisk { pd_name, read_only } => {
                disk("gce", pd_name, *read_only, interner)
            }
            VolumeSource::AwsElasticBlockStore(volume_id) => disk("aws", volume_id, false, interner),
            VolumeSource::Iscsi { iqn, read_only } => disk("iscsi", iqn, *read_only, interner),
            VolumeSource::Rbd {
                monitors,
                pool,
                image,
                read_only,
            } => PodVolume::Disk {
                kind: "rbd",
                id: interner.text(&format!("{}/{image}", pool.as_deref().unwrap_or("rbd"))),
                servers: monitors.iter().map(|name| interner.text(name)).collect(),
                read_only: *read_only,
            },
            VolumeSource::Csi(driver) => PodVolume::Driver(interner.text(driver)),
            VolumeSource::Image(_) => return None,
        })
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
