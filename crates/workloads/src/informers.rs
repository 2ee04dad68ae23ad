//! The informers that all readers of a process share.

use k8s_openapi::api::core::v1 as core;
use kube::core::ApiResource;
use kubecontroller::{
    informer::{Informer, InformerScope, SharedInformerFactory},
    store::{Index, Store},
};

use crate::{Node, PersistentVolume, PersistentVolumeClaim, Pod};

/// The pods of the cluster.
///
/// There is one informer of all pods and none with a narrower scope: a second one would decode most events again.
pub fn pod_informer(informers: &SharedInformerFactory) -> Informer<Pod> {
    informers.projected(&ApiResource::erase::<core::Pod>(&()), InformerScope::default())
}

/// The nodes of the cluster.
pub fn node_informer(informers: &SharedInformerFactory) -> Informer<Node> {
    informers.projected(&ApiResource::erase::<core::Node>(&()), InformerScope::default())
}

/// The PersistentVolumeClaims of the cluster.
pub fn claim_informer(informers: &SharedInformerFactory) -> Informer<PersistentVolumeClaim> {
    let kind = ApiResource::erase::<core::PersistentVolumeClaim>(&());
    informers.projected(&kind, InformerScope::default())
}

/// The PersistentVolumes of the cluster.
pub fn volume_informer(informers: &SharedInformerFactory) -> Informer<PersistentVolume> {
    let kind = ApiResource::erase::<core::PersistentVolume>(&());
    informers.projected(&kind, InformerScope::default())
}

/// The pods of each node.
pub fn pods_by_node(pods: &Store<Pod>) -> Index<Pod> {
    pods.shared_index("node", |pod| match &*pod.spec.node_name {
        "" => Vec::new(),
        node => vec![node.to_owned()],
    })
}
