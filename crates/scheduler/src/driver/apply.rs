//! The core is told what happened.

use std::sync::Arc;

use super::told::{Change, Told};
use crate::{
    core::Core,
    event::Event,
    object::{Pod, Service},
    queue::Moment,
    selector::{Requirement, Selector},
};

/// Tells the core what happened in the cluster. What became of its own decisions is not told here.
pub(super) fn apply(core: &mut Core, told: Told, now: Moment) {
    match told {
        Told::Pod(Change { old, new }) => pod(core, old.as_ref(), new.as_ref(), now),
        Told::Node(Change { old, new }) => match (new, old) {
            (Some(node), _) => core.node(&node, now),
            (None, Some(node)) => core.node_gone(&node.name, now),
            (None, None) => {}
        },
        Told::Namespace(Change { old, new }) => {
            if let Some(namespace) = new.as_ref().or(old.as_ref()) {
                let labels = new.as_ref().map(|namespace| namespace.labels.clone());
                core.cluster.namespaces.set(namespace.name.clone(), labels);
            }
        }
        Told::Budget(Change { old, new }) => {
            if let Some(budget) = new.as_ref().or(old.as_ref()) {
                let key = (budget.namespace.clone(), budget.name.clone());
                match &new {
                    Some(budget) => core.cluster.budgets.insert(key, Arc::clone(budget)),
                    None => core.cluster.budgets.remove(&key),
                };
            }
        }
        Told::Service(Change { old, new }) => {
            if let Some(service) = new.as_ref().or(old.as_ref()) {
                let selector = new.as_ref().map(|service| service.selector.clone());
                core.cluster
                    .groups
                    .set_service(service.namespace.clone(), service.name.clone(), selector);
            }
        }
        Told::Controller(Change { old, new }) => {
            if let Some(set) = new.as_ref().or(old.as_ref()) {
                let selector = new.as_ref().map(|set| exactly(set));
                let (namespace, name) = (set.namespace.clone(), set.name.clone());
                core.cluster
                    .groups
                    .set_set("ReplicationController".into(), namespace, name, selector);
            }
        }
        Told::Set(kind, Change { old, new }) => {
            if let Some(set) = new.as_ref().or(old.as_ref()) {
                let selector = new.as_ref().map(|set| set.selector.clone());
                let (namespace, name) = (set.namespace.clone(), set.name.clone());
                core.cluster
                    .groups
                    .set_set(kind.into(), namespace, name, selector);
            }
        }
        told => storage(core, told, now),
    }
}

fn pod(core: &mut Core, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>, now: Moment) {
    match (old, new) {
        (Some(old), Some(new)) if old.uid != new.uid => {
            core.pod_gone(old, now);
            core.pod(None, new, now);
        }
        (old, Some(new)) => core.pod(old, new, now),
        (Some(old), None) => core.pod_gone(old, now),
        (None, None) => {}
    }
}

fn exactly(set: &Service) -> Selector {
    let pairs = set.selector.iter();
    Selector::All(
        pairs
            .map(|(key, value)| Requirement::equal(key.clone(), value.clone()))
            .collect(),
    )
}

fn storage(core: &mut Core, told: Told, now: Moment) {
    let storage = &mut core.cluster.storage;
    match told {
        Told::Claim(Change { old, new }) => {
            if let Some(new) = new {
                storage.set_claim(Arc::clone(&new));
                core.happened(
                    &Event::Claim {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.remove_claim(&(old.namespace.clone(), old.name.clone()));
            }
        }
        Told::Volume(Change { old, new }) => {
            if let Some(new) = new {
                storage.set_volume(Arc::clone(&new));
                core.happened(
                    &Event::Volume {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.remove_volume(&old.name);
            }
        }
        Told::Class(Change { old, new }) => {
            if let Some(new) = new {
                storage.classes.insert(new.name.clone(), Arc::clone(&new));
                core.happened(
                    &Event::Class {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.classes.remove(&old.name);
            }
        }
        Told::CsiNode(Change { old, new }) => {
            if let Some(new) = new {
                storage.csi_nodes.insert(new.name.clone(), Arc::clone(&new));
                core.happened(
                    &Event::CsiNode {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.csi_nodes.remove(&old.name);
            }
        }
        Told::CsiDriver(Change { old, new }) => {
            if let Some(new) = new {
                storage.drivers.insert(new.name.clone(), Arc::clone(&new));
                if let Some(old) = old {
                    core.happened(&Event::CsiDriver { old: &old, new: &new }, now);
                }
            } else if let Some(old) = old {
                storage.drivers.remove(&old.name);
            }
        }
        Told::Capacity(Change { old, new }) => {
            if let Some(new) = new {
                storage.capacities.insert(new.key.clone(), Arc::clone(&new));
                core.happened(
                    &Event::Capacity {
                        old: old.as_deref(),
                        new: &new,
                    },
                    now,
                );
            } else if let Some(old) = old {
                storage.capacities.remove(&old.key);
            }
        }
        Told::Attachment(Change { old, new }) => {
            if let Some(new) = new {
                storage.attachments.insert(new.name.clone(), new);
            } else if let Some(old) = old {
                storage.attachments.remove(&old.name);
                core.happened(&Event::AttachmentWent(&old), now);
            }
        }
        _ => {}
    }
}
