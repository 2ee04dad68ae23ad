//! Computes the `NodeStatus`, and the patch from the previous one.
// upstream: pkg/kubelet/kubelet_node_status.go setNodeStatus, defaultNodeStatusFuncs

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::{
    api::core::v1::{
        ContainerImage, DaemonEndpoint, NodeAddress, NodeDaemonEndpoints, NodeStatus, NodeSwapStatus,
        NodeSystemInfo,
    },
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
    jiff::Timestamp,
};
use serde_json::{Map, Value, json};

use super::{
    capacity::{self, ResourceList},
    conditions::{self, NodePressures, OWN_CONDITIONS},
};
use crate::{
    agent::{
        eviction::EvictionThreshold,
        machine::{MachineInfo, architecture},
    },
    runtime::Image,
};

/// Maximum number of images in the status (`nodeStatusMaxImages`).
const MAX_IMAGES: usize = 50;
/// Maximum number of names of an image in the status.
const MAX_NAMES_PER_IMAGE: usize = 5;

/// Input of the node status.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeObservation {
    pub(super) name: String,
    pub(super) machine: MachineInfo,
    /// Size of the file system of the data directory.
    pub(super) disk: Option<u64>,
    pub(super) max_pods: u32,
    pub(super) thresholds: Vec<EvictionThreshold>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// Name and version of the runtime: `docker://20.10`.
    pub(super) runtime: Option<String>,
    pub(super) kubelet_version: String,
    pub(super) images: Vec<Image>,
    pub(super) pressures: NodePressures,
    /// Why the node is not ready; empty if it is ready.
    pub(super) problems: Vec<String>,
}

/// Events to record for a changed status.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StatusChanges {
    /// Reasons of the events of changed conditions.
    pub(super) condition_events: Vec<&'static str>,
    /// New boot ID after a reboot.
    pub(super) new_boot_id: Option<String>,
}

/// Updates a status. Values of other writers are kept: extended resources, and conditions of other types.
pub(super) fn set_node_status(
    status: &mut NodeStatus,
    observed: &NodeObservation,
    now: Timestamp,
) -> StatusChanges {
    let machine = &observed.machine;
    status.addresses = Some(addresses(observed));
    let capacity = capacity::capacity(machine, observed.disk, observed.max_pods);
    let allocatable = capacity::allocatable(&capacity, &observed.thresholds);
    set_resources(status.capacity.get_or_insert_default(), &capacity);
    set_resources(status.allocatable.get_or_insert_default(), &allocatable);
    let info = status.node_info.get_or_insert_default();
    let rebooted = !info.boot_id.is_empty() && info.boot_id != machine.identity.boot_id;
    *info = NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: machine.identity.boot_id.clone(),
        container_runtime_version: observed
            .runtime
            .clone()
            .unwrap_or_else(|| "unknown://Unknown".to_owned()),
        kernel_version: machine.identity.kernel.clone(),
        kube_proxy_version: String::new(),
        kubelet_version: observed.kubelet_version.clone(),
        machine_id: machine.identity.machine_id.clone(),
        operating_system: "linux".to_owned(),
        os_image: machine.identity.os_image.clone(),
        running_in_user_namespace: info.running_in_user_namespace,
        swap: (machine.swap > 0).then(|| NodeSwapStatus {
            capacity: i64::try_from(machine.swap).ok(),
        }),
        system_uuid: machine.identity.system_uuid.clone(),
    };
    status.daemon_endpoints = Some(NodeDaemonEndpoints {
        kubelet_endpoint: Some(DaemonEndpoint {
            port: observed.port.into(),
        }),
    });
    let images = images(&observed.images);
    status.images = (!images.is_empty()).then_some(images);
    let mut problems = observed.problems.clone();
    problems.extend(missing_capacity(&capacity));
    let conditions = status.conditions.get_or_insert_default();
    StatusChanges {
        condition_events: conditions::update_conditions(conditions, observed.pressures, &problems, now),
        new_boot_id: rebooted.then(|| machine.identity.boot_id.clone()),
    }
}

/// The problem of a node without one of the required resources.
// upstream: pkg/kubelet/nodestatus/setters.go ReadyCondition
fn missing_capacity(capacity: &ResourceList) -> Option<String> {
    let names = ["cpu", "memory", "pods", "ephemeral-storage"];
    let missing: Vec<_> = names
        .into_iter()
        .filter(|name| !capacity.contains_key(*name))
        .collect();
    let text = || format!("missing node capacity for resources: {}", missing.join(", "));
    (!missing.is_empty()).then(text)
}

/// Sets resources. Removes page sizes that the machine no longer has; keeps extended resources.
// upstream: pkg/kubelet/kubelet_node_status.go reconcileHugePageResource
fn set_resources(list: &mut BTreeMap<String, WireQuantity>, amounts: &ResourceList) {
    list.retain(|name, _| !name.starts_with("hugepages-") || amounts.contains_key(name));
    for (name, amount) in amounts {
        list.insert(name.clone(), WireQuantity(amount.to_string()));
    }
}

fn addresses(observed: &NodeObservation) -> Vec<NodeAddress> {
    let address = |kind: &str, address: String| NodeAddress {
        type_: kind.to_owned(),
        address,
    };
    let internal = observed.addresses.iter();
    let internal = internal.map(|ip| address("InternalIP", ip.to_string()));
    internal
        .chain([address("Hostname", observed.name.clone())])
        .collect()
}

/// The largest images, in a stable order. Images without a name (such as intermediate images of a build) are omitted: no pod can
/// use them, and the API encodes their empty list of names as `null`, which some clients reject.
// upstream: pkg/kubelet/nodestatus/setters.go Images
fn images(all: &[Image]) -> Vec<ContainerImage> {
    let is_named = |image: &&Image| !image.digests.is_empty() || !image.tags.is_empty();
    let mut all: Vec<&Image> = all.iter().filter(is_named).collect();
    all.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| one.id.cmp(&other.id)));
    let images = all.into_iter().take(MAX_IMAGES).map(|image| {
        let names = image.digests.iter().chain(&image.tags).take(MAX_NAMES_PER_IMAGE);
        ContainerImage {
            names: Some(names.cloned().collect()),
            size_bytes: i64::try_from(image.size).ok(),
        }
    });
    images.collect()
}

/// Whether a status differs in anything except the heartbeat times.
// upstream: pkg/kubelet/kubelet_node_status.go nodeStatusHasChanged
pub(super) fn node_status_has_changed(old: &NodeStatus, new: &NodeStatus) -> bool {
    let without_heartbeats = |status: &NodeStatus| {
        let mut status = status.clone();
        let mut conditions = status.conditions.take().unwrap_or_default();
        conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
        for condition in &mut conditions {
            condition.last_heartbeat_time = None;
        }
        status.conditions = Some(conditions);
        status
    };
    without_heartbeats(old) != without_heartbeats(new)
}

/// A strategic merge patch between two statuses: all conditions of this agent, and the other fields that differ.
// upstream: staging/src/k8s.io/component-helpers/node/util/status.go preparePatchBytesforNodeStatus
pub(super) fn status_patch(old: &NodeStatus, new: &NodeStatus) -> Value {
    let object = |status: &NodeStatus| match json!(status) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let old = object(old);
    let new = object(new);
    let mut patch = Map::new();
    for (name, value) in &new {
        let before = old.get(name);
        match name.as_str() {
            "conditions" => {
                let own = value.as_array().into_iter().flatten();
                let own = own.filter(|condition| {
                    OWN_CONDITIONS.contains(&condition["type"].as_str().unwrap_or_default())
                });
                patch.insert(name.clone(), own.cloned().collect());
            }
            _ if before == Some(value) => {}
            "addresses" => {
                // A merge by type would lose addresses: there may be several of one type.
                // upstream: staging/src/k8s.io/component-helpers/node/util/status.go fixupPatchForNodeStatusAddresses
                let mut list = vec![json!({"$patch": "replace"})];
                list.extend(value.as_array().into_iter().flatten().cloned());
                patch.insert(name.clone(), list.into());
            }
            "capacity" | "allocatable" => {
                patch.insert(name.clone(), difference(before, value));
            }
            _ => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    patch.extend(removed.map(|name| (name.clone(), Value::Null)));
    json!({"status": patch})
}

/// The changed fields of an object, and `null` for the removed ones.
fn difference(old: Option<&Value>, new: &Value) -> Value {
    let none = Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&none);
    let fields = new.as_object().unwrap_or(&none);
    let changed = fields
        .iter()
        .filter(|(name, value)| old.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| (name.clone(), value.clone()));
    let removed = old.keys().filter(|name| !fields.contains_key(*name));
    Value::Object(
        changed
            .chain(removed.map(|name| (name.clone(), Value::Null)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation() -> NodeObservation {
        NodeObservation {
            name: "n".to_owned(),
            machine: MachineInfo {
                cpu_milli: 2000,
                memory: 1 << 30,
                identity: crate::agent::machine::MachineIdentity {
                    boot_id: "one".to_owned(),
                    ..Default::default()
                },
                ..MachineInfo::default()
            },
            disk: Some(10 << 30),
            max_pods: 110,
            addresses: vec![[10, 0, 0, 1].into()],
            port: 10250,
            ..NodeObservation::default()
        }
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn unchanged_node_has_same_status() {
        let mut first = NodeStatus::default();
        let changes = set_node_status(&mut first, &observation(), now());
        assert_eq!(changes.condition_events.len(), 4);
        assert_eq!(changes.new_boot_id, None);
        let mut second = first.clone();
        assert_eq!(
            set_node_status(
                &mut second,
                &observation(),
                now() + std::time::Duration::from_mins(1)
            ),
            StatusChanges::default()
        );
        assert!(!node_status_has_changed(&first, &second));
        let patch = status_patch(&first, &second);
        assert_eq!(patch["status"].as_object().unwrap().len(), 1, "{patch}");
        assert_eq!(
            patch["status"]["conditions"][3]["lastHeartbeatTime"],
            "2026-01-01T00:01:00Z"
        );
    }

    #[test]
    fn patches_changes_and_reports_reboot() {
        let mut first = NodeStatus::default();
        set_node_status(&mut first, &observation(), now());
        let extended = first.capacity.get_or_insert_default();
        extended.insert("example.com/device".to_owned(), WireQuantity("3".to_owned()));
        extended.insert("hugepages-2Mi".to_owned(), WireQuantity("0".to_owned()));
        let mut later = observation();
        later.machine.identity.boot_id = "two".to_owned();
        later.machine.memory = 2 << 30;
        later.addresses.push([10, 0, 0, 2].into());
        let mut second = first.clone();
        let changes = set_node_status(&mut second, &later, now());
        assert_eq!(changes.new_boot_id.as_deref(), Some("two"));
        assert!(node_status_has_changed(&first, &second));
        let patch = status_patch(&first, &second);
        assert_eq!(
            patch["status"]["capacity"],
            json!({"memory": "2Gi", "hugepages-2Mi": null})
        );
        assert_eq!(patch["status"]["addresses"][0], json!({"$patch": "replace"}));
        assert_eq!(patch["status"]["addresses"].as_array().unwrap().len(), 4);
        assert_eq!(patch["status"]["nodeInfo"]["bootID"], "two");
        assert!(patch["status"].get("daemonEndpoints").is_none());
    }

    #[test]
    fn node_without_required_resource_is_not_ready() {
        let mut status = NodeStatus::default();
        set_node_status(
            &mut status,
            &NodeObservation {
                disk: None,
                ..observation()
            },
            now(),
        );
        let ready = &status.conditions.unwrap()[3];
        assert_eq!(
            ready.message.as_deref(),
            Some("missing node capacity for resources: ephemeral-storage")
        );
    }

    #[test]
    fn reports_largest_images() {
        let all: Vec<Image> = (0..60)
            .map(|size| Image {
                id: format!("id-{size}"),
                size,
                tags: (0..7).map(|tag| format!("image:{tag}")).collect(),
                digests: vec!["image@sha256:x".to_owned()],
                ..Image::default()
            })
            .collect();
        let reported = images(&all);
        assert_eq!(reported.len(), 50);
        assert_eq!(reported[0].size_bytes, Some(59));
        assert_eq!(
            reported[0].names.as_ref().unwrap()[..2],
            ["image@sha256:x", "image:0"]
        );
        assert_eq!(reported[0].names.as_ref().unwrap().len(), 5);
    }
}
