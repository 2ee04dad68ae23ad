//! Eviction rate per zone: the more nodes of a zone are unready, the slower they are tainted, since then the network or this
//! controller is the more likely cause.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use k3_workloads::{Node, ObjectMeta};
use tokio::time::Instant;

/// Interval for a healthy zone (nodeEvictionRate), or a fully unready one while others are healthy.
const EVICTION_INTERVAL: Duration = Duration::from_secs(10);
/// Interval for a large zone in partial disruption (secondaryNodeEvictionRate).
const SECONDARY_EVICTION_INTERVAL: Duration = Duration::from_secs(100);
/// largeClusterSizeThreshold. Smaller zones stop evictions in partial disruption.
const LARGE_ZONE_SIZE: usize = 50;
/// unhealthyZoneThreshold in percent; at least three nodes have to be unready.
const UNHEALTHY_PERCENT: usize = 55;

/// Nodes with this label are excluded from disruption checks.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// The zones of a cluster and the nodes waiting for eviction.
#[derive(Default)]
pub(super) struct Zones {
    by_name: HashMap<Box<str>, Zone>,
    nodes: HashMap<Box<str>, NodeEntry>,
    /// Sequence number for waiting nodes.
    next_turn: u64,
    /// Whether zones were evaluated: before that nothing is evicted.
    is_evaluated: bool,
    disruption_mode: DisruptionMode,
}

/// Whether nodes are evicted at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DisruptionMode {
    /// Nodes are evicted at the rates of their zones.
    #[default]
    Normal,
    /// Master disruption mode: all nodes are unready. Nothing is evicted, since then the network or this controller has failed.
    Master,
}

/// Change of the master disruption mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisruptionModeChange {
    None,
    /// Entered.
    Entered,
    /// Left.
    Exited,
}

struct Zone {
    /// All nodes, including excluded ones.
    members: usize,
    ready: usize,
    unready: usize,
    state: ZoneState,
    rate_limiter: RateLimiter,
    /// Waiting nodes, in order.
    waiting: BTreeMap<u64, Box<str>>,
}

/// A node in a zone.
struct NodeEntry {
    zone: Box<str>,
    is_ready: bool,
    is_counted: bool,
    turn: EvictionTurn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EvictionTurn {
    /// It does not wait.
    None,
    Waiting(u64),
    /// It may be tainted, until it calls `cancel_eviction`.
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneState {
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// One node at once, then one per interval; `None` means never.
struct RateLimiter {
    interval: Option<Duration>,
    next: Instant,
}

/// The zone key from a node's labels; empty without labels.
// upstream: staging/src/k8s.io/component-helpers/node/topology/helpers.go GetZoneKey
pub(super) fn zone_key(meta: &ObjectMeta) -> String {
    let label = |new, old| meta.label(new).or_else(|| meta.label(old)).unwrap_or_default();
    let region = label(
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/region",
    );
    let zone = label(
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
    );
    match (region, zone) {
        ("", "") => String::new(),
        (region, zone) => format!("{region}:\0:{zone}"),
    }
}

// --- Zones ---

impl Zones {
    pub(super) fn disruption_mode(&self) -> DisruptionMode {
        self.disruption_mode
    }

    pub(super) fn zone(&self, node: &str) -> Option<&str> {
        self.nodes.get(node).map(|entry| &*entry.zone)
    }

    /// Ready and unready nodes of each zone.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.by_name
            .iter()
            .map(|(name, zone)| (&**name, zone.ready, zone.unready))
    }

    /// Updates a node.
    pub(super) fn observe(&mut self, node: &Node, now: Instant) {
        let name = &node.metadata.name;
        let zone = zone_key(&node.metadata);
        let is_ready = node.is_ready();
        let is_counted = node.metadata.label(EXCLUDED).is_none();
        let is_same = |entry: &NodeEntry| {
            *entry.zone == *zone && entry.is_ready == is_ready && entry.is_counted == is_counted
        };
        if self.nodes.get(name).is_some_and(is_same) {
            return;
        }
        self.forget(name);
        let entry = NodeEntry {
            zone: zone.into(),
            is_ready,
            is_counted,
            turn: EvictionTurn::None,
        };
        let zone = self.by_name.entry(entry.zone.clone());
        zone.or_insert_with(|| Zone::new(now)).count(&entry, 1);
        self.nodes.insert(name.clone(), entry);
    }

    /// Removes a node.
    pub(super) fn forget(&mut self, name: &str) {
        self.cancel_eviction(name);
        if let Some(entry) = self.nodes.remove(name)
            && let Some(zone) = self.by_name.get_mut(&entry.zone)
        {
            zone.count(&entry, -1);
        }
    }

    /// Whether a node may be tainted. If not, it waits from now on.
    pub(super) fn request_eviction(&mut self, name: &str, now: Instant) -> bool {
        let is_open = self.can_evict();
        let Some(entry) = self.nodes.get_mut(name) else {
            return false;
        };
        let Some(zone) = self.by_name.get_mut(&entry.zone) else {
            return false;
        };
        if entry.turn == EvictionTurn::None {
            self.next_turn += 1;
            zone.waiting.insert(self.next_turn, name.into());
            entry.turn = EvictionTurn::Waiting(self.next_turn);
        }
        let is_first = zone
            .waiting
            .first_key_value()
            .map(|(turn, _)| EvictionTurn::Waiting(*turn))
            == Some(entry.turn);
        if is_open && is_first && zone.rate_limiter.try_take(now) {
            zone.waiting.pop_first();
            entry.turn = EvictionTurn::Now;
        }
        entry.turn == EvictionTurn::Now
    }

    /// A node is tainted, or no longer needs to be.
    pub(super) fn cancel_eviction(&mut self, name: &str) {
        let Some(entry) = self.nodes.get_mut(name) else {
            return;
        };
        if let EvictionTurn::Waiting(turn) = entry.turn
            && let Some(zone) = self.by_name.get_mut(&entry.zone)
        {
            zone.waiting.remove(&turn);
        }
        entry.turn = EvictionTurn::None;
    }

    /// Waiting nodes that may be tainted now.
    // upstream: pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go Try
    pub(super) fn take_allowed(&mut self, now: Instant) -> Vec<Box<str>> {
        let mut released = Vec::new();
        if !self.can_evict() {
            return released;
        }
        for zone in self.by_name.values_mut() {
            while !zone.waiting.is_empty() && zone.rate_limiter.try_take(now) {
                released.extend(zone.waiting.pop_first().map(|(_, name)| name));
            }
        }
        for name in &released {
            if let Some(entry) = self.nodes.get_mut(name) {
                entry.turn = EvictionTurn::Now;
            }
        }
        released
    }

    /// When the next one may be tainted.
    pub(super) fn next_allowed_at(&self) -> Option<Instant> {
        let waiting = self.by_name.values().filter(|zone| !zone.waiting.is_empty());
        let times = waiting.filter_map(|zone| zone.rate_limiter.interval.map(|_| zone.rate_limiter.next));
        times.min().filter(|_| self.can_evict())
    }

    /// Whether any node may be tainted. When the last node becomes unready none may, even before the next evaluation.
    fn can_evict(&self) -> bool {
        self.is_evaluated && !self.are_all_unready()
    }

    fn are_all_unready(&self) -> bool {
        let mut counted = self.by_name.values().filter(|zone| zone.ready + zone.unready > 0);
        counted.clone().next().is_some() && counted.all(|zone| zone.new_state() == ZoneState::FullDisruption)
    }

    /// Evaluates the state of all zones and adjusts their rates.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go handleDisruption, setLimiterInZone
    pub(super) fn evaluate(&mut self, now: Instant) -> DisruptionModeChange {
        self.is_evaluated = true;
        self.by_name.retain(|_, zone| zone.members > 0);
        if self.are_all_unready() {
            for zone in self.by_name.values_mut() {
                zone.state = ZoneState::FullDisruption;
                zone.rate_limiter.change(None, now);
            }
            let before = std::mem::replace(&mut self.disruption_mode, DisruptionMode::Master);
            return match before {
                DisruptionMode::Master => DisruptionModeChange::None,
                DisruptionMode::Normal => DisruptionModeChange::Entered,
            };
        }
        let before = std::mem::replace(&mut self.disruption_mode, DisruptionMode::Normal);
        let was_stopped = before == DisruptionMode::Master;
        for zone in self.by_name.values_mut() {
            let state = zone.new_state();
            if was_stopped || state != zone.state {
                zone.state = state;
                zone.rate_limiter
                    .change(state.interval(zone.ready + zone.unready), now);
            }
        }
        if was_stopped {
            DisruptionModeChange::Exited
        } else {
            DisruptionModeChange::None
        }
    }
}

// --- Zone ---

impl Zone {
    fn new(now: Instant) -> Self {
        Zone {
            members: 0,
            ready: 0,
            unready: 0,
            state: ZoneState::Initial,
            rate_limiter: RateLimiter {
                interval: Some(EVICTION_INTERVAL),
                next: now,
            },
            waiting: BTreeMap::new(),
        }
    }

    fn count(&mut self, entry: &NodeEntry, change: isize) {
        let counted = if entry.is_counted { change } else { 0 };
        self.members = self.members.saturating_add_signed(change);
        if entry.is_ready {
            self.ready = self.ready.saturating_add_signed(counted);
        } else {
            self.unready = self.unready.saturating_add_signed(counted);
        }
    }

    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go ComputeZoneState
    fn new_state(&self) -> ZoneState {
        let all = self.ready + self.unready;
        if self.ready == 0 && self.unready > 0 {
            ZoneState::FullDisruption
        } else if self.unready > 2 && self.unready * 100 >= all * UNHEALTHY_PERCENT {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }
}

// --- ZoneState ---

impl ZoneState {
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go setLimiterInZone, ReducedQPSFunc, HealthyQPSFunc
    fn interval(self, nodes: usize) -> Option<Duration> {
        match self {
            ZoneState::PartialDisruption => (nodes > LARGE_ZONE_SIZE).then_some(SECONDARY_EVICTION_INTERVAL),
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => Some(EVICTION_INTERVAL),
        }
    }
}

// --- RateLimiter ---

impl RateLimiter {
    fn try_take(&mut self, now: Instant) -> bool {
        match self.interval {
            Some(interval) if now >= self.next => {
                self.next = now + interval;
                true
            }
            _ => false,
        }
    }

    /// The remaining wait is kept when the rate changes.
    fn change(&mut self, interval: Option<Duration>, now: Instant) {
        if self.interval == interval {
            return;
        }
        let is_free = self.interval.is_some() && now >= self.next;
        self.interval = interval;
        self.next = if is_free {
            now
        } else {
            now + interval.unwrap_or_default()
        };
    }
}

#[cfg(test)]
mod tests {
    use k3_workloads::ConditionStatus;
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, ready: ConditionStatus) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": ready.as_str()}]}}),
        )
        .unwrap()
    }

    /// Zones with that many nodes that are ready and down.
    fn zones(sizes: &[(&str, usize, usize)], now: Instant) -> Zones {
        let mut zones = Zones::default();
        for (zone, ready, unready) in sizes {
            for number in 0..ready + unready {
                let ready = ConditionStatus::from(number >= *unready);
                zones.observe(&node(&format!("{zone}{number}"), zone, ready), now);
            }
        }
        zones
    }

    #[tokio::test(start_paused = true)]
    async fn reduces_eviction_rate_in_partial_disruption() {
        let start = Instant::now();
        #[expect(clippy::type_complexity, reason = "a table of cases")]
        let cases: &[(&[(&str, usize, usize)], DisruptionModeChange, &[u64])] = &[
            (&[("a", 3, 2)], DisruptionModeChange::None, &[0, 10]),
            (&[("a", 2, 3)], DisruptionModeChange::None, &[]),
            (&[("a", 24, 30)], DisruptionModeChange::None, &[0, 100]),
            (&[("a", 0, 2)], DisruptionModeChange::Entered, &[]),
            (&[("a", 0, 2), ("b", 1, 0)], DisruptionModeChange::None, &[0, 10]),
            (&[("a", 0, 2), ("b", 0, 1)], DisruptionModeChange::Entered, &[]),
        ];
        for (sizes, change, expected) in cases {
            let mut zones = zones(sizes, start);
            assert!(zones.take_allowed(start).is_empty(), "nothing is known yet");
            assert_eq!(zones.evaluate(start), *change, "{sizes:?}");
            let mut next_turn = Vec::new();
            for (zone, _, unready) in *sizes {
                let names = (0..*unready).map(|number| format!("{zone}{number}"));
                next_turn.extend(
                    names
                        .filter(|name| zones.request_eviction(name, start))
                        .map(|_| 0),
                );
            }
            for second in 0..150 {
                let now = start + Duration::from_secs(second);
                next_turn.extend(zones.take_allowed(now).iter().map(|_| second));
            }
            assert_eq!(next_turn, *expected, "{sizes:?}");
        }
    }
    #[tokio::test(start_paused = true)]
    async fn evicts_in_order_of_requests() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 9, 4)], start);
        zones.evaluate(start);
        assert!(zones.request_eviction("a3", start), "the first need not wait");
        assert!(
            zones.request_eviction("a3", start),
            "it is its turn until it is content"
        );
        for name in ["a1", "a0", "a2"] {
            assert!(!zones.request_eviction(name, start));
        }
        zones.cancel_eviction("a1");
        assert_eq!(zones.next_allowed_at(), Some(start + EVICTION_INTERVAL));
        assert_eq!(zones.take_allowed(start + EVICTION_INTERVAL), ["a0".into()]);
        assert!(zones.request_eviction("a0", start + EVICTION_INTERVAL));
        zones.forget("a2");
        assert_eq!(zones.next_allowed_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn resets_the_rate_after_recovery() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 0, 2)], start);
        assert_eq!(zones.evaluate(start), DisruptionModeChange::Entered);
        assert_eq!(zones.evaluate(start), DisruptionModeChange::None);
        assert_eq!(zones.disruption_mode(), DisruptionMode::Master);
        zones.observe(&node("a1", "a", ConditionStatus::True), start);
        assert_eq!(zones.evaluate(start), DisruptionModeChange::Exited);
        assert_eq!(zones.disruption_mode(), DisruptionMode::Normal);
        assert!(!zones.request_eviction("a0", start));
        assert_eq!(zones.next_allowed_at(), Some(start + EVICTION_INTERVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn stops_evictions_when_all_nodes_are_unready() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 1, 0)], start);
        assert_eq!(zones.evaluate(start), DisruptionModeChange::None);
        zones.observe(&node("a0", "a", ConditionStatus::False), start);
        assert!(!zones.request_eviction("a0", start) && zones.take_allowed(start).is_empty());
        assert_eq!(zones.next_allowed_at(), None);
        zones.observe(&node("a1", "a", ConditionStatus::True), start);
        assert_eq!(zones.take_allowed(start), ["a0".into()]);
    }

    #[tokio::test(start_paused = true)]
    async fn ignores_excluded_nodes() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 1, 0)], start);
        let mut excluded = node("x", "a", ConditionStatus::True);
        let labels = excluded.metadata.labels.clone();
        let labels = labels.iter();
        excluded.metadata.labels = labels.chain([(EXCLUDED, "")]).collect();
        zones.observe(&excluded, start);
        zones.observe(&node("a0", "a", ConditionStatus::False), start);
        assert_eq!(zones.evaluate(start), DisruptionModeChange::Entered);
        zones.forget("a0");
        assert_eq!(zones.evaluate(start), DisruptionModeChange::Exited);
    }
}
