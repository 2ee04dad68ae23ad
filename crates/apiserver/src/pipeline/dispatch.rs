//! The last stage: runs the verb of a resource, or answers a path that is no resource.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use k3_api::status::Status;

use super::{
    decode::{ConnectionRequest, DecodedRequest, ResourceRequest},
    inflight::{self, InflightLimits, InflightPermit},
    non_resource::NonResourceEndpoints,
    rejection::Rejection,
    verb::{self, Verb},
    work_pool::{self, WorkPermit, WorkPool},
    write_tasks::WriteTasks,
};
use crate::{
    http::HttpResponse,
    registry::{Connecter, Registry, RequestContext, ResourceStorage},
    request::ListOptions,
};

/// Runs decoded requests.
pub(crate) struct DispatchStage {
    registry: Arc<Registry>,
    inflight: Arc<InflightLimits>,
    work_pool: WorkPool,
    write_tasks: WriteTasks,
    non_resource: NonResourceEndpoints,
}

// --- DispatchStage ---

impl DispatchStage {
    pub(crate) fn new(
        registry: Arc<Registry>,
        inflight: Arc<InflightLimits>,
        non_resource: NonResourceEndpoints,
    ) -> Self {
        DispatchStage {
            registry,
            inflight,
            work_pool: WorkPool::new(),
            write_tasks: WriteTasks::default(),
            non_resource,
        }
    }

    pub(super) async fn run(&self, request: DecodedRequest<'_>) -> Result<HttpResponse, Rejection> {
        match request {
            DecodedRequest::Resource(request) => self.dispatch_resource(request).await,
            DecodedRequest::Connection(request) => Ok(self.connect(request).await?),
            DecodedRequest::NonResource(request) => self.non_resource.serve(request).await,
        }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go ConnectResource
    async fn connect(&self, request: ConnectionRequest) -> Result<HttpResponse, Status> {
        let (ctx, connecter, verb, passed) = request.into_parts();
        match connecter {
            Connecter::Log => self.registry.log(&ctx).await,
            Connecter::Proxy => self.registry.proxy(&ctx, passed).await,
            Connecter::Stream => self.registry.stream(&ctx, verb, passed).await,
        }
    }

    async fn dispatch_resource(&self, request: ResourceRequest<'_>) -> Result<HttpResponse, Rejection> {
        let (observer, ctx, storage, verb) = request.into_parts();
        let cost = self.registry.cost(&ctx, verb);
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
            let is_exempt = inflight::is_exempt(&ctx.user);
            Some(self.work_pool.enter(cost.bytes, is_exempt).await?)
        };
        let _cancel = ctx.cancellation.on_drop();
        let answer = match work {
            _ if verb.is_write() => self.write(ctx, storage, verb, work, observer.take_seats()).await,
            Some(work) => {
                let registry = Arc::clone(&self.registry);
                work.run(async move { run_verb(&registry, &ctx, storage, verb).await })
                    .await?
            }
            None => run_verb(&self.registry, &ctx, storage, verb).await,
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
        let registry = Arc::clone(&self.registry);
        let write = Box::pin(async move { run_verb(&registry, &ctx, storage, verb).await });
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

/// Runs a verb of a resource or a subresource.
async fn run_verb(
    registry: &Registry,
    ctx: &RequestContext,
    storage: ResourceStorage,
    verb: Verb,
) -> Result<HttpResponse, Status> {
    match (storage, verb) {
        (ResourceStorage::Objects, Verb::Get) => registry.get(ctx).await,
        (ResourceStorage::Objects, Verb::List) => {
            let options = ListOptions::read(&ctx.query, false)?;
            registry.list(ctx, &options).await
        }
        (ResourceStorage::Objects, Verb::Watch) => {
            let options = ListOptions::read(&ctx.query, true)?;
            registry.watch(ctx, &options).await
        }
        (ResourceStorage::Objects, Verb::Create) => registry.create(ctx).await,
        (ResourceStorage::Objects, Verb::Update) => registry.update(ctx).await,
        (ResourceStorage::Objects, Verb::Patch) => registry.patch(ctx).await,
        (ResourceStorage::Objects, Verb::Delete) => registry.delete(ctx).await,
        (ResourceStorage::Objects, Verb::DeleteCollection) => registry.delete_collection(ctx).await,
        (ResourceStorage::Scale, Verb::Get) => registry.get_scale(ctx).await,
        (ResourceStorage::Scale, Verb::Update) => registry.update_scale(ctx).await,
        (ResourceStorage::Scale, Verb::Patch) => registry.patch_scale(ctx).await,
        (ResourceStorage::Binding, Verb::Create) => registry.bind(ctx).await,
        (ResourceStorage::Eviction, Verb::Create) => registry.evict(ctx).await,
        (ResourceStorage::TokenRequest, Verb::Create) => registry.issue_token(ctx).await,
        (ResourceStorage::ComponentStatus, Verb::Get) => registry.get_component_status(ctx).await,
        (ResourceStorage::ComponentStatus, Verb::List) => registry.list_component_statuses(ctx).await,
        (ResourceStorage::Review, Verb::Create) => registry.review(ctx).await,
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
