//! Allocation records: the owner of an address or port. Creating the record in the store decides races.
//!
//! The record of an address is an `IPAddress`, as clients know it. There is no such kind for ports on nodes: a record of our
//! own stands for each, under a key that is no resource's. A record a port, and not one of all ports, so that two who want
//! different ports never meet.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use k3_api::{
    kinds::{
        builtin,
        service::{self, IpFamily},
    },
    name::parse_ip_sloppy,
    strategy::Tree,
    time::Time,
};
use k3_storage::{Key, Revision};
use serde_json::{Value, json};

use crate::{
    cache::{CachedObject, WatchCache, WatchCaches},
    registry::{self, Resource},
};

/// Groups of resources have no such name.
const PORTS_PREFIX: &str = "/registry/-/nodeports/";

const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";

/// Something only one service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum AllocatedItem {
    /// An address in the cluster.
    Address(IpAddr),
    /// A port on all nodes.
    Port(u16),
}

/// The service that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordOwner {
    pub namespace: String,
    pub name: String,
}

/// Where the records are, and the services they are about.
pub(super) struct AllocationRecords {
    addresses: Resource,
    ports: Arc<WatchCache>,
    pub services: Resource,
}

// --- RecordOwner ---

impl RecordOwner {
    /// The service itself.
    pub(super) fn of(service: &Value) -> Self {
        let metadata = service.at("metadata");
        RecordOwner {
            namespace: metadata.text("namespace").to_owned(),
            name: metadata.text("name").to_owned(),
        }
    }

    /// The one a record names.
    pub(super) fn in_record(record: &CachedObject) -> Self {
        let tree = record.tree();
        let service = match tree.at("spec").at("parentRef") {
            Value::Null => tree.at("service"),
            parent => parent,
        };
        RecordOwner {
            namespace: service.text("namespace").to_owned(),
            name: service.text("name").to_owned(),
        }
    }

    /// Whether it is the service `kubernetes`. Every server creates it at start, so a server that reserves its address does so
    /// for all.
    pub(super) fn is_of_servers(&self) -> bool {
        self.namespace == "default" && self.name == "kubernetes"
    }
}

// --- AllocationRecords ---

impl AllocationRecords {
    /// The records in the caches.
    pub(super) fn of(caches: &WatchCaches) -> Self {
        let resource = |group, kind| {
            let kind = builtin().kind(group, "v1", kind);
            Resource::of(kind.expect("the kind is built in"), caches)
        };
        AllocationRecords {
            addresses: resource("networking.k8s.io", "IPAddress"),
            ports: caches.resource(PORTS_PREFIX),
            services: resource("", "Service"),
        }
    }

    /// The key of a record.
    pub(super) fn key(&self, item: AllocatedItem) -> Key {
        let text = match item {
            AllocatedItem::Address(address) => format!("{}{address}", self.addresses.under("")),
            AllocatedItem::Port(port) => format!("{PORTS_PREFIX}{port}"),
        };
        Key::try_new(text).expect("addresses and numbers are short and plain")
    }

    /// The record of an item, if it is allocated.
    pub(super) fn find(&self, item: AllocatedItem) -> Option<Arc<CachedObject>> {
        let key = self.key(item);
        match item {
            AllocatedItem::Address(_) => self.addresses.cache.get(&key),
            AllocatedItem::Port(_) => self.ports.get(&key),
        }
    }

    /// A record as it is stored.
    pub(super) fn write(&self, item: AllocatedItem, owner: &RecordOwner, now: Time) -> Bytes {
        let RecordOwner { namespace, name } = owner;
        match item {
            AllocatedItem::Address(address) => {
                let family = if address.is_ipv4() {
                    IpFamily::V4
                } else {
                    IpFamily::V6
                };
                let object = json!({
                    "apiVersion": "networking.k8s.io/v1",
                    "kind": "IPAddress",
                    "metadata": {
                        "name": address.to_string(),
                        "labels": {FAMILY_LABEL: family.name(), MANAGER_LABEL: MANAGER},
                    },
                    "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
                });
                registry::own_object(&self.addresses, &object, "kube-apiserver", now)
            }
            AllocatedItem::Port(_) => {
                let record = json!({"service": {"namespace": namespace, "name": name}});
                Bytes::from(record.to_string())
            }
        }
    }

    /// A record or a service that is not decrypted, if there is one.
    pub(super) fn undecrypted(&self) -> Option<Arc<CachedObject>> {
        let caches = [&self.services.cache, &self.addresses.cache, &self.ports];
        caches
            .into_iter()
            .find_map(|cache| cache.snapshot(Revision::ZERO).undecrypted().into_iter().next())
    }

    /// All records of the server's making.
    pub(super) fn all(&self, applied: Revision) -> Vec<(AllocatedItem, Arc<CachedObject>)> {
        let mut all = Vec::new();
        for object in self.addresses.cache.snapshot(applied).objects.values() {
            // Others may be made by users, for purposes of their own.
            let is_ours = object.tree().at("metadata").at("labels").text(MANAGER_LABEL) == MANAGER;
            if let (true, Some(address)) = (is_ours, parse_ip_sloppy(object.name())) {
                all.push((AllocatedItem::Address(address), Arc::clone(object)));
            }
        }
        for object in self.ports.snapshot(applied).objects.values() {
            if let Ok(port) = object.name().parse() {
                all.push((AllocatedItem::Port(port), Arc::clone(object)));
            }
        }
        all
    }
}

/// Everything a service has.
pub(super) fn held_by(service: &Value) -> Vec<AllocatedItem> {
    let addresses = service::cluster_ip_changes(None, Some(service)).release;
    let ports = service::node_port_changes(None, Some(service)).map(|ports| ports.release);
    // Of a stored service, which was valid: an error means that it has ports that cannot be allocated, so it has none.
    items(&addresses, &ports.unwrap_or_default())
}

/// Addresses and ports as items; what is neither is left out.
pub(super) fn items(addresses: &[String], ports: &[i64]) -> Vec<AllocatedItem> {
    let addresses = addresses.iter().filter_map(|text| parse_ip_sloppy(text));
    let ports = ports.iter().filter_map(|number| u16::try_from(*number).ok());
    let mut items: Vec<_> = addresses
        .map(AllocatedItem::Address)
        .chain(ports.map(AllocatedItem::Port))
        .collect();
    items.sort_unstable();
    items.dedup();
    items
}
