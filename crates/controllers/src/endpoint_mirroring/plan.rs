//! The slices that tell what endpoints tell.

use std::{collections::BTreeMap, sync::Arc};

use super::MANAGER;
use crate::{
    objects::{Address, AddressPort, Endpoint, EndpointConditions, EndpointSlice, Endpoints, SlicePort},
    services::{
        LEADER, TRIGGER_TIME,
        endpoint_key::{EndpointKey, EndpointSet, differs},
        port_order,
        service_pods::address,
        slice_writer::{Changes, DesiredSlice, MANAGED_BY, SERVICE_NAME},
        subsets::repack,
    },
};

/// More addresses of a subset than this are not told, so that each subset is one slice of a family.
pub(super) const MOST: usize = 1000;
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

type Pairs = BTreeMap<Box<str>, Box<str>>;
/// The family and the ports of a slice.
type Kind = (&'static str, Vec<SlicePort>);

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Changes,
    /// How many addresses are none.
    pub(super) invalid: usize,
    /// How many addresses are not told for any reason.
    pub(super) skipped: usize,
}

/// Whether endpoints are to be told in slices: nobody said no, and they are no lock of an election.
pub(super) fn is_meant(endpoints: &Endpoints) -> bool {
    let meta = &endpoints.metadata;
    meta.label(SKIP) != Some("true") && meta.annotation(LEADER).is_none()
}

/// The labels of slices.
pub(super) fn labels(endpoints: &Endpoints) -> Pairs {
    let mut labels = (*endpoints.metadata.labels).clone();
    labels.insert(SERVICE_NAME.into(), endpoints.metadata.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

/// The annotations of slices.
pub(super) fn notes(endpoints: &Endpoints) -> Pairs {
    let mut notes = (*endpoints.metadata.annotations).clone();
    notes.remove(TRIGGER_TIME);
    notes
}

// --- Plan ---

impl Plan {
    pub(super) fn new(endpoints: &Endpoints, slices: &[Arc<EndpointSlice>]) -> Self {
        let mut plan = Plan::default();
        let mut desired = plan.desired(endpoints);
        let mut existing: BTreeMap<Kind, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in slices {
            let family = if &*slice.address_type == "IPv6" {
                "IPv6"
            } else {
                "IPv4"
            };
            let kind = (family, port_order::slice_ports(slice.ports.clone()));
            existing.entry(kind).or_default().push(Arc::clone(slice));
        }
        for (kind, slices) in existing {
            let set = desired.remove(&kind).unwrap_or_default();
            plan.put(endpoints, &kind, &slices, set);
        }
        for (kind, set) in desired {
            plan.put(endpoints, &kind, &[], set);
        }
        plan.changes
            .recycle(|slice, draft| slice.address_type == draft.address_type);
        if endpoints.metadata.is_going() {
            plan.changes.create.clear();
        }
        plan
    }

    /// The endpoints that there are to be.
    fn desired(&mut self, endpoints: &Endpoints) -> BTreeMap<Kind, EndpointSet> {
        let mut desired: BTreeMap<Kind, EndpointSet> = BTreeMap::new();
        for subset in repack(endpoints.subsets.clone()) {
            let ports = port_order::slice_ports(subset.ports.iter().map(slice_port).collect());
            let ready = subset.addresses.iter().map(|address| (address, true));
            let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
            let mut told = 0;
            for (address, is_ready) in all {
                if told >= MOST {
                    self.skipped += 1;
                    continue;
                }
                let Some((family, endpoint)) = endpoint(address, is_ready) else {
                    self.invalid += 1;
                    self.skipped += 1;
                    continue;
                };
                told += 1;
                let set = desired.entry((family, ports.clone())).or_default();
                set.insert(EndpointKey::of(&endpoint), endpoint);
            }
        }
        desired
    }

    /// Puts endpoints of a kind into one slice.
    fn put(&mut self, endpoints: &Endpoints, kind: &Kind, slices: &[Arc<EndpointSlice>], set: EndpointSet) {
        let (family, ports) = kind;
        let Some((first, others)) = slices.split_first() else {
            self.changes
                .create
                .extend((!set.is_empty()).then(|| draft(family, ports, set)));
            return;
        };
        if set.is_empty() {
            self.changes.delete.extend(slices.iter().cloned());
            return;
        }
        self.changes.delete.extend(others.iter().cloned());
        if !is_told(endpoints, first, &set) {
            self.changes
                .update
                .push((Arc::clone(first), draft(family, ports, set)));
        }
    }
}

fn draft(family: &str, ports: &[SlicePort], set: EndpointSet) -> DesiredSlice {
    DesiredSlice {
        address_type: family.into(),
        ports: ports.to_vec(),
        endpoints: set.into_values().take(MOST).collect(),
    }
}

/// Whether a slice tells that already.
fn is_told(endpoints: &Endpoints, slice: &EndpointSlice, set: &EndpointSet) -> bool {
    let is_same = |old: &Endpoint| {
        set.get(&EndpointKey::of(old))
            .is_some_and(|new| !differs(old, new))
    };
    let meta = &slice.metadata;
    // They may have been deleted and made again.
    let is_of_another = meta.owner_references.iter().any(|owner| {
        let is_named = &*owner.kind == "Endpoints" && owner.name == endpoints.metadata.name;
        is_named && owner.uid != endpoints.metadata.uid
    });
    slice.endpoints.len() == set.len()
        && slice.endpoints.iter().all(is_same)
        && *meta.labels == labels(endpoints)
        && *meta.annotations == notes(endpoints)
        && !is_of_another
}

fn slice_port(port: &AddressPort) -> SlicePort {
    SlicePort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// An address as an endpoint, and its family; `None` if it is none.
fn endpoint(from: &Address, is_ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip = address(&from.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string().into()],
        conditions: EndpointConditions {
            ready: Some(is_ready),
            ..EndpointConditions::default()
        },
        hostname: (!from.hostname.is_empty()).then(|| from.hostname.clone()),
        target_ref: from.target_ref.clone(),
        node_name: from.node_name.clone(),
        ..Endpoint::default()
    };
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::StringMap;

    fn endpoints(subsets: Value) -> Endpoints {
        let metadata = json!({"name": "web", "uid": "u", "labels": {"team": "a"}, "annotations": {"k": "v", TRIGGER_TIME: "t"}});
        Endpoints {
            metadata: serde_json::from_value(metadata).unwrap(),
            subsets: serde_json::from_value(subsets).unwrap(),
        }
    }

    fn slice(endpoints: &Endpoints, draft: &DesiredSlice) -> Arc<EndpointSlice> {
        let owner = endpoints.metadata.as_controller(&crate::resource::ENDPOINTS);
        let metadata = json!({"name": "s", "labels": labels(endpoints), "annotations": notes(endpoints), "ownerReferences": [owner]});
        let slice = json!({"metadata": metadata, "addressType": draft.address_type, "ports": draft.ports, "endpoints": draft.endpoints});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    #[test]
    fn each_subset_is_a_slice_of_each_family() {
        let told = endpoints(json!([{
            "addresses": [{"ip": "10.0.0.1", "nodeName": "n", "hostname": "h"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.0.0.2"}, {"ip": "nowhere"}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }]));
        let plan = Plan::new(&told, &[]);
        let drafts = plan
            .changes
            .create
            .iter()
            .map(|draft| json!([draft.address_type, draft.endpoints, draft.ports]));
        let ports = json!([{"name": "http", "protocol": "TCP", "port": 80}]);
        let first = json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "nodeName": "n", "hostname": "h"});
        let other = json!({"addresses": ["10.0.0.2"], "conditions": {"ready": false}});
        let sixth = json!({"addresses": ["fd00::1"], "conditions": {"ready": true}});
        let drafts: Vec<_> = drafts.collect();
        assert_eq!(
            drafts,
            [
                json!(["IPv4", [other, first], ports]),
                json!(["IPv6", [sixth], ports])
            ]
        );
        assert_eq!((plan.invalid, plan.skipped), (1, 1));
        let slices: Vec<_> = plan
            .changes
            .create
            .iter()
            .map(|draft| slice(&told, draft))
            .collect();
        assert!(Plan::new(&told, &slices).changes.is_empty());
    }

    #[test]
    fn a_slice_changes_with_what_it_tells() {
        let before = endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}]}]));
        let slices = [slice(&before, &Plan::new(&before, &[]).changes.create[0])];
        let counts = |told: &Endpoints| {
            let changes = Plan::new(told, &slices).changes;
            (changes.create.len(), changes.update.len(), changes.delete.len())
        };
        let mut labelled = before.clone();
        labelled.metadata.labels = StringMap::default();
        let mut noted = before.clone();
        noted.metadata.annotations = StringMap::default();
        let mut anew = before.clone();
        anew.metadata.uid = "v".into();
        for told in [
            labelled,
            noted,
            anew,
            endpoints(json!([{"notReadyAddresses": [{"ip": "10.0.0.1"}]}])),
        ] {
            assert_eq!(counts(&told), (0, 1, 0), "{told:?}");
        }
        // Other ports: the slice is used for them.
        let ported = endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]));
        assert_eq!(counts(&ported), (0, 1, 0));
        assert_eq!(
            counts(&endpoints(json!([{"addresses": [{"ip": "fd00::1"}]}]))),
            (1, 0, 1)
        );
        assert_eq!(counts(&endpoints(json!([]))), (0, 0, 1));
    }

    #[test]
    fn too_many_addresses_are_not_told() {
        let addresses: Vec<_> = (0..1005)
            .map(|index| json!({"ip": format!("10.0.{}.{}", index / 200, index % 200)}))
            .collect();
        let plan = Plan::new(&endpoints(json!([{"addresses": addresses}])), &[]);
        assert_eq!((plan.changes.create[0].endpoints.len(), plan.skipped), (1000, 5));
    }
}
