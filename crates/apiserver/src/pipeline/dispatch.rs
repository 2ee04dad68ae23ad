//! The last stage: runs the verb of a resource, or answers a path that is no resource.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use k3_api::status::Status;

use super::{
    decode::{ConnectionRequest, DecodedRequest, ResourceRequest},
    inflight::{self, InflightLimits, InflightPermit},
    non_resource::NonResourceEndpoints,
    rejection::Rejection,
    verb::Verb,
    work_pool::{self, WorkPermit, WorkPool},
    write_tasks::WriteTasks,
};
use crate::{
    http::HttpResponse,
    registry::{Registry, RequestContext},
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

    async fn connect(&self, request: ConnectionRequest) -> Result<HttpResponse, Status> {
        let (ctx, verb, passed) = request.into_parts();
        self.registry.connect(&ctx, verb, passed).await
    }

    async fn dispatch_resource(&self, request: ResourceRequest<'_>) -> Result<HttpResponse, Rejection> {
        let (observer, ctx, verb) = request.into_parts();
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
            _ if verb.is_write() => self.write(ctx, verb, work, observer.take_seats()).await,
            Some(work) => {
                let registry = Arc::clone(&self.registry);
                work.run(async move { run_verb(&registry, &ctx, verb).await })
                    .await?
            }
            None => run_verb(&self.registry, &ctx, verb).await,
        };
        Ok(answer?)
    }

    /// Runs a write. It continues when its client disconnects or times out: it stops between two stages or is stored, but is
    /// never interrupted half way. It keeps its seats.
    async fn write(
        &self,
        ctx: RequestContext,
        verb: Verb,
        work: Option<WorkPermit>,
        permit: Option<InflightPermit>,
    ) -> Result<HttpResponse, Status> {
        let registry = Arc::clone(&self.registry);
        let write = Box::pin(async move { run_verb(&registry, &ctx, verb).await });
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

async fn run_verb(registry: &Registry, ctx: &RequestContext, verb: Verb) -> Result<HttpResponse, Status> {
    if let Some(answer) = registry.special(ctx, verb).await {
        return answer;
    }
    match verb {
        Verb::Get => registry.get(ctx).await,
        Verb::List => {
            let options = ListOptions::read(&ctx.query, false)?;
            registry.list(ctx, &options).await
        }
        Verb::Watch => {
            let options = ListOptions::read(&ctx.query, true)?;
            registry.watch(ctx, &options).await
        }
        Verb::Create => registry.create(ctx).await,
        Verb::Update => registry.update(ctx).await,
        Verb::Patch => registry.patch(ctx).await,
        Verb::Delete => registry.delete(ctx).await,
        Verb::DeleteCollection => registry.delete_collection(ctx).await,
    }
}
