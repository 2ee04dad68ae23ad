//! Hints that follow from where processors are: each zone is to use as large a part of the endpoints as it has of all
//! processors, if that can be without any endpoint being asked much more than others.
//!
//! All amounts are counted in parts of an endpoint, one for each thousandth of a processor in the cluster, so that nothing is
//! rounded before it has to be.

use std::{collections::BTreeMap, sync::Arc};

use super::plan::unchanged;
use crate::{
    objects::{Endpoint, EndpointSlice, Hints, Node},
    services::slice_writer::Changes,
};

const ZONE: &str = "topology.kubernetes.io/zone";
/// Nodes with one of these labels do not count.
const EXCLUDED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// The processors of each zone, in thousandths. There are two zones at least, and none without processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zones(BTreeMap<Box<str>, i128>);

/// How many endpoints a zone may use.
struct Allocation {
    most: i128,
    /// How many it should, in parts.
    desired: i128,
}

/// By zone, how many endpoints are for it.
type Counts = BTreeMap<Box<str>, i128>;

// --- Zones ---

impl Zones {
    /// The zones of all nodes that are ready; `None` if it cannot be told where some of them are or what they have.
    pub(super) fn of<'n>(nodes: impl IntoIterator<Item = &'n Arc<Node>>) -> Option<Self> {
        let mut zones = BTreeMap::<Box<str>, i128>::new();
        for (zone, processors) in nodes.into_iter().filter_map(|node| Zones::part(node)) {
            if zone.is_empty() || processors == 0 {
                return None;
            }
            *zones.entry(zone.into()).or_default() += i128::from(processors);
        }
        (zones.len() > 1).then_some(Zones(zones))
    }

    /// The zone of a node, and its processors; `None` if it does not count.
    pub(super) fn part(node: &Node) -> Option<(&str, i64)> {
        let is_excluded = EXCLUDED.iter().any(|label| node.metadata.label(label).is_some());
        let zone = node.metadata.label(ZONE).unwrap_or_default();
        (!is_excluded && node.is_ready()).then_some((zone, node.status.allocatable.milli_cpu))
    }

    /// One endpoint, in parts.
    fn whole(&self) -> i128 {
        self.0.values().sum()
    }

    /// How many of so many endpoints each zone may use, or why that cannot be told.
    fn allocate(&self, endpoints: i128) -> Result<BTreeMap<&str, Allocation>, String> {
        let (whole, count) = (self.whole(), self.0.len());
        if usize::try_from(endpoints).is_ok_and(|endpoints| endpoints < count) {
            let why = "Insufficient number of endpoints";
            return Err(format!("{why} ({endpoints} endpoints, {count} zones)"));
        }
        // A fifth more than its share is what an endpoint can bear.
        let least = |processors: i128| (processors * endpoints * 5 + whole * 6 - 1) / (whole * 6);
        let spare = endpoints - self.0.values().copied().map(least).sum::<i128>();
        if spare < 0 {
            let why = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
            return Err(format!("{why} ({endpoints} endpoints, {count} zones)"));
        }
        let zones = self.0.iter().map(|(zone, processors)| {
            let least = least(*processors);
            let allocation = Allocation {
                most: least + spare,
                desired: (processors * endpoints).max(least * whole),
            };
            (&**zone, allocation)
        });
        Ok(zones.collect())
    }
}

/// Says for which zones endpoints are, or why it cannot be said. Slices that need no other change stay as they are if they can.
pub(super) fn spread(
    zones: Option<&Zones>,
    changes: &mut Changes,
    same: &mut Vec<Arc<EndpointSlice>>,
) -> Result<(), String> {
    let insufficient =
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
    let zones = zones.ok_or(insufficient)?;
    let updated = changes.update.iter().map(|(_, draft)| draft);
    let drafted = changes
        .create
        .iter()
        .chain(updated)
        .flat_map(|draft| &draft.endpoints);
    let kept = same.iter().flat_map(|slice| &slice.endpoints);
    let ready = drafted.chain(kept).filter(|endpoint| is_ready(endpoint)).count();
    let allocations = zones.allocate(i128::try_from(ready).unwrap_or(i128::MAX))?;

    let mut counts = Counts::new();
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
    let updated = changes.update.iter_mut().map(|(_, draft)| draft);
    let drafts = changes.create.iter_mut().chain(updated);
    let mut open: Vec<&mut Endpoint> = drafts
        .flat_map(|draft| &mut draft.endpoints)
        .filter(|endpoint| is_ready(endpoint))
        .collect();
    for endpoint in &mut open {
        let zone = endpoint.zone.clone().filter(|zone| !zone.is_empty());
        let zone = zone.ok_or("One or more endpoints do not have a zone specified")?;
        endpoint.hints = Hints::new(Some(&*zone), None);
        *counts.entry(zone).or_default() += 1;
    }
    let (mut giving, mut receiving) = exchange(&allocations, &counts, zones.whole());
    for endpoint in open {
        let Some(gives) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)) else {
            continue;
        };
        if *gives > 0
            && let Some((zone, takes)) = receiving.iter_mut().find(|(_, takes)| **takes > 0)
        {
            endpoint.hints = Hints::new(Some(&**zone), None);
            *gives -= 1;
            *takes -= 1;
        }
    }
    if counts.is_empty() {
        return Err("No hints allocated for zones".to_owned());
    }
    Ok(())
}

/// How many endpoints of a slice are for which zone; `None` if that has to change.
fn hinted(
    slice: &EndpointSlice,
    counts: &Counts,
    allocations: &BTreeMap<&str, Allocation>,
) -> Option<Counts> {
    let mut hinted = Counts::new();
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
            .is_some_and(|allocation| before + count <= allocation.most)
    };
    let do_all_fit = hinted.iter().all(|(zone, count)| fits(zone, *count));
    do_all_fit.then_some(hinted)
}

/// How many endpoints zones give to others, and how many they take.
fn exchange(allocations: &BTreeMap<&str, Allocation>, counts: &Counts, whole: i128) -> (Counts, Counts) {
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
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let Some((gives, more)) = most(&mut too_many)
        && let Some((takes, fewer)) = most(&mut too_few)
    {
        // Half an endpoint is worth it only if it is a whole one for the other side.
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

/// The zone with most, if any has something.
fn most<'z, 'm>(zones: &'m mut BTreeMap<&'z str, i128>) -> Option<(&'z str, &'m mut i128)> {
    let most = zones.iter_mut().max_by_key(|(_, parts)| **parts);
    most.map(|(zone, parts)| (*zone, parts))
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

    fn spread_over(nodes: &[(&str, &str)], found: &[&str]) -> Result<Vec<String>, String> {
        let nodes: Vec<_> = nodes.iter().map(|(zone, cpu)| node(zone, cpu)).collect();
        let mut changes = Changes {
            create: vec![DesiredSlice {
                endpoints: endpoints(found),
                ..DesiredSlice::default()
            }],
            ..Changes::default()
        };
        spread(Zones::of(&nodes).as_ref(), &mut changes, &mut Vec::new())?;
        Ok(hints(&changes.create[0].endpoints))
    }

    #[test]
    fn zones_use_endpoints_in_proportion_to_their_processors() {
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
    fn why_nobody_can_be_told_anything_is_said() {
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
            let said = spread_over(nodes, found).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }

    #[test]
    fn slices_that_are_right_stay_as_they_are() {
        let zones = Zones::of(&[node("a", "4"), node("b", "4")]);
        let slice = |zones: &[&str], hints: &[&str]| {
            let mut endpoints = endpoints(zones);
            for (endpoint, hint) in endpoints.iter_mut().zip(hints) {
                endpoint.hints = Hints::new(Some(*hint), None);
            }
            Arc::new(EndpointSlice {
                endpoints,
                ..EndpointSlice::default()
            })
        };
        let mut same = vec![slice(&["a", "a"], &["a", "b"]), slice(&["b", "b"], &["b"])];
        let mut changes = Changes::default();
        spread(zones.as_ref(), &mut changes, &mut same).unwrap();
        assert_eq!(same.len(), 1);
        assert_eq!(hints(&changes.update[0].1.endpoints), ["a", "b"], "{changes:?}");
    }
}
