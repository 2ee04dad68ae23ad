//! A registry on a store, for tests: a server without its connections.

use std::sync::Arc;

use k3_api::{kinds::builtin, time::Time};
use k3_storage::{Store, Write};
use k3_task::Clock;
use serde_json::Value;

use super::{ObjectAdmission, Registry, Resource, StoreWriter, own_object, selectable};
use crate::{
    admission::AdmissionChain,
    allocation::ServiceAllocator,
    authz::Authorizer,
    cache::{StoreReflector, WatchCaches},
    custom::CustomResourceConverter,
    metrics::Metrics,
    outgoing::WebhookClientManager,
    service_range::service_range,
};

/// A server without its connections.
pub(crate) struct TestRegistry {
    pub registry: Arc<Registry>,
    pub caches: Arc<WatchCaches>,
    pub allocation: Arc<ServiceAllocator>,
    pub admission: Arc<ObjectAdmission>,
    writer: StoreWriter,
    _feed: StoreReflector,
}

// --- TestRegistry ---

impl TestRegistry {
    /// A server on a store, with this range for the addresses of services. Nothing is bootstrapped.
    pub(crate) async fn start(store: Arc<dyn Store>, range: &str) -> Self {
        let writer = StoreWriter::new(Arc::clone(&store));
        let (caches, feed) = WatchCaches::fill(store, selectable).await.unwrap();
        let clock = Clock::system();
        let range = service_range(range).unwrap();
        let allocation = ServiceAllocator::new(Arc::clone(&caches), writer.clone(), clock.clone(), &range);
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&caches)));
        let outgoing = Arc::new(WebhookClientManager::new(Arc::clone(&caches), Arc::default()));
        let metrics = Arc::<Metrics>::default();
        let admission = Arc::new(ObjectAdmission::new(
            AdmissionChain::new(&authorizer, &outgoing, writer.clone()),
            authorizer,
            Arc::clone(&caches),
            Arc::clone(&metrics),
        ));
        let registry = Registry::new(
            Arc::clone(&caches),
            writer.clone(),
            Arc::clone(&admission),
            Arc::clone(&allocation),
            Arc::new(CustomResourceConverter::new(outgoing)),
            metrics,
            clock,
        );
        TestRegistry {
            registry: Arc::new(registry),
            caches,
            allocation,
            admission,
            writer,
            _feed: feed,
        }
    }

    /// The resource of a kind.
    pub(crate) fn resource(&self, group: &str, version: &str, kind: &str) -> Resource {
        let kind = builtin().kind(group, version, kind).unwrap();
        self.registry.resource(kind)
    }

    /// Stores an object without admission or validation.
    pub(crate) async fn put(&self, resource: &Resource, object: &Value) {
        let bytes = own_object(resource, object, "test", Time::from_unix(0, 0));
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let key = resource.key(text("namespace"), text("name")).unwrap();
        let revision = self.writer.commit(Write::create(key, bytes)).await.unwrap();
        self.caches.wait_until_applied(revision).await;
    }
}
