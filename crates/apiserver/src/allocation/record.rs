//! Who has an address or a port: a record in the store, which only one can make.
//!
//! The record of an address is an `IPAddress`, as clients know it. There is no such kind for ports on nodes: a record of our
//! own stands for each, under a key that is no resource's. A record a port, and not one of all ports, so that two who want
//! different ports never meet.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use k3_api::{
    kinds::{
        builtin,
        service::{self, Family},
    },
    name::parse_ip_sloppy,
    strategy::Tree,
    time::Time,
};
use k3_storage::Key;
use serde_json::{Value, json};

use crate::{
    cache::{Caches, Object, ResourceCache},
    registry::{self, Resource},
};

/// Groups of resources have no such name.
const PORTS_PREFIX: &str = "/registry/-/nodeports/";

const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";

/// Something only one service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// An address in the cluster.
    Address(IpAddr),
    /// A port on all nodes.
    Port(u16),
}

/// The service that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub namespace: String,
    pub name: String,
}

/// Where the records are, and the services they are about.
pub(super) struct Records {
    addresses: Resource,
    ports: Arc<ResourceCache>,
    pub services: Resource,
}

// --- Owner ---

impl Owner {
    /// The service itself.
    pub(super) fn of(service: &Value) -> Self {
        let metadata = service.at("metadata");
        Owner {
            namespace: metadata.text("namespace").to_owned(),
            name: metadata.text("name").to_owned(),
        }
    }

    /// The one a record names.
    pub(super) fn in_record(record: &Object) -> Self {
        let tree = record.tree();
        let service = match tree.at("spec").at("parentRef") {
            Value::Null => tree.at("service"),
            parent => parent,
        };
        Owner {
            namespace: service.text("namespace").to_owned(),
            name: service.text("name").to_owned(),
        }
    }

    /// Whether it is the service by which pods reach the API server. Every server makes it at start, so whoever sets its
    /// address aside does so for all.
    pub(super) fn is_of_servers(&self) -> bool {
        self.namespace == "default" && self.name == "kubernetes"
    }
}

// --- Records ---

impl Records {
    /// The records in the caches.
    pub(super) fn of(caches: &Caches) -> Self {
        let resource = |group, kind| {
            let kind = builtin().kind(group, "v1", kind);
            Resource::of(kind.expect("the kind is built in"), caches)
        };
        Records {
            addresses: resource("networking.k8s.io", "IPAddress"),
            ports: caches.resource(PORTS_PREFIX),
            services: resource("", "Service"),
        }
    }

    /// The key of a record.
    pub(super) fn key(&self, item: Item) -> Key {
        let text = match item {
            Item::Address(address) => format!("{}{address}", self.addresses.under("")),
            Item::Port(port) => format!("{PORTS_PREFIX}{port}"),
        };
        Key::try_new(text).expect("addresses and numbers are short and plain")
    }

    /// The record of an item, if somebody has it.
    pub(super) fn find(&self, item: Item) -> Option<Arc<Object>> {
        let key = self.key(item);
        match item {
            Item::Address(_) => self.addresses.cache.get(&key),
            Item::Port(_) => self.ports.get(&key),
        }
    }

    /// A record as it is stored.
    pub(super) fn write(&self, item: Item, owner: &Owner, now: Time) -> Bytes {
        let Owner { namespace, name } = owner;
        match item {
            Item::Address(address) => {
                let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
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
            Item::Port(_) => {
                let record = json!({"service": {"namespace": namespace, "name": name}});
                Bytes::from(record.to_string())
            }
        }
    }

    /// A record or a service that is not decrypted, if there is one.
    pub(super) fn undecrypted(&self) -> Option<Arc<Object>> {
        let caches = [&self.services.cache, &self.addresses.cache, &self.ports];
        caches
            .into_iter()
            .find_map(|cache| cache.snapshot(0).undecrypted().into_iter().next())
    }

    /// All records of the server's making.
    pub(super) fn all(&self, applied: u64) -> Vec<(Item, Arc<Object>)> {
        let mut all = Vec::new();
        for object in self.addresses.cache.snapshot(applied).objects.values() {
            // Others may be made by users, for purposes of their own.
            let is_ours = object.tree().at("metadata").at("labels").text(MANAGER_LABEL) == MANAGER;
            if let (true, Some(address)) = (is_ours, parse_ip_sloppy(object.name())) {
                all.push((Item::Address(address), Arc::clone(object)));
            }
        }
        for object in self.ports.snapshot(applied).objects.values() {
            if let Ok(port) = object.name().parse() {
                all.push((Item::Port(port), Arc::clone(object)));
            }
        }
        all
    }
}

/// Everything a service has.
pub(super) fn held_by(service: &Value) -> Vec<Item> {
    let addresses = service::addresses(None, Some(service)).release;
    let ports = service::node_ports(None, Some(service)).map(|ports| ports.release);
    items(&addresses, &ports.unwrap_or_default())
}

/// Addresses and ports as items; what is neither is left out.
pub(super) fn items(addresses: &[String], ports: &[i64]) -> Vec<Item> {
    let addresses = addresses.iter().filter_map(|text| parse_ip_sloppy(text));
    let ports = ports.iter().filter_map(|number| u16::try_from(*number).ok());
    let mut items: Vec<_> = addresses
        .map(Item::Address)
        .chain(ports.map(Item::Port))
        .collect();
    items.sort_unstable();
    items.dedup();
    items
}
