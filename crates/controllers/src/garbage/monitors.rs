//! The informers of all kinds that can be deleted, as kinds come and go.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kubecontroller::{
    informer::{Delta, EventHandlerRegistration, Informer, InformerScope, SharedInformerFactory},
    workqueue::WorkQueue,
};
use tokio::{sync::watch, time};

use super::{collector::Collector, dependent::Dependent, graph::Work};
use crate::{discovery::Discovered, resource::Resource};

/// How long a kind may keep the others waiting for its first list.
const PATIENCE: Duration = Duration::from_secs(30);

/// Watches over all kinds. When it is dropped, it does no more.
pub(super) struct Monitors {
    informers: SharedInformerFactory,
    collector: Arc<Collector>,
    queue: WorkQueue<Work>,
    kinds: HashMap<Resource, (Informer<Dependent>, EventHandlerRegistration)>,
    /// Whether all kinds are known: until then, an object may have dependents that nobody has heard of.
    complete: watch::Sender<bool>,
}

// --- Monitors ---

impl Monitors {
    pub(super) fn new(
        informers: SharedInformerFactory,
        collector: Arc<Collector>,
        queue: WorkQueue<Work>,
    ) -> Self {
        Monitors {
            informers,
            collector,
            queue,
            kinds: HashMap::new(),
            complete: watch::Sender::new(false),
        }
    }

    /// Whether all kinds are known.
    pub(super) fn complete(&self) -> watch::Receiver<bool> {
        self.complete.subscribe()
    }

    /// Watches the kinds that are new, and lets go of those that are gone.
    pub(super) async fn sync(&mut self, discovered: &Discovered) {
        let served: Vec<Resource> = discovered
            .with(&["list", "watch", "delete"])
            .filter(|resource| resource.plural != "events")
            .cloned()
            .collect();
        self.collector.serves(&served);
        let known = self.kinds.len();
        self.kinds.retain(|resource, _| served.contains(resource));
        let mut added = Vec::new();
        for resource in served {
            if !self.kinds.contains_key(&resource) {
                added.push(self.watch(resource));
            }
        }
        if self.kinds.len() == known && added.is_empty() && *self.complete.borrow() {
            return;
        }
        self.complete.send_replace(false);
        let synced = async {
            for subscription in &added {
                self.kinds[subscription].1.wait_for_sync().await;
            }
        };
        if time::timeout(PATIENCE, synced).await.is_err() {
            tracing::warn!(
                "the objects of some kinds cannot be listed; what they own or are owned by is not known"
            );
        }
        self.complete.send_replace(true);
    }

    fn watch(&mut self, resource: Resource) -> Resource {
        let informer = self
            .informers
            .projected_metadata::<Dependent>(&resource.api_resource(), InformerScope::default());
        let (collector, queue, kind) = (Arc::clone(&self.collector), self.queue.clone(), resource.clone());
        let subscription = informer.add_event_handler(move |delta| {
            let work = match delta {
                Delta::Sync { .. } => return,
                Delta::Deleted { last, .. } => collector.lost(&last.metadata.uid),
                Delta::Added { new, .. } | Delta::Updated { new, .. } | Delta::Replaced { new, .. } => {
                    collector.saw(&kind, new)
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
