//! The kinds whose objects quotas can count, as they come and go.

use std::{collections::HashMap, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use k3_api::quota::is_ignored_resource;
use kubecontroller::{
    controller::{ControllerHandle, SourceId, mapped_source},
    informer::{Informer, InformerScope},
    manager::{BoxError, Runnable, Stop},
    store::Store,
};
use tokio::sync::watch;

use super::{Quota, wake::Wake};
use crate::{
    context::ControllerContext,
    discovery::{CustomResourceDefinition, DiscoveryResult, ResourceDiscovery},
    garbage::Dependent,
    resource::{PODS, Resource},
};

/// What can be done with the objects of a kind that quotas count.
const VERBS: [&str; 4] = ["create", "list", "watch", "delete"];

/// The kinds that can be counted.
pub(super) type Countable = Arc<[Resource]>;

/// Follows the kinds: tells the controller which there are, and of their changes.
pub(super) struct Follower {
    pub(super) context: ControllerContext,
    pub(super) quotas: Store<Quota>,
    pub(super) definitions: Informer<CustomResourceDefinition>,
    pub(super) controller: ControllerHandle,
    pub(super) kinds: watch::Sender<Option<Countable>>,
}

// --- Follower ---

impl Runnable for Follower {
    fn name(&self) -> &'static str {
        "resourcequota-kinds"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            let mut sources = HashMap::new();
            let followed = stop.unless_stopped(self.follow(&mut sources)).await;
            for source in sources.into_values() {
                self.controller.remove_source(source);
            }
            followed.unwrap_or(Ok(()))
        }
        .boxed()
    }
}

impl Follower {
    async fn follow(&self, sources: &mut HashMap<Resource, SourceId>) -> Result<(), BoxError> {
        let mut kinds = ResourceDiscovery::new(&self.context.writer, &self.definitions).await;
        while let Some(discovered) = kinds.next().await? {
            self.sync(&discovered, sources);
        }
        Ok(())
    }

    fn sync(&self, discovered: &DiscoveryResult, sources: &mut HashMap<Resource, SourceId>) {
        let countable: Countable = discovered
            .with_verbs(&VERBS)
            .filter(|resource| resource.namespaced && !is_ignored_resource(&resource.group, &resource.plural))
            .cloned()
            .collect();
        let is_gone = |resource: &Resource| !countable.contains(resource);
        for (_, source) in sources.extract_if(|resource, _| is_gone(resource)) {
            self.controller.remove_source(source);
        }
        for resource in &*countable {
            if !sources.contains_key(resource) {
                sources.insert(resource.clone(), self.watch(resource));
            }
        }
        if self.kinds.borrow().as_ref() == Some(&countable) {
            return;
        }
        self.kinds.send_replace(Some(countable));
        // Some may limit what could not be counted until now.
        for key in self.quotas.keys() {
            self.controller.queue().add(key);
        }
    }

    fn watch(&self, resource: &Resource) -> SourceId {
        let wake = Wake::new(resource, &self.quotas);
        if *resource == PODS {
            return self
                .controller
                .add_source(mapped_source(&self.context.pods(), move |delta| wake.pod(delta)));
        }
        let objects = self
            .context
            .informers
            .projected_metadata::<Dependent>(&resource.api_resource(), InformerScope::default());
        self.controller
            .add_source(mapped_source(&objects, move |delta| wake.object(delta)))
    }
}
