//! The stage that reads what a request asks for: its verb, the form of its response, and its body.

use std::sync::Arc;

use bytes::Bytes;
use http::header;
use k3_api::{
    status::{GroupResource, Status},
    strategy::User,
    time::Time,
};
use k3_task::Clock;

use super::{
    accept::AcceptedRequest,
    authorize::AuthorizedRequest,
    body::BodyMemory,
    deprecation,
    inflight::LimitClass,
    rejection::Rejection,
    request_head::RequestHead,
    request_observer::RequestObserver,
    verb::{self, Verb},
    watch_limits::WatchLimits,
};
use crate::{
    cache::WatchCaches,
    http::{MediaTypeOffer, NegotiatedMediaType, RequestBody},
    outgoing::ProxyRequest,
    registry::{Cancellation, Connecter, RequestContext, ResourceStorage, RestStorage},
    request::{Route, Target},
};

/// Reads verbs and bodies.
pub(crate) struct DecodeStage {
    caches: Arc<WatchCaches>,
    body_memory: BodyMemory,
    watch_limits: Arc<WatchLimits>,
    clock: Clock,
}

/// A request that can be dispatched.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each request"
)]
pub(super) enum DecodedRequest<'r> {
    /// For a resource or a subresource.
    Resource(ResourceRequest<'r>),
    /// For a connection: a log, a stream, or something that is passed on.
    Connection(Box<ConnectionRequest>),
    /// For a path that is no resource.
    NonResource(NonResourceRequest<'r>),
}

/// A request for a resource, with its body.
pub(super) struct ResourceRequest<'r> {
    observer: &'r mut RequestObserver,
    ctx: RequestContext,
    storage: ResourceStorage,
    verb: Verb,
}

/// A request for a connection. Its body is passed on as it arrives.
pub(super) struct ConnectionRequest {
    ctx: RequestContext,
    connecter: Connecter,
    verb: Verb,
    passed: ProxyRequest,
}

/// A request for a path that is no resource. Its body is not read.
pub(super) struct NonResourceRequest<'r> {
    pub(super) head: &'r RequestHead,
    pub(super) user: User,
    pub(super) body: RequestBody,
    is_below_group: bool,
}

// --- DecodeStage ---

impl DecodeStage {
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        body_memory: BodyMemory,
        watch_limits: Arc<WatchLimits>,
        clock: Clock,
    ) -> Self {
        DecodeStage {
            caches,
            body_memory,
            watch_limits,
            clock,
        }
    }

    pub(super) async fn run<'r>(
        &self,
        request: AuthorizedRequest<'r>,
    ) -> Result<DecodedRequest<'r>, Rejection> {
        let (request, user, annotations) = request.into_parts();
        let deadline = request.deadline();
        let AcceptedRequest {
            head,
            observer,
            route,
            body,
            ..
        } = request;
        let non_resource = |user, body, is_below_group| {
            DecodedRequest::NonResource(NonResourceRequest {
                head,
                user,
                body,
                is_below_group,
            })
        };
        let target = match route {
            Route::Resource(target) => target,
            Route::Missing(kind, name) => {
                let resource = GroupResource::new(&kind.group, &kind.plural);
                return Err(Status::not_found(resource, &name).into());
            }
            Route::Nowhere => return Ok(non_resource(user, body, true)),
            Route::Other => return Ok(non_resource(user, body, false)),
        };
        let verb = decode_verb(head, &target)?;
        let storage = RestStorage::of(&target);
        let accepted = match head.accepted(media_type_offer(verb, &target)) {
            // What is passed on looks as others like.
            Err(_) if storage.is_connecter() => NegotiatedMediaType::default(),
            accepted => accepted?,
        };
        if verb == Verb::Watch {
            observer.hold_watch(self.watch_limits.acquire(&user)?);
        }
        let class = LimitClass::of(&user);
        let context = |body: Bytes, body_memory| RequestContext {
            target,
            query: head.query.clone(),
            user,
            agent: head.text(&header::USER_AGENT).to_owned(),
            media: head.text(&header::CONTENT_TYPE).to_owned(),
            body,
            accepted,
            now: Time::from(self.clock.system_time()),
            deadline,
            notes: annotations,
            cancellation: Cancellation::default(),
            body_memory,
        };
        match storage {
            RestStorage::Resource(storage) => {
                let (body, memory) = self.body_memory.read(body, &head.headers, class).await?;
                let ctx = context(body, memory);
                self.observe(&ctx, observer);
                Ok(DecodedRequest::Resource(ResourceRequest {
                    observer,
                    ctx,
                    storage,
                    verb,
                }))
            }
            RestStorage::Connect(connecter) => {
                let passed = head.passed(body);
                let ctx = context(Bytes::new(), None);
                self.observe(&ctx, observer);
                let request = ConnectionRequest {
                    ctx,
                    connecter,
                    verb,
                    passed,
                };
                Ok(DecodedRequest::Connection(Box::new(request)))
            }
        }
    }

    fn observe(&self, ctx: &RequestContext, observer: &mut RequestObserver) {
        observer.log_request_object(&ctx.body, &ctx.media);
        observer.warn(deprecation::of(&ctx.target.kind, self.caches.definitions()));
    }
}

/// The verb of a request for a resource.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers
fn decode_verb(head: &RequestHead, target: &Target) -> Result<Verb, Rejection> {
    let is_custom = target.kind.strategy.is_some();
    let everywhere = target.kind.is_namespaced() && target.namespace.is_empty();
    if is_custom && everywhere && !head.is_read() {
        return Err(Rejection::path_not_found());
    }
    let verb = Verb::of(head, target)?;
    // If router and `RequestInfo` differed, a request could be authorized as something else.
    if !head.info.means(target, verb.word()) {
        return Err(verb::not_allowed().into());
    }
    Ok(verb)
}

/// The media types that a response may have.
fn media_type_offer(verb: Verb, target: &Target) -> MediaTypeOffer {
    let is_custom = target.kind.strategy.is_some();
    match verb {
        Verb::List | Verb::Watch if is_custom => MediaTypeOffer::CustomCollection,
        Verb::List | Verb::Watch => MediaTypeOffer::Collection,
        // A scale is no custom object.
        _ if is_custom && target.part() != "scale" => MediaTypeOffer::CustomObject,
        _ => MediaTypeOffer::Object,
    }
}

// --- ResourceRequest ---

impl<'r> ResourceRequest<'r> {
    pub(super) fn into_parts(self) -> (&'r mut RequestObserver, RequestContext, ResourceStorage, Verb) {
        (self.observer, self.ctx, self.storage, self.verb)
    }
}

// --- ConnectionRequest ---

impl ConnectionRequest {
    pub(super) fn into_parts(self) -> (RequestContext, Connecter, Verb, ProxyRequest) {
        (self.ctx, self.connecter, self.verb, self.passed)
    }
}

// --- NonResourceRequest ---

impl NonResourceRequest<'_> {
    /// Whether the path names a group and version, but no resource in it.
    pub(super) fn is_below_group(&self) -> bool {
        self.is_below_group
    }
}
