//! The last stage: runs the verb of a resource, or answers a path that is no resource.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use k3_api::status::Status;

use super::{
    decode::{ConnectionRequest, DecodedRequest, ResourceRequest},
    inflight::{self, InflightLimits, InflightPermit, LimitClass},
    non_resource::NonResourceEndpoints,
    rejection::Rejection,
    verb::{self, Verb},
    work_pool::{self, WorkPermit, WorkPool},
    write_tasks::WriteTasks,
};
use crate::{
    cache::WatchCaches,
    http::HttpResponse,
    registry::{
        ComponentStatusStorage, ConnectStorage, Connecter, Registry, RequestContext, Resource,
        ResourceStorage, ReviewStorage, TokenRequestStorage, estimate,
    },
    request::{ListOptions, ListVerb},
};

/// Runs decoded requests.
pub(crate) struct DispatchStage {
    storages: Arc<RestStorages>,
    inflight: Arc<InflightLimits>,
    work_pool: WorkPool,
    write_tasks: WriteTasks,
    non_resource: NonResourceEndpoints,
}

/// What serves the verbs of resources and subresources.
pub(crate) struct RestStorages {
    pub caches: Arc<WatchCaches>,
    pub objects: Arc<Registry>,
    pub component_statuses: ComponentStatusStorage,
    pub reviews: ReviewStorage,
    pub token_requests: TokenRequestStorage,
    pub connections: ConnectStorage,
}

// --- DispatchStage ---

impl DispatchStage {
    pub(crate) fn new(
        storages: RestStorages,
        inflight: Arc<InflightLimits>,
        non_resource: NonResourceEndpoints,
    ) -> Self {
        DispatchStage {
            storages: Arc::new(storages),
            inflight,
            work_pool: WorkPool::new(),
            write_tasks: WriteTasks::default(),
            non_resource,
        }
    }

    pub(super) async fn run(&self, request: DecodedRequest<'_>) -> Result<HttpResponse, Rejection> {
        match request {
            DecodedRequest::Resource(request) => self.dispatch_resource(request).await,
            DecodedRequest::Connection(request) => Ok(self.connect(*request).await?),
            DecodedRequest::NonResource(request) => self.non_resource.serve(request).await,
        }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go ConnectResource
    async fn connect(&self, request: ConnectionRequest) -> Result<HttpResponse, Status> {
        let (ctx, connecter, verb, passed) = request.into_parts();
        let connections = &self.storages.connections;
        match connecter {
            Connecter::Log => connections.log(&ctx).await,
            Connecter::Proxy => connections.proxy(&ctx, passed).await,
            Connecter::Stream => connections.stream(&ctx, verb, passed).await,
        }
    }

    async fn dispatch_resource(&self, request: ResourceRequest<'_>) -> Result<HttpResponse, Rejection> {
        let (observer, ctx, storage, verb) = request.into_parts();
        let resource = Resource::of(ctx.target.kind.clone(), &self.storages.caches);
        let cost = estimate(&ctx, verb, &resource);
        if let Some(permit) = observer.seats()
            && !self
                .inflight
                .widen(permit, inflight::seats(cost.objects, cost.bytes), &ctx.user)
        {
            observer.refused();
            return Err(Rejection::too_many_requests());
        }
        let work = if cost.bytes < work_pool::LARGE {
            None
        } else {
            Some(
                self.work_pool
                    .enter(cost.bytes, LimitClass::of(&ctx.user))
                    .await?,
            )
        };
        let _cancel = ctx.cancellation.on_drop();
        let answer = match work {
            _ if verb.is_write() => self.write(ctx, storage, verb, work, observer.take_seats()).await,
            Some(work) => {
                let storages = Arc::clone(&self.storages);
                work.run(async move { storages.run_verb(&ctx, storage, verb).await })
                    .await?
            }
            None => self.storages.run_verb(&ctx, storage, verb).await,
        };
        Ok(answer?)
    }

    /// Runs a write. It continues when its client disconnects or times out: it stops between two stages or is stored, but is
    /// never interrupted half way. It keeps its seats.
    async fn write(
        &self,
        ctx: RequestContext,
        storage: ResourceStorage,
        verb: Verb,
        work: Option<WorkPermit>,
        permit: Option<InflightPermit>,
    ) -> Result<HttpResponse, Status> {
        let storages = Arc::clone(&self.storages);
        let write = Box::pin(async move { storages.run_verb(&ctx, storage, verb).await });
        let done = self.write_tasks.begin(async move {
            let write = async move {
                match work {
                    Some(work) => work.run(write).await?,
                    None => write.await,
                }
            };
            let outcome = AssertUnwindSafe(write).catch_unwind().await;
            drop(permit);
            outcome
        });
        match done.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(Status::service_unavailable(
                "the server is stopping; it is not known whether the write happened",
            )),
        }
    }

    /// Waits for the writes that are under way.
    pub(super) async fn end_writes(&self, patience: Duration) {
        self.write_tasks.end(patience).await;
    }
}

// --- RestStorages ---

impl RestStorages {
    /// Runs a verb of a resource or a subresource.
    async fn run_verb(
        &self,
        ctx: &RequestContext,
        storage: ResourceStorage,
        verb: Verb,
    ) -> Result<HttpResponse, Status> {
        let objects = &self.objects;
        match (storage, verb) {
            (ResourceStorage::Objects, Verb::Get) => objects.get(ctx).await,
            (ResourceStorage::Objects, Verb::List) => {
                let options = ListOptions::read(&ctx.query, ListVerb::List)?;
                objects.list(ctx, &options).await
            }
            (ResourceStorage::Objects, Verb::Watch) => {
                let options = ListOptions::read(&ctx.query, ListVerb::Watch)?;
                objects.watch(ctx, &options).await
            }
            (ResourceStorage::Objects, Verb::Create) => objects.create(ctx).await,
            (ResourceStorage::Objects, Verb::Update) => objects.update(ctx).await,
            (ResourceStorage::Objects, Verb::Patch) => objects.patch(ctx).await,
            (ResourceStorage::Objects, Verb::Delete) => objects.delete(ctx).await,
            (ResourceStorage::Objects, Verb::DeleteCollection) => objects.delete_collection(ctx).await,
            (ResourceStorage::Scale, Verb::Get) => objects.get_scale(ctx).await,
            (ResourceStorage::Scale, Verb::Update) => objects.update_scale(ctx).await,
            (ResourceStorage::Scale, Verb::Patch) => objects.patch_scale(ctx).await,
            (ResourceStorage::Binding, Verb::Create) => objects.bind(ctx).await,
            (ResourceStorage::Eviction, Verb::Create) => objects.evict(ctx).await,
            (ResourceStorage::TokenRequest, Verb::Create) => self.token_requests.create(ctx).await,
            (ResourceStorage::ComponentStatus, Verb::Get) => self.component_statuses.get(ctx).await,
            (ResourceStorage::ComponentStatus, Verb::List) => self.component_statuses.list(ctx).await,
            (ResourceStorage::Review, Verb::Create) => self.reviews.create(ctx).await,
            // The table of kinds has no other verbs of these, and `Verb::of` lets none through that it has not.
            (
                ResourceStorage::Scale
                | ResourceStorage::Binding
                | ResourceStorage::Eviction
                | ResourceStorage::TokenRequest
                | ResourceStorage::ComponentStatus
                | ResourceStorage::Review,
                _,
            ) => Err(verb::not_allowed()),
        }
    }
}
