//! Informers for all deletable resources, as resources are added and removed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kubecontroller::{
    informer::{Delta, EventHandlerRegistration, Informer, InformerScope, SharedInformerFactory},
    resource::Resource,
    workqueue::WorkQueue,
};
use tokio::{sync::watch, time};

use super::{collector::WorkProcessor, dependent::Dependent, graph::GraphWorkItem};
use crate::discovery::DiscoveryResult;

/// How long a resource may delay the others until its first list.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Informers of all resources. Dropping it stops them.
pub(super) struct Monitors {
    informers: SharedInformerFactory,
    collector: Arc<WorkProcessor>,
    queue: WorkQueue<GraphWorkItem>,
    kinds: HashMap<Resource, (Informer<Dependent>, EventHandlerRegistration)>,
    /// Whether all resources are synced: before that, an object may have dependents that are not known.
    synced: watch::Sender<bool>,
}

// --- Monitors ---

impl Monitors {
    pub(super) fn new(
        informers: SharedInformerFactory,
        collector: Arc<WorkProcessor>,
        queue: WorkQueue<GraphWorkItem>,
    ) -> Self {
        Monitors {
            informers,
            collector,
            queue,
            kinds: HashMap::new(),
            synced: watch::Sender::new(false),
        }
    }

    /// Whether all resources are synced.
    pub(super) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Starts monitors of new resources and stops those of removed ones.
    // upstream: pkg/controller/garbagecollector/graph_builder.go syncMonitors, startMonitors
    pub(super) async fn sync(&mut self, discovered: &DiscoveryResult) {
        let served: Vec<Resource> = discovered
            .with_verbs(&["list", "watch", "delete"])
            .filter(|resource| resource.plural != "events")
            .cloned()
            .collect();
        self.collector.set_resources(&served);
        let known = self.kinds.len();
        self.kinds.retain(|resource, _| served.contains(resource));
        let mut added = Vec::new();
        for resource in served {
            if !self.kinds.contains_key(&resource) {
                added.push(self.watch(resource));
            }
        }
        if self.kinds.len() == known && added.is_empty() && *self.synced.borrow() {
            return;
        }
        self.synced.send_replace(false);
        let synced = async {
            for subscription in &added {
                self.kinds[subscription].1.wait_for_sync().await;
            }
        };
        if time::timeout(FIRST_LIST_TIMEOUT, synced).await.is_err() {
            tracing::warn!("failed to list some resources; their owner references are unknown");
        }
        self.synced.send_replace(true);
    }

    fn watch(&mut self, resource: Resource) -> Resource {
        let informer = self
            .informers
            .projected_metadata::<Dependent>(&resource.api_resource(), InformerScope::default());
        let collector = Arc::clone(&self.collector);
        let queue = self.queue.clone();
        let kind = resource.clone();
        let subscription = informer.add_event_handler(move |delta| {
            let work = match delta {
                Delta::Sync { .. } => return,
                Delta::Deleted { last, .. } => collector.remove(&last.metadata.uid),
                Delta::Added { new, .. } | Delta::Updated { new, .. } | Delta::Replaced { new, .. } => {
                    collector.observe(&kind, new)
                }
            };
            for work in work {
                queue.add(work);
            }
        });
        self.kinds.insert(resource.clone(), (informer, subscription));
        resource
    }
}
