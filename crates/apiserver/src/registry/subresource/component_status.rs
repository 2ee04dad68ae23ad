//! ComponentStatuses: deprecated; the only one is the store.

use std::sync::Arc;

use k3_api::status::Status;
use serde_json::{Value, json};

use crate::{
    cache::WatchCaches,
    http::HttpResponse,
    registry::{RequestContext, Resource, list::answer_trees, response},
};

/// The name of the only one.
const NAME: &str = "etcd-0";

/// Serves ComponentStatuses.
pub(crate) struct ComponentStatusStorage {
    caches: Arc<WatchCaches>,
}

// --- ComponentStatusStorage ---

impl ComponentStatusStorage {
    pub(crate) fn new(caches: Arc<WatchCaches>) -> Self {
        ComponentStatusStorage { caches }
    }

    // upstream: pkg/registry/core/componentstatus/rest.go Get
    pub(crate) async fn get(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let tree = self.component_status().await;
        if ctx.target.name != NAME {
            return Err(resource.not_found(&ctx.target.name));
        }
        response::tree(200, tree, ctx, &resource)
    }

    // upstream: pkg/registry/core/componentstatus/rest.go List
    pub(crate) async fn list(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let tree = self.component_status().await;
        answer_trees(vec![tree], &json!({}), ctx, &resource)
    }

    async fn component_status(&self) -> Value {
        let health = self.caches.store().health().await;
        let (status, message) = match &health {
            Ok(_) => ("True", "ok".to_owned()),
            Err(error) => ("False", error.to_string()),
        };
        json!({
            "kind": "ComponentStatus",
            "apiVersion": "v1",
            "metadata": {"name": NAME},
            "conditions": [{"type": "Healthy", "status": status, "message": message}],
        })
    }
}
