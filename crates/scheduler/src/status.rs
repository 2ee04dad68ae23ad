//! Statuses of plugins, and the message when no node fits.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write, sync::Arc};

use crate::{
    number::count,
    plugins::{PluginId, PluginSet},
};

/// How final a rejection is.
// upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Code
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCode {
    /// Preemption may help.
    Unschedulable,
    /// Preemption does not help.
    UnschedulableAndUnresolvable,
    /// A plugin failed.
    Error,
}

/// Why a plugin rejected a node or all nodes.
// upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go Status
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// How final it is.
    pub code: RejectionCode,
    /// The plugin that rejected; the framework sets it.
    pub(crate) plugin: Option<PluginId>,
    reasons: StatusReasons,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StatusReasons {
    One(&'static str),
    Many(Arc<[Cow<'static, str>]>),
}

/// Whether a node suits the pod.
pub type FilterResult = Result<(), Rejection>;

/// What was found out while no node was found.
#[derive(Clone, Debug, Default)]
// upstream: pkg/scheduler/framework/types.go Diagnosis
pub(crate) struct Diagnosis {
    /// By place of the node.
    pub nodes: Vec<(usize, Rejection)>,
    /// What holds of all nodes that are not named; without it, that preemption does not help.
    pub absent_nodes_status: Option<Rejection>,
    /// What was found before any node was looked at.
    pub pre_filter_message: Option<String>,
    /// Who rejected nodes.
    pub plugins: PluginSet,
    /// What preemption had to say.
    pub post_filter_message: Option<String>,
}

impl Rejection {
    /// A rejection that the eviction of other pods may resolve.
    pub fn unschedulable(reason: &'static str) -> Self {
        Self::with_reason(RejectionCode::Unschedulable, reason)
    }

    /// A rejection that no eviction of other pods resolves.
    pub fn unresolvable(reason: &'static str) -> Self {
        Self::with_reason(RejectionCode::UnschedulableAndUnresolvable, reason)
    }

    /// An error of the plugin: the cycle ends, and the pod is retried after a backoff.
    pub fn error(message: String) -> Self {
        Self::many(RejectionCode::Error, [message.into()])
    }

    /// A rejection with several reasons, or with reasons that are made at run time.
    pub fn many(code: RejectionCode, reasons: impl IntoIterator<Item = Cow<'static, str>>) -> Self {
        Rejection {
            code,
            plugin: None,
            reasons: StatusReasons::Many(reasons.into_iter().collect()),
        }
    }

    /// The same rejection, with the plugin that rejected.
    // upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go WithPlugin
    pub(crate) fn by(self, plugin: PluginId) -> Self {
        Rejection {
            plugin: Some(plugin),
            ..self
        }
    }

    fn with_reason(code: RejectionCode, reason: &'static str) -> Self {
        Rejection {
            code,
            plugin: None,
            reasons: StatusReasons::One(reason),
        }
    }

    /// The reasons, one by one.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match &self.reasons {
            StatusReasons::One(reason) => (Some(*reason), &[][..]),
            StatusReasons::Many(reasons) => (None, &**reasons),
        };
        one.into_iter().chain(many.iter().map(|reason| &**reason))
    }

    /// The reasons in one line.
    pub fn message(&self) -> String {
        self.reasons().collect::<Vec<_>>().join(", ")
    }
}

impl Diagnosis {
    /// A node does not do.
    pub(crate) fn add(&mut self, slot: usize, rejection: Rejection) {
        self.plugins.extend(rejection.plugin);
        self.nodes.push((slot, rejection));
    }

    /// What is said when none of so many nodes does.
    pub(crate) fn message(&self, total: usize) -> String {
        let mut text = format!("0/{total} nodes are available:");
        if let Some(pre_filter_message) = &self.pre_filter_message {
            write!(text, " {pre_filter_message}.").expect("a string takes everything");
        } else if let Some(counts) = self.histogram(total) {
            write!(text, " {counts}.").expect("a string takes everything");
        }
        if let Some(preemption) = &self.post_filter_message {
            write!(text, " {preemption}").expect("a string takes everything");
        }
        text
    }

    fn histogram(&self, total: usize) -> Option<String> {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for reason in self.nodes.iter().flat_map(|(_, rejection)| rejection.reasons()) {
            *counts.entry(reason).or_default() += 1;
        }
        let unnamed = count(total) - count(self.nodes.len());
        if unnamed > 0 {
            for reason in self.absent_nodes_status.iter().flat_map(Rejection::reasons) {
                *counts.entry(reason).or_default() += unnamed;
            }
        }
        let mut lines: Vec<_> = counts
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        lines.sort();
        (!lines.is_empty()).then(|| lines.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sorts_reasons_as_text() {
        let mut diagnosis = Diagnosis::default();
        for slot in 0..10 {
            diagnosis.add(slot, Rejection::unschedulable("no ports"));
        }
        diagnosis.add(10, Rejection::unresolvable("wrong name"));
        diagnosis.add(11, Rejection::unresolvable("wrong name"));
        diagnosis.post_filter_message = Some("preemption: none.".into());
        assert_eq!(
            diagnosis.message(12),
            "0/12 nodes are available: 10 no ports, 2 wrong name. preemption: none."
        );
    }

    #[test]
    fn counts_nodes_absent_from_the_diagnosis() {
        let mut diagnosis = Diagnosis::default();
        diagnosis.add(0, Rejection::unschedulable("no ports"));
        diagnosis.absent_nodes_status = Some(Rejection::unresolvable("not asked"));
        assert_eq!(
            diagnosis.message(3),
            "0/3 nodes are available: 1 no ports, 2 not asked."
        );
    }

    #[test]
    fn pre_filter_message_stands_alone() {
        let diagnosis = Diagnosis {
            pre_filter_message: Some("claim is missing".into()),
            ..Diagnosis::default()
        };
        assert_eq!(diagnosis.message(3), "0/3 nodes are available: claim is missing.");
    }
}
