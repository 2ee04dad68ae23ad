//! The core is event what happened.

use std::sync::Arc;

use super::informer_event::{InformerChange, InformerEvent};
use crate::{cluster_event::ClusterEvent, object::Pod, queue::Moment, scheduler_core::SchedulerCore};

/// Applies an informer event to the core. Results of the scheduler's own writes are handled by the event loop.
// upstream: pkg/scheduler/eventhandlers.go addAllEventHandlers
pub(super) fn apply(core: &mut SchedulerCore, event: InformerEvent, now: Moment) {
    match event {
        InformerEvent::Pod(InformerChange { old, new }) => pod(core, old.as_ref(), new.as_ref(), now),
        InformerEvent::Node(InformerChange { old, new }) => match (new, old) {
            (Some(node), _) => core.node(&node, now),
            (None, Some(node)) => core.remove_node(&node.name, now),
            (None, None) => {}
        },
        InformerEvent::Namespace(InformerChange { old, new }) => {
            if let Some(namespace) = new.as_ref().or(old.as_ref()) {
                let labels = new.as_ref().map(|namespace| namespace.labels.clone());
                core.cluster.namespaces.set(namespace.name.clone(), labels);
            }
        }
        InformerEvent::PodDisruptionBudget(InformerChange { old, new }) => {
            if let Some(budget) = new.as_ref().or(old.as_ref()) {
                let key = (budget.namespace.clone(), budget.name.clone());
                match &new {
                    Some(budget) => core.cluster.budgets.insert(key, Arc::clone(budget)),
                    None => core.cluster.budgets.remove(&key),
                };
            }
        }
        InformerEvent::Service(InformerChange { old, new }) => {
            if let Some(service) = new.as_ref().or(old.as_ref()) {
                let selector = new.as_ref().map(|service| service.selector.clone());
                core.cluster.default_selectors.set_service(
                    service.namespace.clone(),
                    service.name.clone(),
                    selector,
                );
            }
        }
        InformerEvent::Controller(InformerChange { old, new }) => {
            if let Some(set) = new.as_ref().or(old.as_ref()) {
                let selector = new.as_ref().map(|set| set.selector.clone());
                let namespace = set.namespace.clone();
                let name = set.name.clone();
                core.cluster.default_selectors.set_set(
                    "ReplicationController".into(),
                    namespace,
                    name,
                    selector,
                );
            }
        }
        InformerEvent::Set(kind, InformerChange { old, new }) => {
            if let Some(set) = new.as_ref().or(old.as_ref()) {
                let selector = new.as_ref().map(|set| set.selector.clone());
                let namespace = set.namespace.clone();
                let name = set.name.clone();
                core.cluster
                    .default_selectors
                    .set_set(kind.into(), namespace, name, selector);
            }
        }
        event => storage(core, event, now),
    }
}

fn pod(core: &mut SchedulerCore, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>, now: Moment) {
    match (old, new) {
        (Some(old), Some(new)) if old.uid != new.uid => {
            core.remove_pod(old, now);
            core.pod(None, new, now);
        }
        (old, Some(new)) => core.pod(old, new, now),
        (Some(old), None) => core.remove_pod(old, now),
        (None, None) => {}
    }
}

fn storage(core: &mut SchedulerCore, event: InformerEvent, now: Moment) {
    let storage = &mut core.cluster.storage;
    match event {
        InformerEvent::PersistentVolumeClaim(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.set_claim(Arc::clone(&new));
                core.move_all_to_active_or_backoff_queue(
                    &ClusterEvent::PersistentVolumeClaim {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.remove_claim(&(old.namespace.clone(), old.name.clone()));
            }
        }
        InformerEvent::PersistentVolume(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.set_volume(Arc::clone(&new));
                core.move_all_to_active_or_backoff_queue(
                    &ClusterEvent::PersistentVolume {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.remove_volume(&old.name);
            }
        }
        InformerEvent::Class(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.classes.insert(new.name.clone(), Arc::clone(&new));
                core.move_all_to_active_or_backoff_queue(
                    &ClusterEvent::StorageClass {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.classes.remove(&old.name);
            }
        }
        InformerEvent::CsiNode(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.csi_nodes.insert(new.name.clone(), Arc::clone(&new));
                core.move_all_to_active_or_backoff_queue(
                    &ClusterEvent::CsiNode {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.csi_nodes.remove(&old.name);
            }
        }
        InformerEvent::CsiDriver(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.drivers.insert(new.name.clone(), Arc::clone(&new));
                if let Some(old) = old {
                    core.move_all_to_active_or_backoff_queue(
                        &ClusterEvent::CsiDriver { old: &old, new: &new },
                        now,
                    );
                }
            } else if let Some(old) = old {
                storage.drivers.remove(&old.name);
            }
        }
        InformerEvent::CsiStorageCapacity(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.capacities.insert(new.key.clone(), Arc::clone(&new));
                core.move_all_to_active_or_backoff_queue(
                    &ClusterEvent::CsiStorageCapacity {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.capacities.remove(&old.key);
            }
        }
        InformerEvent::VolumeAttachment(InformerChange { old, new }) => {
            if let Some(new) = new {
                storage.attachments.insert(new.name.clone(), new);
            } else if let Some(old) = old {
                storage.attachments.remove(&old.name);
                core.move_all_to_active_or_backoff_queue(&ClusterEvent::VolumeAttachmentDelete(&old), now);
            }
        }
        _ => {}
    }
}
