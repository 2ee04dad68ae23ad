//! Node health: when each node last updated its status or its lease.
//!
//! A node is alive when the renewTime of its lease or the heartbeat of its Ready condition changes. The values do not matter:
//! clocks differ, so only the local time at which the change was observed counts.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use k3_workloads::{Condition, ConditionStatus, Node};
use serde_json::Value;
use tokio::time::Instant;

/// nodeMonitorGracePeriod.
const MONITOR_GRACE_PERIOD: Duration = Duration::from_secs(50);
/// nodeStartupGracePeriod, for nodes that never posted a status.
const STARTUP_GRACE_PERIOD: Duration = Duration::from_mins(1);

/// Reason of conditions when the kubelet stopped posting status.
pub(super) const STATUS_UNKNOWN_REASON: &str = "NodeStatusUnknown";
/// Reason of conditions when the kubelet never posted status.
pub(super) const NEVER_UPDATED_REASON: &str = "NodeStatusNeverUpdated";

/// Health data of all nodes.
#[derive(Default)]
pub(super) struct NodeHealthMap {
    health: HashMap<Box<str>, NodeHealth>,
    /// When to check a node again. It may have been heard from since.
    checks: BinaryHeap<Reverse<(Instant, Box<str>)>>,
}

/// Health data of a node.
struct NodeHealth {
    uid: Box<str>,
    /// lastHeartbeatTime of the Ready condition.
    heartbeat: Option<Value>,
    /// renewTime of the lease.
    lease: Option<Box<str>>,
    last_heard: Instant,
    /// Whether it is in the queue of checks.
    is_watched: bool,
}

// --- NodeHealthMap ---

impl NodeHealthMap {
    /// Updates a node from its object and lease. Returns whether the node is new.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth
    pub(super) fn observe(&mut self, node: &Node, lease: Option<&str>, now: Instant) -> bool {
        let name = &node.metadata.name;
        let ready = Condition::find(&node.status.conditions, "Ready");
        let heartbeat = ready.map(|ready| ready.other.get("lastHeartbeatTime").cloned().unwrap_or_default());
        match self.health.get_mut(name) {
            Some(life) if life.uid == node.metadata.uid => {
                if life.heartbeat != heartbeat {
                    life.heartbeat = heartbeat;
                    // Conditions written by this controller are no sign of life.
                    if !ready.is_some_and(is_ours) {
                        self.mark_heard(name, now);
                    }
                }
                if let Some(lease) = lease {
                    self.renew(name, lease, now);
                }
                false
            }
            _ => {
                let life = NodeHealth {
                    uid: node.metadata.uid.clone(),
                    heartbeat,
                    lease: lease.map(Into::into),
                    last_heard: now,
                    is_watched: false,
                };
                self.health.insert(name.clone(), life);
                self.mark_heard(name, now);
                true
            }
        }
    }

    /// Removes a node. Returns its UID if it was known.
    pub(super) fn forget(&mut self, name: &str) -> Option<Box<str>> {
        self.health.remove(name).map(|life| life.uid)
    }

    /// Updates a node from its lease. Returns whether renewTime changed.
    pub(super) fn renew(&mut self, name: &str, lease: &str, now: Instant) -> bool {
        let Some(life) = self.health.get_mut(name) else {
            return false;
        };
        let is_renewed = life.lease.as_deref() != Some(lease);
        if is_renewed {
            life.lease = Some(lease.into());
            self.mark_heard(name, now);
        }
        is_renewed
    }

    /// Whether the grace period of a node has expired.
    pub(super) fn is_expired(&self, name: &str, now: Instant) -> bool {
        self.health.get(name).is_some_and(|life| life.limit() <= now)
    }

    /// Nodes whose grace period expired since they were last heard from, each once.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go monitorNodeHealth
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<Box<str>> {
        let mut silent = Vec::new();
        while self.checks.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, name))) = self.checks.pop() else {
                break;
            };
            match self.health.get_mut(&name) {
                Some(life) if life.limit() > now => self.checks.push(Reverse((life.limit(), name))),
                Some(life) => {
                    life.is_watched = false;
                    silent.push(name);
                }
                None => {}
            }
        }
        silent
    }

    /// Restarts the grace period of all nodes, when the controller itself was not watching.
    pub(super) fn mark_all_heard(&mut self, now: Instant) {
        let names: Vec<_> = self.health.keys().cloned().collect();
        for name in names {
            self.mark_heard(&name, now);
        }
    }

    fn mark_heard(&mut self, name: &str, now: Instant) {
        if let Some(life) = self.health.get_mut(name) {
            life.last_heard = now;
            if !life.is_watched {
                life.is_watched = true;
                self.checks.push(Reverse((life.limit(), name.into())));
            }
        }
    }
}

// --- NodeHealth ---

impl NodeHealth {
    fn limit(&self) -> Instant {
        let grace = if self.heartbeat.is_some() {
            MONITOR_GRACE_PERIOD
        } else {
            STARTUP_GRACE_PERIOD
        };
        self.last_heard + grace
    }
}

fn is_ours(ready: &Condition) -> bool {
    ready.status == ConditionStatus::Unknown
        && [STATUS_UNKNOWN_REASON, NEVER_UPDATED_REASON].contains(&&*ready.reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(heartbeat: Option<&str>, reason: &str) -> Node {
        let ready = heartbeat.map(
            |time| json!({"type": "Ready", "status": "Unknown", "reason": reason, "lastHeartbeatTime": time}),
        );
        let conditions: Vec<_> = ready.into_iter().collect();
        serde_json::from_value(
            json!({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": conditions}}),
        )
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn expires_without_heartbeat_and_lease() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut health = NodeHealthMap::default();
        assert!(health.observe(&node(Some("t0"), "R"), Some("l0"), start));
        assert!(!health.observe(&node(Some("t0"), "R"), Some("l0"), at(20)));
        assert!(!health.is_expired("n", at(49)) && health.is_expired("n", at(50)));
        // The time may be anything, as long as it is another.
        assert!(!health.observe(&node(Some("a long time ago"), "R"), Some("l0"), at(40)));
        assert!(
            health.take_expired(at(60)).is_empty(),
            "it is looked at again later"
        );
        assert!(!health.renew("n", "l0", at(70)) && health.renew("n", "l1", at(80)));
        assert!(health.take_expired(at(129)).is_empty());
        assert_eq!(health.take_expired(at(130)), ["n".into()]);
        assert!(health.take_expired(at(1000)).is_empty(), "reported once");
        health.mark_all_heard(at(1000));
        assert_eq!(health.take_expired(at(1050)), ["n".into()]);
        assert_eq!(health.forget("n"), Some("u".into()));
        assert!(!health.renew("n", "l2", at(1050)) && !health.is_expired("n", at(5000)));
    }

    #[tokio::test(start_paused = true)]
    async fn ignores_own_writes_as_heartbeat() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut health = NodeHealthMap::default();
        health.observe(&node(None, ""), None, start);
        assert!(!health.is_expired("n", at(59)) && health.is_expired("n", at(60)));
        health.observe(&node(Some("created"), NEVER_UPDATED_REASON), None, at(61));
        assert!(health.is_expired("n", at(61)));
        health.observe(&node(Some("now"), "R"), None, at(62));
        assert!(!health.is_expired("n", at(62)));
    }
}
