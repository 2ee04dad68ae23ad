//! Clusters of tests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    cache::SchedulerCache,
    interner::StringInterner,
    object::{Node, Pod, read},
    plugins::{CandidateNode, CycleContext},
};

/// A cluster that a test builds.
#[derive(Debug, Default)]
pub(crate) struct TestCluster {
    /// The cluster.
    pub cluster: SchedulerCache,
    /// What its objects share.
    pub interner: StringInterner,
}

impl TestCluster {
    /// A node with 4 processors, 8 GiB and 110 pods, and its name as its host name; then changed.
    pub(crate) fn node(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> Arc<Node> {
        let node = self.read_node(name, change);
        self.cluster.set_node(&Arc::new(node));
        let slot = self.cluster.slot(name).unwrap();
        self.cluster.info(slot).node.clone().unwrap()
    }

    /// The same, without its being in the cluster.
    pub(crate) fn read_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}},
        });
        change(&mut node);
        read(node, &mut self.interner)
    }

    /// A pod of one container; then changed.
    pub(crate) fn pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {}},
            "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "img:1"}]},
            "status": {},
        });
        change(&mut pod);
        read(pod, &mut self.interner)
    }

    /// The context of a scheduling cycle of a pod.
    pub(crate) fn cycle<'c>(&'c self, pod: &'c Pod) -> CycleContext<'c> {
        CycleContext {
            pod,
            cluster: &self.cluster,
        }
    }

    /// A node of the cluster, as plugins get it.
    pub(crate) fn candidate(&self, name: &str) -> CandidateNode<'_> {
        let slot = self.cluster.slot(name).unwrap();
        CandidateNode::new(slot, self.cluster.info(slot)).unwrap()
    }

    /// A pod on a node of the cluster.
    pub(crate) fn placed(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
        let pod = self.pod(name, |pod| {
            pod["spec"]["nodeName"] = node.into();
            change(pod);
        });
        let pod = Arc::new(pod);
        self.cluster.put_pod(pod.clone());
        pod
    }
}
