//! When a node was last heard of.
//!
//! A node is heard of when the time in its lease or in its condition `Ready` changes. What time that is does not matter: clocks
//! differ, so only the moment at which the change was seen counts, by the clock that is always right here.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use crate::objects::{Condition, ConditionStatus, Node};

/// For so long a node may be silent.
const GRACE: Duration = Duration::from_secs(50);
/// For so long a node may be silent that has never said how it is.
const START: Duration = Duration::from_mins(1);

/// The reason of conditions of a node that fell silent.
pub(super) const SILENT: &str = "NodeStatusUnknown";
/// The reason of conditions of a node that has never said how it is.
pub(super) const NEVER_HEARD: &str = "NodeStatusNeverUpdated";

/// When each node was last heard of.
#[derive(Default)]
pub(super) struct Lives {
    lives: HashMap<Box<str>, Life>,
    /// When to look at a node again. It may have been heard of since.
    looks: BinaryHeap<Reverse<(Instant, Box<str>)>>,
}

/// When a node was last heard of.
struct Life {
    uid: Box<str>,
    /// The time in the condition `Ready`, if there is one.
    heartbeat: Option<Value>,
    /// The time in the lease.
    lease: Option<Box<str>>,
    heard: Instant,
    /// Whether it will be looked at again.
    is_watched: bool,
}

// --- Lives ---

impl Lives {
    /// A node is as it is now, and so is its lease. Gives whether it is a new one.
    pub(super) fn observe(&mut self, node: &Node, lease: Option<&str>, now: Instant) -> bool {
        let name = &node.metadata.name;
        let ready = Condition::find(&node.status.conditions, "Ready");
        let heartbeat = ready.map(|ready| ready.other.get("lastHeartbeatTime").cloned().unwrap_or_default());
        match self.lives.get_mut(name) {
            Some(life) if life.uid == node.metadata.uid => {
                if life.heartbeat != heartbeat {
                    life.heartbeat = heartbeat;
                    // What this controller wrote because the node was silent does not come from the node.
                    if !ready.is_some_and(is_ours) {
                        self.hear(name, now);
                    }
                }
                if let Some(lease) = lease {
                    self.renew(name, lease, now);
                }
                false
            }
            _ => {
                let life = Life {
                    uid: node.metadata.uid.clone(),
                    heartbeat,
                    lease: lease.map(Into::into),
                    heard: now,
                    is_watched: false,
                };
                self.lives.insert(name.clone(), life);
                self.hear(name, now);
                true
            }
        }
    }

    /// A node is gone. Gives its uid if it was known.
    pub(super) fn forget(&mut self, name: &str) -> Option<Box<str>> {
        self.lives.remove(name).map(|life| life.uid)
    }

    /// A lease has that time. Gives whether that is news.
    pub(super) fn renew(&mut self, name: &str, lease: &str, now: Instant) -> bool {
        let Some(life) = self.lives.get_mut(name) else {
            return false;
        };
        let is_news = life.lease.as_deref() != Some(lease);
        if is_news {
            life.lease = Some(lease.into());
            self.hear(name, now);
        }
        is_news
    }

    /// Whether a node was silent for too long.
    pub(super) fn is_silent(&self, name: &str, now: Instant) -> bool {
        self.lives.get(name).is_some_and(|life| life.limit() <= now)
    }

    /// The nodes that were silent for too long since they were last heard of, each once.
    pub(super) fn fell_silent(&mut self, now: Instant) -> Vec<Box<str>> {
        let mut silent = Vec::new();
        while self.looks.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, name))) = self.looks.pop() else {
                break;
            };
            match self.lives.get_mut(&name) {
                Some(life) if life.limit() > now => self.looks.push(Reverse((life.limit(), name))),
                Some(life) => {
                    life.is_watched = false;
                    silent.push(name);
                }
                None => {}
            }
        }
        silent
    }

    /// Gives all nodes their time again, as when it was not they who were silent.
    pub(super) fn hear_all(&mut self, now: Instant) {
        let names: Vec<_> = self.lives.keys().cloned().collect();
        for name in names {
            self.hear(&name, now);
        }
    }

    fn hear(&mut self, name: &str, now: Instant) {
        if let Some(life) = self.lives.get_mut(name) {
            life.heard = now;
            if !life.is_watched {
                life.is_watched = true;
                self.looks.push(Reverse((life.limit(), name.into())));
            }
        }
    }
}

// --- Life ---

impl Life {
    fn limit(&self) -> Instant {
        let grace = if self.heartbeat.is_some() { GRACE } else { START };
        self.heard + grace
    }
}

fn is_ours(ready: &Condition) -> bool {
    ready.status == ConditionStatus::Unknown && [SILENT, NEVER_HEARD].contains(&&*ready.reason)
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
    async fn a_node_is_silent_when_neither_heartbeat_nor_lease_changes() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut lives = Lives::default();
        assert!(lives.observe(&node(Some("t0"), "R"), Some("l0"), start));
        assert!(!lives.observe(&node(Some("t0"), "R"), Some("l0"), at(20)));
        assert!(!lives.is_silent("n", at(49)) && lives.is_silent("n", at(50)));
        // The time may be anything, as long as it is another.
        assert!(!lives.observe(&node(Some("a long time ago"), "R"), Some("l0"), at(40)));
        assert!(
            lives.fell_silent(at(60)).is_empty(),
            "it is looked at again later"
        );
        assert!(!lives.renew("n", "l0", at(70)) && lives.renew("n", "l1", at(80)));
        assert!(lives.fell_silent(at(129)).is_empty());
        assert_eq!(lives.fell_silent(at(130)), ["n".into()]);
        assert!(lives.fell_silent(at(1000)).is_empty(), "it is told once");
        lives.hear_all(at(1000));
        assert_eq!(lives.fell_silent(at(1050)), ["n".into()]);
        assert_eq!(lives.forget("n"), Some("u".into()));
        assert!(!lives.renew("n", "l2", at(1050)) && !lives.is_silent("n", at(5000)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_because_of_silence_is_no_sign_of_life() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut lives = Lives::default();
        lives.observe(&node(None, ""), None, start);
        assert!(!lives.is_silent("n", at(59)) && lives.is_silent("n", at(60)));
        lives.observe(&node(Some("created"), NEVER_HEARD), None, at(61));
        assert!(lives.is_silent("n", at(61)));
        lives.observe(&node(Some("now"), "R"), None, at(62));
        assert!(!lives.is_silent("n", at(62)));
    }
}
