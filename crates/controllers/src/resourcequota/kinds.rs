//! The resources that quotas can count, as they are added and removed.

use std::{collections::HashMap, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use k3_api::quota::is_ignored_resource;
use kubecontroller::{
    controller::{ControllerHandle, SourceId, mapped_source},
    informer::{Informer, InformerScope},
    manager::{BoxError, Runnable, Stop},
    resource::Resource,
    store::Store,
};
use tokio::sync::watch;

use super::{Quota, event_handler::QuotaEventHandler};
use crate::{
    context::ControllerContext,
    discovery::{CustomResourceDefinition, DiscoveryResult, ResourceDiscovery},
    garbage::Dependent,
    resource::PODS,
};

/// Verbs that a countable resource supports.
const VERBS: [&str; 4] = ["create", "list", "watch", "delete"];

pub(super) type CountableResources = Arc<[Resource]>;

/// Follows discovery: updates the controller's resources and watches.
pub(super) struct QuotaMonitor {
    pub(super) context: ControllerContext,
    pub(super) quotas: Store<Quota>,
    pub(super) definitions: Informer<CustomResourceDefinition>,
    pub(super) controller: ControllerHandle,
    pub(super) kinds: watch::Sender<Option<CountableResources>>,
}

// --- QuotaMonitor ---

impl Runnable for QuotaMonitor {
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

impl QuotaMonitor {
    // upstream: pkg/controller/resourcequota/resource_quota_controller.go Sync, GetQuotableResources
    async fn follow(&self, sources: &mut HashMap<Resource, SourceId>) -> Result<(), BoxError> {
        let mut kinds = ResourceDiscovery::new(&self.context.writer, &self.definitions).await;
        while let Some(discovered) = kinds.next().await? {
            self.sync(&discovered, sources);
        }
        Ok(())
    }

    // upstream: pkg/controller/resourcequota/resource_quota_monitor.go SyncMonitors
    fn sync(&self, discovered: &DiscoveryResult, sources: &mut HashMap<Resource, SourceId>) {
        let countable: CountableResources = discovered
            .with_verbs(&VERBS)
            .filter(|resource| resource.namespaced && !is_ignored_resource(&resource.group, &resource.plural))
            .cloned()
            .collect();
        let is_deleted = |resource: &Resource| !countable.contains(resource);
        for (_, source) in sources.extract_if(|resource, _| is_deleted(resource)) {
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
        // Quotas may limit resources that could not be counted until now.
        for key in self.quotas.keys() {
            self.controller.queue().add(key);
        }
    }

    fn watch(&self, resource: &Resource) -> SourceId {
        let event_handler = QuotaEventHandler::new(resource, &self.quotas);
        if *resource == PODS {
            return self
                .controller
                .add_source(mapped_source(&self.context.pods(), move |delta| {
                    event_handler.quotas_of_pod(delta)
                }));
        }
        let objects = self
            .context
            .informers
            .projected_metadata::<Dependent>(&resource.api_resource(), InformerScope::default());
        self.controller.add_source(mapped_source(&objects, move |delta| {
            event_handler.quotas_of_object(delta)
        }))
    }
}
