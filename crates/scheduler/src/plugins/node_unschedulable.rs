//! Nothing new comes to a node that is closed, but for pods that bear it.

use super::Plugin;
use crate::{
    event::Event,
    object::{Effect, Node, Pod, Taint},
    status::{Rejection, Verdict},
};

/// Whether a node is open to a pod.
pub(super) fn filter(pod: &Pod, node: &Node) -> Verdict {
    if !node.unschedulable || bears(pod) {
        return Ok(());
    }
    Err(Rejection::never(
        Plugin::NodeUnschedulable,
        "node(s) were unschedulable",
    ))
}

/// Whether something helps a pod that was rejected.
pub(super) fn helps(event: &Event<'_>) -> bool {
    match event {
        Event::NodeCame(node) => !node.unschedulable,
        Event::NodeChanged { old, new } => old.unschedulable && !new.unschedulable,
        Event::ItselfChanged { old, new } => old.spec.tolerations != new.spec.tolerations && bears(new),
        _ => false,
    }
}

fn bears(pod: &Pod) -> bool {
    let closed = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    };
    closed.borne(&pod.spec.tolerations)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample::Sample;

    #[test]
    fn a_closed_node_takes_only_pods_that_bear_it() {
        let mut sample = Sample::default();
        let open = sample.node("open", |_| {});
        let closed = sample.node("closed", |node| node["spec"]["unschedulable"] = true.into());
        let pod = sample.pod("p", |_| {});
        let bearer = sample.pod("b", |pod| {
            pod["spec"]["tolerations"] =
                json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        });
        assert!(filter(&pod, &open).is_ok());
        assert_eq!(
            filter(&pod, &closed).unwrap_err().message(),
            "node(s) were unschedulable"
        );
        assert!(filter(&bearer, &closed).is_ok());
        assert!(helps(&Event::NodeChanged {
            old: &closed,
            new: &open
        }));
        assert!(!helps(&Event::NodeCame(&closed)));
    }
}
