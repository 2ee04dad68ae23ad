//! Computes the changes to the slices of a Service.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k3_workloads::{Node, Pod};

use super::{
    MANAGER,
    assign::{SliceAssignment, assign_endpoints},
    desired,
    hints::{TrafficDistribution, is_automatic},
    topology::{self, HintsError, ZoneCpu},
};
use crate::{
    objects::{EndpointSlice, Service, SlicePort},
    services::{
        HEADLESS,
        endpoint_key::EndpointSet,
        port_order,
        slice_writer::{DesiredSlice, MANAGED_BY, SERVICE_NAME, SliceChanges},
    },
};

/// maxEndpointsPerSlice.
pub(super) const MAX_ENDPOINTS_PER_SLICE: usize = 100;
/// Labels that the controller owns, whatever the Service has.
const RESERVED: [&str; 3] = [HEADLESS, SERVICE_NAME, MANAGED_BY];

type Labels = BTreeMap<Box<str>, Box<str>>;

/// A Service with pods and slices at one point in time.
pub(super) struct ObservedService<'a> {
    pub(super) service: &'a Service,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) slices: &'a [Arc<EndpointSlice>],
    /// CPU per zone, if known and topology aware hints are requested.
    pub(super) zones: Option<&'a ZoneCpu>,
}

/// Changes in one address family.
#[derive(Debug, Default)]
pub(super) struct SlicePlan {
    pub(super) address_type: Box<str>,
    pub(super) changes: SliceChanges,
    /// Pods that are skipped because their node is unknown, and that node.
    pub(super) skipped_pods: Vec<(Box<str>, Box<str>)>,
    /// Whether topology aware hints were set, or why not; `None` if they are not requested.
    pub(super) hinted: Option<Result<(), HintsError>>,
}

// --- ObservedService ---

impl ObservedService<'_> {
    /// A plan for each address family, and the deletion of slices of other families at the end.
    // upstream: staging/src/k8s.io/endpointslice/reconciler.go Reconcile
    pub(super) fn plans(
        &self,
        node: impl Fn(&str) -> Option<Arc<Node>>,
    ) -> (Vec<SlicePlan>, Vec<Arc<EndpointSlice>>) {
        let address_types = self.families();
        let plans = address_types
            .iter()
            .map(|address_kind| self.plan(address_kind, &node))
            .collect();
        let is_foreign = |slice: &&Arc<EndpointSlice>| !address_types.contains(&*slice.address_type);
        (plans, self.slices.iter().filter(is_foreign).cloned().collect())
    }

    /// Address types of a Service.
    // upstream: staging/src/k8s.io/endpointslice/utils.go getAddressTypesForService
    fn families(&self) -> BTreeSet<&str> {
        let spec = &self.service.spec;
        let reported = spec.ip_families.iter().map(|address_kind| &**address_kind);
        let reported: BTreeSet<&str> = reported
            .filter(|address_kind| ["IPv4", "IPv6"].contains(address_kind))
            .collect();
        match (reported.is_empty(), self.service.has_address()) {
            (false, _) => reported,
            (true, true) if spec.cluster_ip.contains(':') => ["IPv6"].into(),
            (true, true) => ["IPv4"].into(),
            (true, false) => ["IPv4", "IPv6"].into(),
        }
    }

    // upstream: staging/src/k8s.io/endpointslice/reconciler.go reconcileByAddressType
    fn plan(&self, address_kind: &str, node: impl Fn(&str) -> Option<Arc<Node>>) -> SlicePlan {
        let service = self.service;
        let labels = labels(self.service);
        let (mut desired, skipped_pods) = desired::endpoints(service, self.pods, address_kind, node);
        let existing = self
            .slices
            .iter()
            .filter(|slice| &*slice.address_type == address_kind);
        let mut changes = SliceChanges::default();
        let mut same = Vec::new();
        let mut by_ports: BTreeMap<Vec<SlicePort>, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in existing.clone() {
            if is_owned(slice, service) {
                let ports = port_order::slice_ports(slice.ports.clone());
                by_ports.entry(ports).or_default().push(Arc::clone(slice));
            } else {
                changes.delete.push(Arc::clone(slice));
            }
        }
        for (ports, slices) in by_ports {
            match desired.remove(&ports) {
                Some(set) => reconcile_port_mapping(
                    &mut changes,
                    &mut same,
                    address_kind,
                    &ports,
                    &slices,
                    set,
                    &labels,
                ),
                None => changes.delete.extend(slices),
            }
        }
        for (ports, set) in desired {
            reconcile_port_mapping(&mut changes, &mut same, address_kind, &ports, &[], set, &labels);
        }
        // There is always a slice, so that consumers can distinguish a Service without endpoints from one not yet synced.
        if existing.count() == changes.delete.len() && changes.create.is_empty() {
            let is_placeholder = |slice: &EndpointSlice| {
                slice.endpoints.is_empty()
                    && slice.ports.is_empty()
                    && slice.metadata.labels.to_map() == labels
            };
            match &changes.delete[..] {
                [only] if is_placeholder(only) && is_owned(only, service) => changes.delete.clear(),
                _ => changes.create.push(DesiredSlice {
                    address_type: address_kind.into(),
                    ..DesiredSlice::default()
                }),
            }
        }
        let spread = is_automatic(service).then(|| topology::add_hints(self.zones, &mut changes, &mut same));
        if spread != Some(Ok(())) {
            set_hints(&mut changes, same, TrafficDistribution::of(service));
        }
        changes.recycle(|slice, desired_slice| {
            slice.address_type == desired_slice.address_type && is_owned(slice, service)
        });
        if service.metadata.is_terminating() {
            // The garbage collector deletes slices of a previous Service, and would have to start over.
            changes.create.clear();
        }
        SlicePlan {
            address_type: address_kind.into(),
            changes,
            hinted: spread,
            skipped_pods: skipped_pods
                .into_iter()
                .map(|pod| (pod.metadata.name.clone(), pod.spec.node_name.clone()))
                .collect(),
        }
    }
}

/// Assigns endpoints with the same ports to slices.
// upstream: staging/src/k8s.io/endpointslice/reconciler.go reconcileByPortMapping
fn reconcile_port_mapping(
    changes: &mut SliceChanges,
    same: &mut Vec<Arc<EndpointSlice>>,
    address_kind: &str,
    ports: &[SlicePort],
    slices: &[Arc<EndpointSlice>],
    desired: EndpointSet,
    labels: &Labels,
) {
    let desired_slice = |endpoints| DesiredSlice {
        address_type: address_kind.into(),
        ports: ports.to_vec(),
        endpoints,
    };
    let is_outdated = |slice: &EndpointSlice| !has_labels(slice, labels);
    let assignment: SliceAssignment = assign_endpoints(slices, desired, is_outdated, MAX_ENDPOINTS_PER_SLICE);
    changes
        .create
        .extend(assignment.new.into_iter().map(desired_slice));
    let changed = assignment.changed.into_iter();
    changes
        .update
        .extend(changed.map(|(slice, endpoints)| (slice, desired_slice(endpoints))));
    changes.delete.extend(assignment.empty);
    same.extend(assignment.same);
}

/// Sets hints; slices without other changes are updated only if their hints change.
// upstream: staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go ReconcileHints
fn set_hints(changes: &mut SliceChanges, same: Vec<Arc<EndpointSlice>>, preference: TrafficDistribution) {
    let is_missed =
        |slice: &Arc<EndpointSlice>| slice.endpoints.iter().any(|one| preference.needs_update(one));
    let missed = same.into_iter().filter(is_missed);
    changes.update.extend(missed.map(unchanged));
    let updated = changes.update.iter_mut().map(|(_, desired_slice)| desired_slice);
    for desired_slice in changes.create.iter_mut().chain(updated) {
        desired_slice
            .endpoints
            .iter_mut()
            .for_each(|endpoint| preference.apply(endpoint));
    }
}

/// A slice with its unchanged desired state.
pub(super) fn unchanged(slice: Arc<EndpointSlice>) -> (Arc<EndpointSlice>, DesiredSlice) {
    let desired_slice = DesiredSlice {
        address_type: slice.address_type.clone(),
        ports: slice.ports.clone(),
        endpoints: slice.endpoints.clone(),
    };
    (slice, desired_slice)
}

// upstream: staging/src/k8s.io/endpointslice/utils.go setEndpointSliceLabels
pub(super) fn labels(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.to_map();
    labels.retain(|label, _| !RESERVED.contains(&&**label));
    if !service.has_address() {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.insert(SERVICE_NAME.into(), service.metadata.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

/// Whether a slice has the labels of its Service. Its own labels are kept.
fn has_labels(slice: &EndpointSlice, labels: &Labels) -> bool {
    let own = |mut labels: Labels| {
        labels.retain(|label, _| !RESERVED.contains(&&**label));
        labels
    };
    own(slice.metadata.labels.to_map()) == own(labels.clone())
}

// upstream: staging/src/k8s.io/endpointslice/utils.go ownedBy
fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice.metadata.owner_references.iter().any(|owner| {
        let kind = (&*owner.api_version, &*owner.kind);
        owner.uid == service.metadata.uid && kind == ("v1", "Service")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value) -> Service {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "u", "labels": {"team": "a"}});
        let mut service = json!({"metadata": metadata});
        service["spec"] = spec;
        serde_json::from_value(service).unwrap()
    }

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        let pod = |index| {
            let status = json!({"podIPs": [{"ip": format!("10.0.{}.{}", index / 250, index % 250)}],
                "conditions": [{"type": "Ready", "status": "True"}]});
            let metadata = json!({"name": format!("p{index}"), "namespace": "shop"});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}, "status": status});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        (0..count).map(pod).collect()
    }

    fn slice(name: &str, desired_slice: &DesiredSlice, service: &Service) -> Arc<EndpointSlice> {
        let owner = service.metadata.as_controller(&crate::resource::SERVICES);
        let metadata =
            json!({"name": name, "uid": name, "labels": labels(service), "ownerReferences": [owner]});
        let slice = json!({"metadata": metadata, "addressType": desired_slice.address_type, "ports": desired_slice.ports, "endpoints": desired_slice.endpoints});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    fn plan(service: &Service, pods: &[Arc<Pod>], slices: &[Arc<EndpointSlice>]) -> SliceChanges {
        let (mut plans, foreign) = ObservedService {
            service,
            pods,
            slices,
            zones: None,
        }
        .plans(|name| {
            let node = json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "z"}}});
            Some(Arc::new(serde_json::from_value(node).unwrap()))
        });
        assert_eq!((plans.len(), foreign.len()), (1, 0));
        plans.remove(0).changes
    }

    const SPEC: &str = r#"{"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [{"protocol": "TCP", "targetPort": 80}]}"#;

    fn web() -> Service {
        service(serde_json::from_str(SPEC).unwrap())
    }

    #[test]
    fn creates_an_empty_slice_without_pods() {
        let web = web();
        let changes = plan(&web, &[], &[]);
        assert_eq!((changes.create.len(), changes.create[0].endpoints.len()), (1, 0));
        let placeholder = slice("a", &changes.create[0], &web);
        assert!(plan(&web, &[], &[Arc::clone(&placeholder)]).is_empty());
        // It is used when there is something to tell.
        let changes = plan(&web, &pods(1), &[placeholder]);
        assert_eq!(
            (changes.create.len(), changes.update.len(), changes.delete.len()),
            (0, 1, 0)
        );
        assert_eq!(changes.update[0].1.ports.len(), 1);
        // When all are gone, the last slice becomes it.
        let full = slice("a", &changes.update[0].1, &web);
        let changes = plan(&web, &[], &[full]);
        assert_eq!(
            (changes.create.len(), changes.update.len(), changes.delete.len()),
            (0, 1, 0)
        );
        assert_eq!(
            changes.update[0].1,
            DesiredSlice {
                address_type: "IPv4".into(),
                ..DesiredSlice::default()
            }
        );
    }

    #[test]
    fn updates_slice_labels() {
        let mut web = web();
        let changes = plan(&web, &pods(2), &[]);
        let slices = [slice("a", &changes.create[0], &web)];
        assert!(plan(&web, &pods(2), &slices).is_empty());
        web.metadata.labels = [("team", "b")].into_iter().collect();
        assert_eq!(plan(&web, &pods(2), &slices).update.len(), 1);
        web.metadata.labels = [("team", "a"), (HEADLESS, "x")].into_iter().collect();
        assert!(plan(&web, &pods(2), &slices).is_empty());
    }

    #[test]
    fn deletes_slices_of_a_previous_service() {
        let mut web = web();
        let pods = pods(2);
        let changes = plan(&web, &pods, &[]);
        let slices = [slice("a", &changes.create[0], &web)];
        web.metadata.uid = "v".into();
        let changes = plan(&web, &pods, &slices);
        assert_eq!(
            (changes.create.len(), changes.update.len(), changes.delete.len()),
            (1, 0, 1)
        );
        web.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(plan(&web, &pods, &slices).create.len(), 0);
    }

    #[test]
    fn adds_and_removes_hints() {
        let mut web = web();
        let pods = pods(2);
        let plain = slice("a", &plan(&web, &pods, &[]).create[0], &web);
        web.spec.traffic_distribution = "PreferClose".into();
        let changes = plan(&web, &pods, &[plain]);
        assert_eq!(
            changes.update[0].1.endpoints[1].hints,
            crate::objects::EndpointHints::new(Some("z"), None)
        );
        let hinted = slice("a", &changes.update[0].1, &web);
        assert!(plan(&web, &pods, &[Arc::clone(&hinted)]).is_empty());
        web.spec.traffic_distribution = "".into();
        assert_eq!(plan(&web, &pods, &[hinted]).update[0].1.endpoints[1].hints, None);
    }

    #[test]
    fn creates_slices_per_address_type() {
        let dual = service(json!({"clusterIP": "None", "ipFamilies": ["IPv6", "IPv4"]}));
        let foreign = slice(
            "a",
            &DesiredSlice {
                address_type: "FQDN".into(),
                ..DesiredSlice::default()
            },
            &dual,
        );
        let observed = ObservedService {
            service: &dual,
            pods: &[],
            slices: &[foreign],
            zones: None,
        };
        let (plans, foreign) = observed.plans(|_| None);
        let types: Vec<_> = plans
            .iter()
            .map(|plan| &*plan.changes.create[0].address_type)
            .collect();
        assert_eq!((types, foreign.len()), (vec!["IPv4", "IPv6"], 1));
        assert_eq!(labels(&dual).get(HEADLESS).map(|value| &**value), Some(""));
    }

    /// Slices as they are after changes.
    fn changed(
        service: &Service,
        mut slices: Vec<Arc<EndpointSlice>>,
        changes: SliceChanges,
    ) -> Vec<Arc<EndpointSlice>> {
        let deleted = changes.delete;
        let updated = changes.update;
        slices.retain(|slice| !deleted.iter().any(|deleted| Arc::ptr_eq(deleted, slice)));
        for (old, desired_slice) in updated {
            let known = slices.iter_mut().find(|slice| Arc::ptr_eq(slice, &old)).unwrap();
            *known = slice(&old.metadata.name, &desired_slice, service);
        }
        for desired_slice in changes.create {
            slices.push(slice("new", &desired_slice, service));
        }
        slices
    }

    #[test]
    fn every_endpoint_is_in_exactly_one_slice() {
        let web = web();
        let all = pods(600);
        let mut slices = Vec::new();
        let mut seed: u64 = 7;
        let mut below = |bound: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % bound
        };
        for round in 0..60 {
            let skip = below(600);
            let take = below(600);
            let now: Vec<_> = all.iter().skip(skip).take(take).cloned().collect();
            let changes = plan(&web, &now, &slices);
            assert!(
                changes.create.len() <= now.len().div_ceil(MAX_ENDPOINTS_PER_SLICE).max(1),
                "round {round}"
            );
            slices = changed(&web, slices, changes);
            let reported = slices.iter().flat_map(|slice| &slice.endpoints);
            let mut reported: Vec<_> = reported.map(|one| one.target_ref.clone().unwrap().name).collect();
            reported.sort();
            let mut wanted: Vec<_> = now.iter().map(|pod| pod.metadata.name.clone()).collect();
            wanted.sort();
            assert_eq!(reported, wanted, "round {round}");
            assert!(
                slices
                    .iter()
                    .all(|slice| slice.endpoints.len() <= MAX_ENDPOINTS_PER_SLICE),
                "round {round}"
            );
            assert!(
                !slices.is_empty() && plan(&web, &now, &slices).is_empty(),
                "round {round}"
            );
        }
    }
}
