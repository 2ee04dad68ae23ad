//! Topology aware hints (KEP-2433): each zone gets a share of the endpoints in proportion to its CPU, if no endpoint is
//! overloaded by that.
//!
//! Amounts are counted in fractions of an endpoint, one per millicore in the cluster, so that nothing is rounded too
//! early.

use std::{collections::BTreeMap, sync::Arc};

use k3_workloads::Node;

use super::reconcile::unchanged;
use crate::{
    objects::{Endpoint, EndpointHints, EndpointSlice},
    services::slice_writer::SliceChanges,
};

const ZONE: &str = "topology.kubernetes.io/zone";
/// Nodes with one of these labels are excluded.
const EXCLUDED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// Millicores of each zone. At least two zones, none without CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneCpu(BTreeMap<Box<str>, i128>);

/// Endpoints of a zone.
struct ZoneAllocation {
    max: i128,
    /// The desired number, in fractions.
    desired: i128,
}

/// Number of endpoints per zone.
type EndpointsPerZone = BTreeMap<Box<str>, i128>;

/// Why hints are impossible. The texts are those of upstream's events.
// upstream: staging/src/k8s.io/endpointslice/topologycache/event.go EventBuilder
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HintsError {
    #[error("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")]
    NodeInformation,
    #[error("Insufficient number of endpoints ({endpoints} endpoints, {zones} zones)")]
    FewEndpoints { endpoints: i128, zones: usize },
    #[error(
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({endpoints} endpoints, {zones} zones)"
    )]
    Overload { endpoints: i128, zones: usize },
    #[error("One or more endpoints do not have a zone specified")]
    NoZone,
    #[error("No hints allocated for zones")]
    NoHints,
}

// --- ZoneCpu ---

impl ZoneCpu {
    /// Zones of all ready nodes; `None` if zone or CPU of one is unknown.
    // upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go SetNodes
    pub(super) fn of<'n>(nodes: impl IntoIterator<Item = &'n Arc<Node>>) -> Option<Self> {
        let mut zones = BTreeMap::<Box<str>, i128>::new();
        for (zone, processors) in nodes.into_iter().filter_map(|node| ZoneCpu::zone_and_cpu(node)) {
            if zone.is_empty() || processors == 0 {
                return None;
            }
            *zones.entry(zone.into()).or_default() += i128::from(processors);
        }
        (zones.len() > 1).then_some(ZoneCpu(zones))
    }

    /// Zone and CPU of a node; `None` if it is excluded.
    // upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go SetNodes, hasExcludedLabels
    pub(super) fn zone_and_cpu(node: &Node) -> Option<(&str, i64)> {
        let is_excluded = EXCLUDED.iter().any(|label| node.metadata.label(label).is_some());
        let zone = node.metadata.label(ZONE).unwrap_or_default();
        (!is_excluded && node.is_ready()).then_some((zone, node.milli_cpu()))
    }

    /// One endpoint in fractions.
    fn endpoint_unit(&self) -> i128 {
        self.0.values().sum()
    }

    /// How many of the endpoints each zone gets.
    // upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go getAllocations
    fn allocate(&self, endpoints: i128) -> Result<BTreeMap<&str, ZoneAllocation>, HintsError> {
        let whole = self.endpoint_unit();
        let zones = self.0.len();
        if usize::try_from(endpoints).is_ok_and(|endpoints| endpoints < zones) {
            return Err(HintsError::FewEndpoints { endpoints, zones });
        }
        // overloadThreshold: an endpoint may get 20 percent more than its share.
        let min = |processors: i128| (processors * endpoints * 5 + whole * 6 - 1) / (whole * 6);
        let spare = endpoints - self.0.values().copied().map(min).sum::<i128>();
        if spare < 0 {
            return Err(HintsError::Overload { endpoints, zones });
        }
        let zones = self.0.iter().map(|(zone, processors)| {
            let min = min(*processors);
            let allocation = ZoneAllocation {
                max: min + spare,
                desired: (processors * endpoints).max(min * whole),
            };
            (&**zone, allocation)
        });
        Ok(zones.collect())
    }
}

/// Sets hints. Slices without other changes are kept if possible.
// upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go AddHints
pub(super) fn add_hints(
    zones: Option<&ZoneCpu>,
    changes: &mut SliceChanges,
    same: &mut Vec<Arc<EndpointSlice>>,
) -> Result<(), HintsError> {
    let zones = zones.ok_or(HintsError::NodeInformation)?;
    let updated = changes.update.iter().map(|(_, desired_slice)| desired_slice);
    let drafted = changes
        .create
        .iter()
        .chain(updated)
        .flat_map(|desired_slice| &desired_slice.endpoints);
    let kept = same.iter().flat_map(|slice| &slice.endpoints);
    let ready = drafted.chain(kept).filter(|endpoint| is_ready(endpoint)).count();
    let allocations = zones.allocate(i128::try_from(ready).unwrap_or(i128::MAX))?;

    let mut counts = EndpointsPerZone::new();
    for slice in std::mem::take(same) {
        match hinted(&slice, &counts, &allocations) {
            Some(more) => {
                for (zone, count) in more {
                    *counts.entry(zone).or_default() += count;
                }
                same.push(slice);
            }
            None => changes.update.push(unchanged(slice)),
        }
    }
    let updated = changes.update.iter_mut().map(|(_, desired_slice)| desired_slice);
    let drafts = changes.create.iter_mut().chain(updated);
    let mut open: Vec<&mut Endpoint> = drafts
        .flat_map(|desired_slice| &mut desired_slice.endpoints)
        .filter(|endpoint| is_ready(endpoint))
        .collect();
    for endpoint in &mut open {
        let zone = endpoint.zone.clone().filter(|zone| !zone.is_empty());
        let zone = zone.ok_or(HintsError::NoZone)?;
        endpoint.hints = EndpointHints::new(Some(&*zone), None);
        *counts.entry(zone).or_default() += 1;
    }
    let (mut giving, mut receiving) =
        giving_and_receiving_zones(&allocations, &counts, zones.endpoint_unit());
    for endpoint in open {
        let Some(gives) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)) else {
            continue;
        };
        if *gives > 0
            && let Some((zone, takes)) = receiving.iter_mut().find(|(_, takes)| **takes > 0)
        {
            endpoint.hints = EndpointHints::new(Some(&**zone), None);
            *gives -= 1;
            *takes -= 1;
        }
    }
    if counts.is_empty() {
        return Err(HintsError::NoHints);
    }
    Ok(())
}

/// Endpoints of a slice per zone; `None` if hints have to change.
// upstream: staging/src/k8s.io/endpointslice/topologycache/utils.go getHintsByZone
fn hinted(
    slice: &EndpointSlice,
    counts: &EndpointsPerZone,
    allocations: &BTreeMap<&str, ZoneAllocation>,
) -> Option<EndpointsPerZone> {
    let mut hinted = EndpointsPerZone::new();
    for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        let hints = endpoint
            .hints
            .as_ref()
            .filter(|hints| !hints.for_zones.is_empty())?;
        for hint in &hints.for_zones {
            allocations.get(&*hint.name)?;
            *hinted.entry(hint.name.clone()).or_default() += 1;
        }
    }
    let fits = |zone: &str, count: i128| {
        let before = counts.get(zone).copied().unwrap_or_default();
        allocations
            .get(zone)
            .is_some_and(|allocation| before + count <= allocation.max)
    };
    let do_all_fit = hinted.iter().all(|(zone, count)| fits(zone, *count));
    do_all_fit.then_some(hinted)
}

/// Endpoints that zones give and receive.
// upstream: staging/src/k8s.io/endpointslice/topologycache/utils.go getGivingAndReceivingZones
fn giving_and_receiving_zones(
    allocations: &BTreeMap<&str, ZoneAllocation>,
    counts: &EndpointsPerZone,
    whole: i128,
) -> (EndpointsPerZone, EndpointsPerZone) {
    let over: Vec<(&str, i128)> = allocations
        .iter()
        .map(|(zone, allocation)| {
            let count = counts.get(*zone).copied().unwrap_or_default();
            (*zone, count * whole - allocation.desired)
        })
        .collect();
    let mut too_many: BTreeMap<&str, i128> = over.iter().copied().filter(|(_, parts)| *parts > 0).collect();
    let mut too_few: BTreeMap<&str, i128> = over
        .into_iter()
        .filter(|(_, parts)| *parts < 0)
        .map(|(zone, parts)| (zone, -parts))
        .collect();
    let mut giving = EndpointsPerZone::new();
    let mut receiving = EndpointsPerZone::new();
    while let Some((gives, more)) = zone_with_most(&mut too_many)
        && let Some((takes, fewer)) = zone_with_most(&mut too_few)
    {
        // Half an endpoint is moved only if it makes a whole one for the other zone.
        if (*more < whole && *fewer < whole) || 2 * *more < whole || 2 * *fewer < whole {
            break;
        }
        *more -= whole;
        *fewer -= whole;
        *giving.entry(gives.into()).or_default() += 1;
        *receiving.entry(takes.into()).or_default() += 1;
    }
    (giving, receiving)
}

/// The zone with the highest count, if any is positive.
// upstream: staging/src/k8s.io/endpointslice/topologycache/utils.go getMost
fn zone_with_most<'z, 'm>(zones: &'m mut BTreeMap<&'z str, i128>) -> Option<(&'z str, &'m mut i128)> {
    let max = zones.iter_mut().max_by_key(|(_, parts)| **parts);
    max.map(|(zone, parts)| (*zone, parts))
        .filter(|(_, parts)| **parts > 0)
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::services::slice_writer::DesiredSlice;

    fn node(zone: &str, cpu: &str) -> Arc<Node> {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"conditions": ready, "allocatable": {"cpu": cpu}});
        let node = json!({"metadata": {"labels": {ZONE: zone}}, "status": status});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn endpoints(zones: &[&str]) -> Vec<Endpoint> {
        let endpoint = |zone: &&str| json!({"conditions": {"ready": true}, "zone": zone});
        let endpoints: Vec<Value> = zones.iter().map(endpoint).collect();
        serde_json::from_value(json!(endpoints)).unwrap()
    }

    fn hints(endpoints: &[Endpoint]) -> Vec<String> {
        let of = |endpoint: &Endpoint| match &endpoint.hints {
            Some(hints) => hints.for_zones.iter().map(|zone| &*zone.name).collect(),
            None => "-".to_owned(),
        };
        endpoints.iter().map(of).collect()
    }

    fn spread_over(nodes: &[(&str, &str)], found: &[&str]) -> Result<Vec<String>, HintsError> {
        let nodes: Vec<_> = nodes.iter().map(|(zone, cpu)| node(zone, cpu)).collect();
        let mut changes = SliceChanges {
            create: vec![DesiredSlice {
                endpoints: endpoints(found),
                ..DesiredSlice::default()
            }],
            ..SliceChanges::default()
        };
        add_hints(ZoneCpu::of(&nodes).as_ref(), &mut changes, &mut Vec::new())?;
        Ok(hints(&changes.create[0].endpoints))
    }

    #[test]
    fn allocates_endpoints_by_zone_cpu() {
        let even = [("a", "4"), ("b", "4")];
        for (nodes, found, expected) in [
            (&even[..], &["a", "b"][..], &["a", "b"][..]),
            (&even, &["a", "a", "b", "b"], &["a", "a", "b", "b"]),
            (&even, &["a", "a", "a", "b"], &["b", "a", "a", "b"]),
            (&even, &["a", "a", "a", "a"], &["b", "b", "a", "a"]),
            (
                &[("a", "2"), ("b", "6")],
                &["a", "a", "b", "b"],
                &["b", "a", "b", "b"],
            ),
        ] {
            assert_eq!(spread_over(nodes, found).unwrap(), expected, "{nodes:?}");
        }
    }

    #[test]
    fn reports_why_hints_are_impossible() {
        for (nodes, found, why) in [
            (
                &[("a", "4")][..],
                &["a", "a"][..],
                "Insufficient Node information",
            ),
            (
                &[("a", "4"), ("", "4")],
                &["a", "a"],
                "Insufficient Node information",
            ),
            (
                &[("a", "4"), ("b", "0")],
                &["a", "a"],
                "Insufficient Node information",
            ),
            (
                &[("a", "4"), ("b", "4")],
                &["a"],
                "Insufficient number of endpoints (1 endpoints, 2 zones)",
            ),
            (
                &[("a", "1"), ("b", "9")],
                &["a", "b"],
                "Unable to allocate minimum required endpoints",
            ),
            (
                &[("a", "4"), ("b", "4")],
                &["a", ""],
                "One or more endpoints do not have a zone",
            ),
        ] {
            let said = spread_over(nodes, found).unwrap_err().to_string();
            assert!(said.starts_with(why), "{said}");
        }
    }

    #[test]
    fn keeps_correct_slices() {
        let zones = ZoneCpu::of(&[node("a", "4"), node("b", "4")]);
        let slice = |zones: &[&str], hints: &[&str]| {
            let mut endpoints = endpoints(zones);
            for (endpoint, hint) in endpoints.iter_mut().zip(hints) {
                endpoint.hints = EndpointHints::new(Some(*hint), None);
            }
            Arc::new(EndpointSlice {
                endpoints,
                ..EndpointSlice::default()
            })
        };
        let mut same = vec![slice(&["a", "a"], &["a", "b"]), slice(&["b", "b"], &["b"])];
        let mut changes = SliceChanges::default();
        add_hints(zones.as_ref(), &mut changes, &mut same).unwrap();
        assert_eq!(same.len(), 1);
        assert_eq!(hints(&changes.update[0].1.endpoints), ["a", "b"], "{changes:?}");
    }
}
