//! Computes the mirrored slices of an Endpoints object.

use std::{collections::BTreeMap, sync::Arc};

use super::MANAGER;
use crate::{
    objects::{AddressPort, Endpoint, EndpointAddress, EndpointSlice, Endpoints, SlicePort},
    services::{
        LEADER, TRIGGER_TIME,
        endpoint_key::{EndpointKey, EndpointSet, differs},
        port_order,
        service_pods::address,
        slice_writer::{DesiredSlice, MANAGED_BY, SERVICE_NAME, SliceChanges},
        subsets::repack,
    },
};

/// Maximum number of addresses per subset, so that each subset fits into one slice per address family.
pub(super) const MAX_ADDRESSES_PER_SUBSET: usize = 1000;
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

type LabelPairs = BTreeMap<Box<str>, Box<str>>;
/// Address type and ports of a slice.
type SliceKind = (&'static str, Vec<SlicePort>);

/// Changes to slices.
#[derive(Debug, Default)]
pub(super) struct MirroringPlan {
    pub(super) changes: SliceChanges,
    /// Number of invalid addresses.
    pub(super) invalid: usize,
    /// Number of addresses that are not mirrored for any reason.
    pub(super) skipped: usize,
}

/// Whether Endpoints are mirrored: not skipped by label, and no leader election lock.
// upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go shouldMirror
pub(super) fn should_mirror(endpoints: &Endpoints) -> bool {
    let meta = &endpoints.metadata;
    meta.label(SKIP) != Some("true") && meta.annotation(LEADER).is_none()
}

// upstream: pkg/controller/endpointslicemirroring/utils.go newEndpointSlice, cloneAndRemoveKeys
pub(super) fn labels_for(endpoints: &Endpoints) -> LabelPairs {
    let mut labels = endpoints.metadata.labels.to_map();
    labels.insert(SERVICE_NAME.into(), endpoints.metadata.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

pub(super) fn annotations_for(endpoints: &Endpoints) -> LabelPairs {
    let mut notes = endpoints.metadata.annotations.to_map();
    notes.remove(TRIGGER_TIME);
    notes
}

// --- MirroringPlan ---

impl MirroringPlan {
    // upstream: pkg/controller/endpointslicemirroring/reconciler.go reconcile
    pub(super) fn new(endpoints: &Endpoints, slices: &[Arc<EndpointSlice>]) -> Self {
        let mut plan = MirroringPlan::default();
        let mut desired = plan.desired(endpoints);
        let mut existing: BTreeMap<SliceKind, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in slices {
            let slice_address_type = if &*slice.address_type == "IPv6" {
                "IPv6"
            } else {
                "IPv4"
            };
            let kind = (slice_address_type, port_order::slice_ports(slice.ports.clone()));
            existing.entry(kind).or_default().push(Arc::clone(slice));
        }
        for (kind, slices) in existing {
            let set = desired.remove(&kind).unwrap_or_default();
            plan.reconcile_port_mapping(endpoints, &kind, &slices, set);
        }
        for (kind, set) in desired {
            plan.reconcile_port_mapping(endpoints, &kind, &[], set);
        }
        plan.changes
            .recycle(|slice, desired_slice| slice.address_type == desired_slice.address_type);
        if endpoints.metadata.is_terminating() {
            plan.changes.create.clear();
        }
        plan
    }

    /// The desired endpoints.
    fn desired(&mut self, endpoints: &Endpoints) -> BTreeMap<SliceKind, EndpointSet> {
        let mut desired: BTreeMap<SliceKind, EndpointSet> = BTreeMap::new();
        for subset in repack(endpoints.subsets.clone()) {
            let ports = port_order::slice_ports(subset.ports.iter().map(slice_port).collect());
            let ready = subset.addresses.iter().map(|address| (address, true));
            let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
            let mut reported = 0;
            for (address, is_ready) in all {
                if reported >= MAX_ADDRESSES_PER_SUBSET {
                    self.skipped += 1;
                    continue;
                }
                let Some((slice_address_type, mut endpoint)) = endpoint(address) else {
                    self.invalid += 1;
                    self.skipped += 1;
                    continue;
                };
                endpoint.conditions.ready = Some(is_ready);
                reported += 1;
                let set = desired.entry((slice_address_type, ports.clone())).or_default();
                set.insert(EndpointKey::of(&endpoint), endpoint);
            }
        }
        desired
    }

    /// Puts the endpoints of a kind into one slice.
    // upstream: pkg/controller/endpointslicemirroring/reconciler.go reconcileByPortMapping
    fn reconcile_port_mapping(
        &mut self,
        endpoints: &Endpoints,
        kind: &SliceKind,
        slices: &[Arc<EndpointSlice>],
        set: EndpointSet,
    ) {
        let (slice_address_type, ports) = kind;
        let Some((first, others)) = slices.split_first() else {
            self.changes
                .create
                .extend((!set.is_empty()).then(|| desired_slice(slice_address_type, ports, set)));
            return;
        };
        if set.is_empty() {
            self.changes.delete.extend(slices.iter().cloned());
            return;
        }
        self.changes.delete.extend(others.iter().cloned());
        if !is_up_to_date(endpoints, first, &set) {
            self.changes
                .update
                .push((Arc::clone(first), desired_slice(slice_address_type, ports, set)));
        }
    }
}

fn desired_slice(slice_address_type: &str, ports: &[SlicePort], set: EndpointSet) -> DesiredSlice {
    DesiredSlice {
        address_type: slice_address_type.into(),
        ports: ports.to_vec(),
        endpoints: set.into_values().take(MAX_ADDRESSES_PER_SUBSET).collect(),
    }
}

/// Whether a slice is up to date.
// upstream: pkg/controller/endpointslicemirroring/reconciler.go needRebuildExistingSlices
fn is_up_to_date(endpoints: &Endpoints, slice: &EndpointSlice, set: &EndpointSet) -> bool {
    let is_same = |old: &Endpoint| {
        set.get(&EndpointKey::of(old))
            .is_some_and(|new| !differs(old, new))
    };
    let meta = &slice.metadata;
    // The Endpoints may have been deleted and created again.
    let is_of_another = meta.owner_references.iter().any(|owner| {
        let is_named = &*owner.kind == "Endpoints" && owner.name == endpoints.metadata.name;
        is_named && owner.uid != endpoints.metadata.uid
    });
    slice.endpoints.len() == set.len()
        && slice.endpoints.iter().all(is_same)
        && meta.labels.to_map() == labels_for(endpoints)
        && meta.annotations.to_map() == annotations_for(endpoints)
        && !is_of_another
}

// upstream: pkg/controller/endpointslicemirroring/utils.go epPortsToEpsPorts
fn slice_port(port: &AddressPort) -> SlicePort {
    SlicePort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// An address as an endpoint with its address type, without its readiness; `None` if it is invalid.
// upstream: pkg/controller/endpointslicemirroring/utils.go addressToEndpoint
fn endpoint(from: &EndpointAddress) -> Option<(&'static str, Endpoint)> {
    let ip = address(&from.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string().into()],
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
    use k3_workloads::StringMap;

    fn endpoints(subsets: Value) -> Endpoints {
        let metadata = json!({"name": "web", "uid": "u", "labels": {"team": "a"}, "annotations": {"k": "v", TRIGGER_TIME: "t"}});
        Endpoints {
            metadata: serde_json::from_value(metadata).unwrap(),
            subsets: serde_json::from_value(subsets).unwrap(),
        }
    }

    fn slice(endpoints: &Endpoints, desired_slice: &DesiredSlice) -> Arc<EndpointSlice> {
        let owner = endpoints.metadata.as_controller(&crate::resource::ENDPOINTS);
        let metadata = json!({"name": "s", "labels": labels_for(endpoints), "annotations": annotations_for(endpoints), "ownerReferences": [owner]});
        let slice = json!({"metadata": metadata, "addressType": desired_slice.address_type, "ports": desired_slice.ports, "endpoints": desired_slice.endpoints});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    #[test]
    fn mirrors_each_subset_per_address_type() {
        let reported = endpoints(json!([{
            "addresses": [{"ip": "10.0.0.1", "nodeName": "n", "hostname": "h"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.0.0.2"}, {"ip": "nowhere"}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }]));
        let plan = MirroringPlan::new(&reported, &[]);
        let drafts = plan.changes.create.iter().map(|desired_slice| {
            json!([
                desired_slice.address_type,
                desired_slice.endpoints,
                desired_slice.ports
            ])
        });
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
            .map(|desired_slice| slice(&reported, desired_slice))
            .collect();
        assert!(MirroringPlan::new(&reported, &slices).changes.is_empty());
    }

    #[test]
    fn updates_a_slice_with_its_endpoints() {
        let before = endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}]}]));
        let slices = [slice(
            &before,
            &MirroringPlan::new(&before, &[]).changes.create[0],
        )];
        let counts = |reported: &Endpoints| {
            let changes = MirroringPlan::new(reported, &slices).changes;
            (changes.create.len(), changes.update.len(), changes.delete.len())
        };
        let mut labelled = before.clone();
        labelled.metadata.labels = StringMap::default();
        let mut noted = before.clone();
        noted.metadata.annotations = StringMap::default();
        let mut recreated = before.clone();
        recreated.metadata.uid = "v".into();
        for reported in [
            labelled,
            noted,
            recreated,
            endpoints(json!([{"notReadyAddresses": [{"ip": "10.0.0.1"}]}])),
        ] {
            assert_eq!(counts(&reported), (0, 1, 0), "{reported:?}");
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
    fn skips_addresses_beyond_the_limit() {
        let addresses: Vec<_> = (0..1005)
            .map(|index| json!({"ip": format!("10.0.{}.{}", index / 200, index % 200)}))
            .collect();
        let plan = MirroringPlan::new(&endpoints(json!([{"addresses": addresses}])), &[]);
        assert_eq!((plan.changes.create[0].endpoints.len(), plan.skipped), (1000, 5));
    }
}
