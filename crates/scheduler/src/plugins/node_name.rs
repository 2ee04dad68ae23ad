//! A pod that names its node goes nowhere else.

use super::Plugin;
use crate::{
    cluster::NodeInfo,
    event::Event,
    object::Pod,
    status::{Rejection, Verdict},
};

/// Whether a node is the one.
pub(super) fn filter(pod: &Pod, info: &NodeInfo) -> Verdict {
    match &pod.node {
        Some(node) if *node != info.name => Err(Rejection::never(
            Plugin::NodeName,
            "node(s) didn't match the requested node name",
        )),
        _ => Ok(()),
    }
}

/// Whether something helps a pod that was rejected.
pub(super) fn helps(event: &Event<'_>) -> bool {
    matches!(event, Event::NodeCame(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn only_the_named_node_does() {
        let mut sample = Sample::default();
        let pod = sample.pod("p", |_| {});
        let (named, other) = (NodeInfo::named("a".into()), NodeInfo::named("b".into()));
        assert!(filter(&pod, &named).is_ok());
        let pod = pod.on("a".into());
        assert!(filter(&pod, &named).is_ok());
        let rejection = filter(&pod, &other).unwrap_err();
        assert_eq!(
            rejection.message(),
            "node(s) didn't match the requested node name"
        );
    }
}
