//! The kinds of the core group, one file per kind.

mod binding;
mod component_status;
mod config_map;
pub(in crate::kinds) mod endpoint_ip;
mod endpoints;
pub mod event;
pub(crate) mod image;
mod limit_range;
mod namespace;
mod node;
pub(crate) mod node_selector;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
mod replication_controller;
mod resource_quota;
mod secret;
pub mod service;
mod service_account;
pub(crate) mod volume;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "Binding" => &binding::Binding,
        "ComponentStatus" => &component_status::ComponentStatus,
        "ConfigMap" => &config_map::ConfigMap,
        "Endpoints" => &endpoints::Endpoints,
        "Event" => &event::Event(event::Form::Core),
        "LimitRange" => &limit_range::LimitRange,
        "Namespace" => &namespace::Namespace,
        "Node" => &node::Node,
        "PersistentVolume" => &persistent_volume::PersistentVolume,
        "PersistentVolumeClaim" => &persistent_volume_claim::PersistentVolumeClaim,
        "Pod" => &pod::Pod,
        "PodTemplate" => &pod::PodTemplate,
        "ReplicationController" => &replication_controller::ReplicationController,
        "ResourceQuota" => &resource_quota::ResourceQuota,
        "Secret" => &secret::Secret,
        "Service" => &service::Service,
        "ServiceAccount" => &service_account::ServiceAccount,
        _ => return None,
    })
}
