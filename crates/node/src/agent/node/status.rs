//! What a Node says of itself, and what of that changed.

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
    capacity::{self, Amounts},
    conditions::{self, OWN, Pressures},
};
use crate::{
    agent::{
        machine::{Machine, architecture},
        pressure::Threshold,
    },
    runtime::Image,
};

/// How many images a Node tells of, and how many names of each.
const IMAGES: usize = 50;
const NAMES: usize = 5;

/// What is seen of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) name: String,
    pub(super) machine: Machine,
    /// The size of the file system that pods write to.
    pub(super) disk: Option<u64>,
    pub(super) max_pods: u32,
    pub(super) thresholds: Vec<Threshold>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// As the runtime is told in the Node.
    pub(super) runtime: Option<String>,
    pub(super) kubelet_version: String,
    pub(super) images: Vec<Image>,
    pub(super) pressures: Pressures,
    /// Why it is not ready.
    pub(super) problems: Vec<String>,
}

/// What is to be told because of a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tidings {
    /// What the node is now.
    pub(super) statuses: Vec<&'static str>,
    /// The boot id, if it is another one.
    pub(super) rebooted: Option<String>,
}

/// Writes what is seen into a status. What others wrote there stays: extended resources, and conditions that are not ours.
pub(super) fn fill(status: &mut NodeStatus, observed: &Observed, now: Timestamp) -> Tidings {
    let machine = &observed.machine;
    status.addresses = Some(addresses(observed));
    let capacity = capacity::capacity(machine, observed.disk, observed.max_pods);
    let allocatable = capacity::allocatable(&capacity, &observed.thresholds);
    put(status.capacity.get_or_insert_default(), &capacity);
    put(status.allocatable.get_or_insert_default(), &allocatable);
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
    problems.extend(missing(&capacity));
    let conditions = status.conditions.get_or_insert_default();
    Tidings {
        statuses: conditions::renew(conditions, observed.pressures, &problems, now),
        rebooted: rebooted.then(|| machine.identity.boot_id.clone()),
    }
}

/// What a node has to have and does not.
fn missing(capacity: &Amounts) -> Option<String> {
    let names = ["cpu", "memory", "pods", "ephemeral-storage"];
    let missing: Vec<_> = names
        .into_iter()
        .filter(|name| !capacity.contains_key(*name))
        .collect();
    let text = || format!("missing node capacity for resources: {}", missing.join(", "));
    (!missing.is_empty()).then(text)
}

/// Sets our amounts. Sizes of huge pages that the machine no longer has go; what others count there stays.
fn put(known: &mut BTreeMap<String, WireQuantity>, amounts: &Amounts) {
    known.retain(|name, _| !name.starts_with("hugepages-") || amounts.contains_key(name));
    for (name, amount) in amounts {
        known.insert(name.clone(), WireQuantity(amount.to_string()));
    }
}

fn addresses(observed: &Observed) -> Vec<NodeAddress> {
    let address = |kind: &str, address: String| NodeAddress {
        type_: kind.to_owned(),
        address,
    };
    let internal = observed.addresses.iter();
    let internal = internal.map(|known| address("InternalIP", known.to_string()));
    internal
        .chain([address("Hostname", observed.name.clone())])
        .collect()
}

/// The largest images, the same order each time. One without a name (left behind by a build) is left out: no pod can ask for
/// it, and the API shows its empty list of names as `null`, which not every client reads.
fn images(all: &[Image]) -> Vec<ContainerImage> {
    let is_named = |image: &&Image| !image.digests.is_empty() || !image.tags.is_empty();
    let mut all: Vec<&Image> = all.iter().filter(is_named).collect();
    all.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| one.id.cmp(&other.id)));
    let images = all.into_iter().take(IMAGES).map(|image| {
        let names = image.digests.iter().chain(&image.tags).take(NAMES);
        ContainerImage {
            names: Some(names.cloned().collect()),
            size_bytes: i64::try_from(image.size).ok(),
        }
    });
    images.collect()
}

/// Whether anything is different but when it was last looked.
pub(super) fn has_changed(old: &NodeStatus, new: &NodeStatus) -> bool {
    let still = |status: &NodeStatus| {
        let mut status = status.clone();
        let mut conditions = status.conditions.take().unwrap_or_default();
        conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
        for condition in &mut conditions {
            condition.last_heartbeat_time = None;
        }
        status.conditions = Some(conditions);
        status
    };
    still(old) != still(new)
}

/// A strategic merge patch from one status to another: our conditions, and of the rest what is different.
pub(super) fn patch(old: &NodeStatus, new: &NodeStatus) -> Value {
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
                let ours = value.as_array().into_iter().flatten();
                let ours = ours.filter(|known| OWN.contains(&known["type"].as_str().unwrap_or_default()));
                patch.insert(name.clone(), ours.cloned().collect());
            }
            _ if before == Some(value) => {}
            "addresses" => {
                // There may be several of one type, which is what they would be told apart by.
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
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    json!({"status": patch})
}

/// The fields of an object that are different, and those that are gone.
fn difference(old: Option<&Value>, new: &Value) -> Value {
    let none = Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&none);
    let fields = new.as_object().unwrap_or(&none);
    let changed = fields
        .iter()
        .filter(|(name, value)| old.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| (name.clone(), value.clone()));
    let gone = old.keys().filter(|name| !fields.contains_key(*name));
    Value::Object(
        changed
            .chain(gone.map(|name| (name.clone(), Value::Null)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observed {
        Observed {
            name: "n".to_owned(),
            machine: Machine {
                cpu_milli: 2000,
                memory: 1 << 30,
                identity: crate::agent::machine::Identity {
                    boot_id: "one".to_owned(),
                    ..Default::default()
                },
                ..Machine::default()
            },
            disk: Some(10 << 30),
            max_pods: 110,
            addresses: vec![[10, 0, 0, 1].into()],
            port: 10250,
            ..Observed::default()
        }
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_status_is_filled_once_and_then_is_the_same() {
        let mut first = NodeStatus::default();
        let tidings = fill(&mut first, &observed(), now());
        assert_eq!(tidings.statuses.len(), 4);
        assert_eq!(tidings.rebooted, None);
        let mut second = first.clone();
        assert_eq!(
            fill(
                &mut second,
                &observed(),
                now() + std::time::Duration::from_mins(1)
            ),
            Tidings::default()
        );
        assert!(!has_changed(&first, &second));
        let patch = patch(&first, &second);
        assert_eq!(patch["status"].as_object().unwrap().len(), 1, "{patch}");
        assert_eq!(
            patch["status"]["conditions"][3]["lastHeartbeatTime"],
            "2026-01-01T00:01:00Z"
        );
    }

    #[test]
    fn a_change_is_patched_and_a_reboot_told() {
        let mut first = NodeStatus::default();
        fill(&mut first, &observed(), now());
        let extended = first.capacity.get_or_insert_default();
        extended.insert("example.com/thing".to_owned(), WireQuantity("3".to_owned()));
        extended.insert("hugepages-2Mi".to_owned(), WireQuantity("0".to_owned()));
        let mut later = observed();
        later.machine.identity.boot_id = "two".to_owned();
        later.machine.memory = 2 << 30;
        later.addresses.push([10, 0, 0, 2].into());
        let mut second = first.clone();
        let tidings = fill(&mut second, &later, now());
        assert_eq!(tidings.rebooted.as_deref(), Some("two"));
        assert!(has_changed(&first, &second));
        let patch = patch(&first, &second);
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
    fn a_node_without_what_it_needs_is_not_ready() {
        let mut status = NodeStatus::default();
        fill(
            &mut status,
            &Observed {
                disk: None,
                ..observed()
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
    fn the_largest_images_are_told() {
        let all: Vec<Image> = (0..60)
            .map(|size| Image {
                id: format!("id-{size}"),
                size,
                tags: (0..7).map(|tag| format!("image:{tag}")).collect(),
                digests: vec!["image@sha256:x".to_owned()],
                ..Image::default()
            })
            .collect();
        let told = images(&all);
        assert_eq!(told.len(), 50);
        assert_eq!(told[0].size_bytes, Some(59));
        assert_eq!(
            told[0].names.as_ref().unwrap()[..2],
            ["image@sha256:x", "image:0"]
        );
        assert_eq!(told[0].names.as_ref().unwrap().len(), 5);
    }
}
