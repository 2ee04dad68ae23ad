//! How fast nodes that are down may lose their pods: the more of a zone is down, the slower, for then it is rather the network
//! or this controller that is at fault.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::objects::{Meta, Node};

/// Time between two nodes of a zone that is well, or that is all down while others are well.
const NORMAL: Duration = Duration::from_secs(10);
/// Time between two nodes of a large zone of which many nodes are down.
const SLOW: Duration = Duration::from_secs(100);
/// A zone with more nodes is large. In others nobody is driven away while many nodes are down.
const LARGE: usize = 50;
/// Many is more than two, and at least this many of a hundred.
const MANY: usize = 55;

/// Nodes with this label say nothing about their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// The zones of a cluster and the nodes that wait for their turn.
#[derive(Default)]
pub(super) struct Zones {
    by_name: HashMap<Box<str>, Zone>,
    nodes: HashMap<Box<str>, ObjectRef>,
    /// Counts those who began to wait.
    turns: u64,
    /// Whether it was looked at them at all: before that it is nobody's turn.
    is_known: bool,
    /// Whether all nodes are down, so that nobody is driven away.
    is_stopped: bool,
}

/// What has become of all zones together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that matters to all.
    None,
    /// Now all are down.
    Stopped,
    /// Now they are not all down any more.
    Resumed,
}

struct Zone {
    /// All nodes, also those that are not counted.
    members: usize,
    ready: usize,
    down: usize,
    state: State,
    pace: Pace,
    /// The nodes that wait, in the order in which they began to.
    waiting: BTreeMap<u64, Box<str>>,
}

/// Where a node is.
struct ObjectRef {
    zone: Box<str>,
    is_ready: bool,
    is_counted: bool,
    turn: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It does not ask for one.
    None,
    Waits(u64),
    /// It is its turn, until it says that it is content.
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Initial,
    Normal,
    PartlyDown,
    Down,
}

/// One node at once, and then one in each interval; `None` is never.
struct Pace {
    interval: Option<Duration>,
    next: Instant,
}

/// The zone of a node, as its labels have it; empty if they do not.
pub(super) fn zone_of(meta: &Meta) -> String {
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
    /// Whether all are down.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The zone that a node is in.
    pub(super) fn zone(&self, node: &str) -> Option<&str> {
        self.nodes.get(node).map(|object_ref| &*object_ref.zone)
    }

    /// Each zone, and how many of its nodes are ready and how many are not.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.by_name
            .iter()
            .map(|(name, zone)| (&**name, zone.ready, zone.down))
    }

    /// A node is as it is now.
    pub(super) fn observe(&mut self, node: &Node, now: Instant) {
        let name = &node.metadata.name;
        let zone = zone_of(&node.metadata);
        let (is_ready, is_counted) = (node.is_ready(), node.metadata.label(EXCLUDED).is_none());
        let is_same = |object_ref: &ObjectRef| {
            *object_ref.zone == *zone
                && object_ref.is_ready == is_ready
                && object_ref.is_counted == is_counted
        };
        if self.nodes.get(name).is_some_and(is_same) {
            return;
        }
        self.forget(name);
        let object_ref = ObjectRef {
            zone: zone.into(),
            is_ready,
            is_counted,
            turn: Turn::None,
        };
        let zone = self.by_name.entry(object_ref.zone.clone());
        zone.or_insert_with(|| Zone::new(now)).count(&object_ref, 1);
        self.nodes.insert(name.clone(), object_ref);
    }

    /// A node is gone.
    pub(super) fn forget(&mut self, name: &str) {
        self.content(name);
        if let Some(object_ref) = self.nodes.remove(name)
            && let Some(zone) = self.by_name.get_mut(&object_ref.zone)
        {
            zone.count(&object_ref, -1);
        }
    }

    /// Whether it is the turn of a node. If not, it waits from now on.
    pub(super) fn ask(&mut self, name: &str, now: Instant) -> bool {
        let is_open = self.is_open();
        let Some(object_ref) = self.nodes.get_mut(name) else {
            return false;
        };
        let Some(zone) = self.by_name.get_mut(&object_ref.zone) else {
            return false;
        };
        if object_ref.turn == Turn::None {
            self.turns += 1;
            zone.waiting.insert(self.turns, name.into());
            object_ref.turn = Turn::Waits(self.turns);
        }
        let is_first =
            zone.waiting.first_key_value().map(|(turn, _)| Turn::Waits(*turn)) == Some(object_ref.turn);
        if is_open && is_first && zone.pace.take(now) {
            zone.waiting.pop_first();
            object_ref.turn = Turn::Now;
        }
        object_ref.turn == Turn::Now
    }

    /// A node has what it asked for, or does not want it any more.
    pub(super) fn content(&mut self, name: &str) {
        let Some(object_ref) = self.nodes.get_mut(name) else {
            return;
        };
        if let Turn::Waits(turn) = object_ref.turn
            && let Some(zone) = self.by_name.get_mut(&object_ref.zone)
        {
            zone.waiting.remove(&turn);
        }
        object_ref.turn = Turn::None;
    }

    /// The nodes whose turn it is now, of those that wait.
    pub(super) fn release(&mut self, now: Instant) -> Vec<Box<str>> {
        let mut released = Vec::new();
        if !self.is_open() {
            return released;
        }
        for zone in self.by_name.values_mut() {
            while !zone.waiting.is_empty() && zone.pace.take(now) {
                released.extend(zone.waiting.pop_first().map(|(_, name)| name));
            }
        }
        for name in &released {
            if let Some(object_ref) = self.nodes.get_mut(name) {
                object_ref.turn = Turn::Now;
            }
        }
        released
    }

    /// When it is the next one's turn.
    pub(super) fn next_release(&self) -> Option<Instant> {
        let waiting = self.by_name.values().filter(|zone| !zone.waiting.is_empty());
        let times = waiting.filter_map(|zone| zone.pace.interval.map(|_| zone.pace.next));
        times.min().filter(|_| self.is_open())
    }

    /// Whether it can be anybody's turn. When the last node has gone down it cannot, even before that was looked at.
    fn is_open(&self) -> bool {
        self.is_known && !self.are_all_down()
    }

    fn are_all_down(&self) -> bool {
        let mut counted = self.by_name.values().filter(|zone| zone.ready + zone.down > 0);
        counted.clone().next().is_some() && counted.all(|zone| zone.new_state() == State::Down)
    }

    /// Looks at the state of all zones, and lets nodes go slower or faster.
    pub(super) fn evaluate(&mut self, now: Instant) -> Change {
        self.is_known = true;
        self.by_name.retain(|_, zone| zone.members > 0);
        if self.are_all_down() {
            for zone in self.by_name.values_mut() {
                zone.state = State::Down;
                zone.pace.change(None, now);
            }
            let was_stopped = std::mem::replace(&mut self.is_stopped, true);
            return if was_stopped {
                Change::None
            } else {
                Change::Stopped
            };
        }
        let was_stopped = std::mem::replace(&mut self.is_stopped, false);
        for zone in self.by_name.values_mut() {
            let state = zone.new_state();
            if was_stopped || state != zone.state {
                zone.state = state;
                zone.pace.change(state.interval(zone.ready + zone.down), now);
            }
        }
        if was_stopped {
            Change::Resumed
        } else {
            Change::None
        }
    }
}

// --- Zone ---

impl Zone {
    fn new(now: Instant) -> Self {
        Zone {
            members: 0,
            ready: 0,
            down: 0,
            state: State::Initial,
            pace: Pace {
                interval: Some(NORMAL),
                next: now,
            },
            waiting: BTreeMap::new(),
        }
    }

    fn count(&mut self, object_ref: &ObjectRef, change: isize) {
        let counted = if object_ref.is_counted { change } else { 0 };
        self.members = self.members.saturating_add_signed(change);
        if object_ref.is_ready {
            self.ready = self.ready.saturating_add_signed(counted);
        } else {
            self.down = self.down.saturating_add_signed(counted);
        }
    }

    fn new_state(&self) -> State {
        let all = self.ready + self.down;
        if self.ready == 0 && self.down > 0 {
            State::Down
        } else if self.down > 2 && self.down * 100 >= all * MANY {
            State::PartlyDown
        } else {
            State::Normal
        }
    }
}

// --- State ---

impl State {
    fn interval(self, nodes: usize) -> Option<Duration> {
        match self {
            State::PartlyDown => (nodes > LARGE).then_some(SLOW),
            State::Initial | State::Normal | State::Down => Some(NORMAL),
        }
    }
}

// --- Pace ---

impl Pace {
    fn take(&mut self, now: Instant) -> bool {
        match self.interval {
            Some(interval) if now >= self.next => {
                self.next = now + interval;
                true
            }
            _ => false,
        }
    }

    /// Who had to wait before has to wait now.
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
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, is_ready: bool) -> Node {
        let status = if is_ready { "True" } else { "False" };
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": status}]}}),
        )
        .unwrap()
    }

    /// Zones with that many nodes that are ready and down.
    fn zones(sizes: &[(&str, usize, usize)], now: Instant) -> Zones {
        let mut zones = Zones::default();
        for (zone, ready, down) in sizes {
            for number in 0..ready + down {
                zones.observe(&node(&format!("{zone}{number}"), zone, number >= *down), now);
            }
        }
        zones
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_of_a_zone_is_down_the_slower_nodes_lose_their_pods() {
        let start = Instant::now();
        #[expect(clippy::type_complexity, reason = "a table of cases")]
        let cases: &[(&[(&str, usize, usize)], Change, &[u64])] = &[
            (&[("a", 3, 2)], Change::None, &[0, 10]),
            (&[("a", 2, 3)], Change::None, &[]),
            (&[("a", 24, 30)], Change::None, &[0, 100]),
            (&[("a", 0, 2)], Change::Stopped, &[]),
            (&[("a", 0, 2), ("b", 1, 0)], Change::None, &[0, 10]),
            (&[("a", 0, 2), ("b", 0, 1)], Change::Stopped, &[]),
        ];
        for (sizes, change, expected) in cases {
            let mut zones = zones(sizes, start);
            assert!(zones.release(start).is_empty(), "nothing is known yet");
            assert_eq!(zones.evaluate(start), *change, "{sizes:?}");
            let mut turns = Vec::new();
            for (zone, _, down) in *sizes {
                let names = (0..*down).map(|number| format!("{zone}{number}"));
                turns.extend(names.filter(|name| zones.ask(name, start)).map(|_| 0));
            }
            for second in 0..150 {
                let now = start + Duration::from_secs(second);
                turns.extend(zones.release(now).iter().map(|_| second));
            }
            assert_eq!(turns, *expected, "{sizes:?}");
        }
    }
    #[tokio::test(start_paused = true)]
    async fn whoever_asks_first_is_first_unless_content() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 9, 4)], start);
        zones.evaluate(start);
        assert!(zones.ask("a3", start), "the first need not wait");
        assert!(zones.ask("a3", start), "it is its turn until it is content");
        for name in ["a1", "a0", "a2"] {
            assert!(!zones.ask(name, start));
        }
        zones.content("a1");
        assert_eq!(zones.next_release(), Some(start + NORMAL));
        assert_eq!(zones.release(start + NORMAL), ["a0".into()]);
        assert!(zones.ask("a0", start + NORMAL));
        zones.forget("a2");
        assert_eq!(zones.next_release(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn when_nodes_come_back_others_wait_as_if_one_had_just_gone() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 0, 2)], start);
        assert_eq!(zones.evaluate(start), Change::Stopped);
        assert_eq!(zones.evaluate(start), Change::None);
        assert!(zones.is_stopped());
        zones.observe(&node("a1", "a", true), start);
        assert_eq!(zones.evaluate(start), Change::Resumed);
        assert!(!zones.is_stopped() && !zones.ask("a0", start));
        assert_eq!(zones.next_release(), Some(start + NORMAL));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_last_node_goes_down_it_is_nobodys_turn_at_once() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 1, 0)], start);
        assert_eq!(zones.evaluate(start), Change::None);
        zones.observe(&node("a0", "a", false), start);
        assert!(!zones.ask("a0", start) && zones.release(start).is_empty());
        assert_eq!(zones.next_release(), None);
        zones.observe(&node("a1", "a", true), start);
        assert_eq!(zones.release(start), ["a0".into()]);
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_are_excluded_say_nothing_of_their_zone() {
        let start = Instant::now();
        let mut zones = zones(&[("a", 1, 0)], start);
        let mut excluded = node("x", "a", true);
        let labels = excluded
            .metadata
            .labels
            .iter()
            .map(|(name, value)| (&**name, &**value));
        excluded.metadata.labels = labels.chain([(EXCLUDED, "")]).collect();
        zones.observe(&excluded, start);
        zones.observe(&node("a0", "a", false), start);
        assert_eq!(zones.evaluate(start), Change::Stopped);
        zones.forget("a0");
        assert_eq!(zones.evaluate(start), Change::Resumed);
    }
}
