//! The handler chain of a request: authentication, audit, limits, impersonation, authorization, routing.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Request, Version, header};
use hyper::upgrade::OnUpgrade;
use k3_api::{
    kinds::builtin,
    status::{GroupResource, Status},
    strategy::User,
};
use k3_task::panic_message;
use tokio::{sync::Notify, time};

use super::{
    audit_attributes,
    body::{BodyMemory, UnreadBody},
    deprecation,
    extra_endpoints::{ExtraEndpoints, ProcessSetting},
    health,
    inflight::{self, InflightLimits, InflightPermit},
    issuer,
    request_id::RequestIds,
    request_observer::{RequestObserver, is_connection},
    time_limit,
    verb::{self, Verb},
    watch_limits::WatchLimits,
    work_pool::{self, WorkPermit, WorkPool},
    write_tasks::WriteTasks,
};
use crate::{
    Config, NodeClient,
    audit::Auditor,
    authn::{BadSigningKey, ConnectionPeer, Credentials, PublicKey, is_kubectl_rejection},
    authz::RequestIdentity,
    custom::PREFIX,
    discovery::{self, Discovery, DiscoveryGroup},
    http::{self as web, Format, HttpResponse, MediaTypeOffer, NegotiatedMediaType, RequestBody},
    openapi::OpenApi,
    outgoing::ProxyRequest,
    registry::{Cancellation, Registry, RequestContext, warn},
    request::{ListOptions, Query, RequestInfo, Route, Target, route},
    usage::{ResourceMetrics, UsageRequest},
};

/// Paths that are neither resources nor discovery.
const PATHS: [&str; 8] = [
    "/healthz",
    "/livez",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
    "/.well-known/openid-configuration",
];

/// Handles all requests.
pub(super) struct RequestHandler {
    config: Config,
    registry: Arc<Registry>,
    discovery: Mutex<(u64, Arc<Discovery>)>,
    openapi: Mutex<(u64, Arc<OpenApi>)>,
    ids: RequestIds,
    inflight: InflightLimits,
    body_memory: BodyMemory,
    work_pool: WorkPool,
    watch_limits: Arc<WatchLimits>,
    write_tasks: WriteTasks,
    auditor: Option<Arc<Auditor>>,
    pub(super) extra_endpoints: ExtraEndpoints,
    /// `None` if what nodes and pods use is not shown.
    usage: Option<ResourceMetrics>,
}

/// A request without its body.
pub(super) struct RequestHead {
    /// What it wants, as authorization sees it.
    pub info: RequestInfo,
    pub method: Method,
    pub path: String,
    /// Path and query, as they were sent.
    pub uri: String,
    /// The host that is asked, perhaps with a port.
    pub host: String,
    pub query: Query,
    pub headers: HeaderMap,
    version: Version,
    pretty: bool,
    /// Where it came from.
    peer: Option<IpAddr>,
    /// The connection, if it can be upgraded, until it is taken.
    upgrade: Mutex<Option<OnUpgrade>>,
}

// --- RequestHandler ---

impl RequestHandler {
    pub(super) fn new(config: Config, registry: Arc<Registry>, auditor: Option<Arc<Auditor>>) -> Self {
        let discovery = Mutex::new((0, Arc::new(discover(&config, &registry))));
        let limits = config.limits;
        let usage = config
            .usage
            .then(|| ResourceMetrics::new(Arc::clone(&registry.caches), Arc::clone(&registry.nodes)));
        RequestHandler {
            config,
            discovery,
            openapi: Mutex::new((0, Arc::new(OpenApi::new()))),
            ids: RequestIds::new(),
            inflight: InflightLimits::new(limits.reads, limits.writes, Arc::clone(&registry.metrics)),
            body_memory: BodyMemory::new(),
            work_pool: WorkPool::new(),
            watch_limits: WatchLimits::new(limits.watches_per_user),
            write_tasks: WriteTasks::default(),
            auditor,
            extra_endpoints: ExtraEndpoints::default(),
            usage,
            registry,
        }
    }

    /// Ends all watches: clients restart them elsewhere or later.
    pub(super) fn end_watches(&self) {
        self.registry.caches.close();
    }

    /// Signs claims with the key of service accounts.
    pub(super) fn sign(&self, claims: &serde_json::Value) -> String {
        self.registry.authenticator.signer().sign(claims)
    }

    pub(super) fn replace_keys(&self, signing_key: &[u8], more: &[PublicKey]) -> Result<(), BadSigningKey> {
        self.registry.authenticator.replace_keys(signing_key, more)
    }

    pub(super) fn replace_node_client(&self, client: &NodeClient) -> Result<(), String> {
        self.registry.nodes.replace_client(client)
    }

    /// Waits for the writes that are under way.
    pub(super) async fn end_writes(&self, patience: Duration) {
        self.write_tasks.end(patience).await;
    }

    /// A client did not get as far as a request.
    pub(super) fn no_tls(&self) {
        self.registry.metrics.tls_errors.count();
    }

    /// Handles a request. `end` is notified when the connection must not be reused.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/config.go DefaultBuildHandlerChain; the order of the filters: request info, audit ID, panic recovery
    pub(super) async fn handle(
        self: &Arc<Self>,
        request: Request<RequestBody>,
        peer: &ConnectionPeer,
        end: &Notify,
    ) -> HttpResponse {
        let (mut parts, body) = request.into_parts();
        let mut head = RequestHead::read(&parts);
        head.peer = peer.address.map(|address| address.ip());
        head.upgrade = Mutex::new(parts.extensions.remove());
        // Before routing: which resources exist depends on the stored CustomResourceDefinitions.
        let recent = self.registry.ensure_recent(&head.path).await;
        let route = route(&head.path, self.registry.caches.definitions());
        let mut observer =
            RequestObserver::begin(self.ids.of(&head.headers), &head, &route, &self.registry.metrics);
        let unread = UnreadBody::default();
        let body = unread.keep(body);
        let answered = match recent {
            Ok(()) => {
                self.handle_with_timeout(&head, route, body, peer, &mut observer)
                    .await
            }
            Err(status) => Err(status),
        };
        let mut answer = match answered {
            Ok(answer) => answer,
            // As text: kubectl shows the message of a Status only for resources, and it asks for discovery first.
            Err(status) if is_kubectl_rejection(&status) => web::text(status.code, status.message.clone()),
            Err(status) => web::status(&status, head.error_format(), head.pretty),
        };
        unread.discard(&head.headers).await;
        if let Some(warning) = observer.warning.take() {
            warn(&mut answer, &[warning]);
        }
        // HTTP/2 multiplexes requests at no cost to the client, so an unauthenticated client could exhaust the server with one
        // connection: it must reconnect instead.
        if head.version == Version::HTTP_2 && !observer.is_authenticated {
            end.notify_one();
        }
        finish(observer.answered(answer), &head)
    }

    /// Handles a request within its timeout; a panic becomes 500, a timeout becomes 504.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/filters/timeout.go WithTimeoutForNonLongRunningRequests
    async fn handle_with_timeout(
        self: &Arc<Self>,
        head: &RequestHead,
        route: Route,
        body: RequestBody,
        peer: &ConnectionPeer,
        observer: &mut RequestObserver,
    ) -> Result<HttpResponse, Status> {
        let end = if observer.is_long {
            None
        } else {
            let limit = time_limit::of(head.query.text("timeout"), self.config.limits.request_time)
                .inspect_err(|status| {
                    self.audit_rejection(head, peer, observer, status.code, &status.message);
                })?;
            Some(observer.began + limit)
        };
        let answered =
            AssertUnwindSafe(self.authenticate_and_handle(head, route, body, peer, observer)).catch_unwind();
        let answered = match end {
            None => Ok(answered.await),
            Some(end) => time::timeout_at(end, answered).await,
        };
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => {
                let why = panic_message(&*panic);
                tracing::error!(method = %head.method, path = head.path, id = ?observer.id, why, "request handler panicked");
                observer.panicked(why);
                let message = "This request caused apiserver to panic. Look in the logs for details.";
                Err(Status::internal_error(message))
            }
            Err(_) => {
                observer.timed_out();
                Err(time_limit::over())
            }
        }
    }

    /// Authenticates a request and handles it.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go WithAuthentication
    async fn authenticate_and_handle(
        self: &Arc<Self>,
        head: &RequestHead,
        route: Route,
        body: RequestBody,
        peer: &ConnectionPeer,
        observer: &mut RequestObserver,
    ) -> Result<HttpResponse, Status> {
        let credentials = Credentials {
            headers: &head.headers,
            path: &head.path,
            host: &head.host,
            peer,
            now: self.registry.now(),
        };
        let known = self.registry.authenticator.authenticate(&credentials).await;
        let known = known.inspect_err(|status| {
            observer.authentication_failed();
            self.audit_rejection(
                head,
                peer,
                observer,
                status.code,
                &audit_attributes::attempts(head, peer),
            );
        })?;
        let mut answer = self
            .authorize_and_route(head, route, body, (peer, known.user), observer)
            .await?;
        if let Some(warning) = known.warning {
            warn(&mut answer, &[warning.to_owned()]);
        }
        Ok(answer)
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/server/config.go DefaultBuildHandlerChain; filters WithAuthentication, WithAudit, WithImpersonation, WithMaxInFlightLimit, WithAuthorization
    async fn authorize_and_route(
        self: &Arc<Self>,
        head: &RequestHead,
        route: Route,
        body: RequestBody,
        (peer, user): (&ConnectionPeer, User),
        observer: &mut RequestObserver,
    ) -> Result<HttpResponse, Status> {
        observer.set_user(&user);
        self.begin_audit(head, peer, &user, observer);
        if !observer.is_long && !health::is_asked_for(&head.path) {
            let writes = !matches!(head.method, Method::GET | Method::HEAD);
            match self.inflight.enter(writes, &user) {
                Some(permit) => observer.permit = Some(permit),
                None => return Ok(too_many_requests(observer)),
            }
        }
        let authorizer = &self.registry.authorizer;
        let identity = authorizer.impersonate(user, &head.headers, &head.info)?;
        observer.acts_as(&identity);
        let decision = authorizer.require(&head.info.action(&identity.user));
        observer.decided(&decision);
        decision?;
        match route {
            Route::Resource(target) => self.handle_resource(head, target, identity, body, observer).await,
            Route::Missing(kind, name) => {
                let resource = GroupResource::new(&kind.group, &kind.plural);
                Err(Status::not_found(resource, &name))
            }
            Route::Nowhere => match (&self.usage, UsageRequest::read(&head.path)) {
                (Some(usage), Some(asked)) => self.handle_resource_metrics(head, usage, &asked).await,
                _ => self.not_found_response(head),
            },
            Route::Other => match self.extra_endpoints.setting(&head.path) {
                Some(setting) if !setting.is_open_to(&identity.user) => Err(Status::forbidden(
                    GroupResource::new("", ""),
                    "",
                    "only members of system:masters may use this path",
                )),
                Some(setting) => self.handle_setting(head, &setting, body).await,
                None => self.handle_non_resource_path(head).await,
            },
        }
    }

    /// Reads or changes a setting of the process.
    async fn handle_setting(
        &self,
        head: &RequestHead,
        setting: &ProcessSetting,
        body: RequestBody,
    ) -> Result<HttpResponse, Status> {
        match head.method {
            Method::GET | Method::HEAD => Ok(web::text(200, format!("{}\n", (setting.get)()))),
            Method::PUT => {
                let (bytes, _memory) = self.body_memory.read(body, &head.headers, false).await?;
                let changed = match std::str::from_utf8(&bytes) {
                    Ok(text) => (setting.set)(text.trim()),
                    Err(_) => Err("it is not UTF-8".to_owned()),
                };
                Ok(match changed {
                    Ok(said) => web::text(200, format!("{said}\n")),
                    Err(why) => web::text(400, format!("{why}\n")),
                })
            }
            _ => Err(verb::not_allowed()),
        }
    }

    /// Serves `metrics.k8s.io`.
    async fn handle_resource_metrics(
        &self,
        head: &RequestHead,
        usage: &ResourceMetrics,
        asked: &UsageRequest<'_>,
    ) -> Result<HttpResponse, Status> {
        let watches = head.query.flag("watch").unwrap_or_default();
        if !matches!(head.method, Method::GET | Method::HEAD) || watches {
            return Err(verb::not_allowed());
        }
        let tree = usage.answer(asked, &head.query, self.registry.now()).await?;
        let format = match head.error_format() {
            Format::Yaml => Format::Yaml,
            _ => Format::Json,
        };
        Ok(web::json(200, tree.to_string().into_bytes(), format, head.pretty))
    }

    /// Creates the audit context of a request if the audit policy matches it.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit.go WithAudit, evaluatePolicyAndCreateAuditEvent
    fn begin_audit(
        &self,
        head: &RequestHead,
        peer: &ConnectionPeer,
        user: &User,
        observer: &mut RequestObserver,
    ) {
        if let Some(auditor) = &self.auditor {
            let id = observer.id.to_str().unwrap_or_default();
            let now = self.registry.now();
            observer.audit_context = auditor.begin(audit_attributes::audit_attributes(
                head,
                peer,
                id,
                Some(user),
                now,
            ));
        }
        if let Some(audit_context) = &mut observer.audit_context {
            audit_context.set_annotations(&observer.notes);
        }
    }

    /// Audits a request that failed before authentication completed.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authn_audit.go WithFailedAuthenticationAudit
    fn audit_rejection(
        &self,
        head: &RequestHead,
        peer: &ConnectionPeer,
        observer: &RequestObserver,
        code: u16,
        why: &str,
    ) {
        if let Some(auditor) = &self.auditor {
            let id = observer.id.to_str().unwrap_or_default();
            let attributes = audit_attributes::audit_attributes(head, peer, id, None, self.registry.now());
            auditor.audit_authentication_failure(attributes, code, why.to_owned());
        }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go registerResourceHandlers
    async fn handle_resource(
        self: &Arc<Self>,
        head: &RequestHead,
        target: Target,
        identity: RequestIdentity,
        body: RequestBody,
        observer: &mut RequestObserver,
    ) -> Result<HttpResponse, Status> {
        let is_custom = target.kind.strategy.is_some();
        let everywhere = target.kind.is_namespaced() && target.namespace.is_empty();
        if is_custom && everywhere && !matches!(head.method, Method::GET | Method::HEAD) {
            return Ok(path_not_found());
        }
        let watches = head.query.flag("watch").unwrap_or_default();
        let verb = Verb::of(&head.method, &target, watches)?;
        // If router and `RequestInfo` differed, a request could be authorized as something else.
        if !head.info.means(&target, verb.word()) {
            return Err(verb::not_allowed());
        }
        let offer = match verb {
            Verb::List | Verb::Watch if is_custom => MediaTypeOffer::CustomCollection,
            Verb::List | Verb::Watch => MediaTypeOffer::Collection,
            // A scale is no custom object.
            _ if is_custom && target.part() != "scale" => MediaTypeOffer::CustomObject,
            _ => MediaTypeOffer::Object,
        };
        let accepted = match head.accepted(offer) {
            // What is passed on looks as others like.
            Err(_) if is_connection(target.part()) => NegotiatedMediaType::default(),
            accepted => accepted?,
        };
        if verb == Verb::Watch {
            observer.watch_permit = Some(self.watch_limits.acquire(&identity.user)?);
        }
        let media = head.text(&header::CONTENT_TYPE).to_owned();
        let is_exempt = inflight::is_exempt(&identity.user);
        let (body, body_memory, passed) = if is_connection(target.part()) {
            (Bytes::new(), None, Some(head.passed(body)))
        } else {
            let (body, memory) = self.body_memory.read(body, &head.headers, is_exempt).await?;
            (body, memory, None)
        };
        if let Some(audit_context) = &mut observer.audit_context {
            audit_context.log_request_object(&body, &media);
        }
        let ctx = RequestContext {
            target,
            query: head.query.clone(),
            user: identity.user,
            agent: head.text(&header::USER_AGENT).to_owned(),
            media,
            body,
            accepted,
            now: self.registry.now(),
            notes: observer.notes.clone(),
            cancellation: Cancellation::default(),
            body_memory,
        };
        observer.warning = deprecation::of(&ctx.target.kind, self.registry.caches.definitions());
        if let Some(passed) = passed {
            return self.registry.connect(&ctx, verb, passed).await;
        }
        let cost = self.registry.cost(&ctx, verb);
        if let Some(permit) = &mut observer.permit
            && !self
                .inflight
                .widen(permit, inflight::seats(cost.objects, cost.bytes), &ctx.user)
        {
            return Ok(too_many_requests(observer));
        }
        let work = if cost.bytes < work_pool::LARGE {
            None
        } else {
            Some(self.work_pool.enter(cost.bytes, is_exempt).await?)
        };
        let _cancel = ctx.cancellation.on_drop();
        match work {
            _ if verb.is_write() => self.write(ctx, verb, work, observer.permit.take()).await,
            Some(work) => {
                let handler = Arc::clone(self);
                work.run(async move { handler.run(&ctx, verb).await }).await?
            }
            None => self.run(&ctx, verb).await,
        }
    }

    /// Runs a write. It continues when its client disconnects or times out: it stops between two stages or is stored, but is
    /// never interrupted half way. It keeps its seats.
    async fn write(
        self: &Arc<Self>,
        ctx: RequestContext,
        verb: Verb,
        work: Option<WorkPermit>,
        permit: Option<InflightPermit>,
    ) -> Result<HttpResponse, Status> {
        let handler = Arc::clone(self);
        let write = Box::pin(async move { handler.run(&ctx, verb).await });
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

    async fn run(&self, ctx: &RequestContext, verb: Verb) -> Result<HttpResponse, Status> {
        if let Some(answer) = self.registry.special(ctx, verb).await {
            return answer;
        }
        match verb {
            Verb::Get => self.registry.get(ctx).await,
            Verb::List => {
                let options = ListOptions::read(&ctx.query, false)?;
                self.registry.list(ctx, &options).await
            }
            Verb::Watch => {
                let options = ListOptions::read(&ctx.query, true)?;
                self.registry.watch(ctx, &options).await
            }
            Verb::Create => self.registry.create(ctx).await,
            Verb::Update => self.registry.update(ctx).await,
            Verb::Patch => self.registry.patch(ctx).await,
            Verb::Delete => self.registry.delete(ctx).await,
            Verb::DeleteCollection => self.registry.delete_collection(ctx).await,
        }
    }

    /// The discovery documents of the currently served resources.
    fn discovery(&self) -> Arc<Discovery> {
        let generation = self.registry.caches.definitions().generation();
        let mut known = self.discovery.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != generation {
            *known = (generation, Arc::new(discover(&self.config, &self.registry)));
        }
        Arc::clone(&known.1)
    }

    /// The OpenAPI documents of the currently served resources.
    fn openapi(&self) -> Arc<OpenApi> {
        let definitions = self.registry.caches.definitions();
        let generation = definitions.generation();
        let mut known = self.openapi.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != generation {
            *known = (generation, Arc::new(known.1.with(definitions)));
        }
        Arc::clone(&known.1)
    }

    /// A definition as it is stored.
    fn definition(&self, name: &str) -> Option<serde_json::Value> {
        let cache = self.registry.caches.resource(PREFIX);
        Some(cache.get(&format!("{PREFIX}{name}"))?.tree())
    }

    /// Serves non-resource paths: health, metrics, discovery, OpenAPI, issuer discovery and extra endpoints.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/routes/index.go ServeHTTP
    async fn handle_non_resource_path(&self, head: &RequestHead) -> Result<HttpResponse, Status> {
        let caches = &self.registry.caches;
        let metrics = &self.registry.metrics;
        if let Some(answer) = health::answer(&head.path, &head.query, caches, metrics).await {
            return Ok(answer);
        }
        let metrics = match head.path.as_str() {
            "/metrics" => Some(self.extra_endpoints.metrics(metrics.text(&self.registry.caches))),
            "/metrics/slis" => Some(metrics.slis()),
            _ => None,
        };
        if let Some(metrics) = metrics {
            let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
            return Ok(web::answer(200, media, metrics));
        }
        let accept = head.text(&header::ACCEPT);
        let known = head.text(&header::IF_NONE_MATCH);
        let discovery = self.discovery();
        if let Some(answer) = discovery.answer(&head.path, accept, known, head.pretty) {
            return Ok(answer);
        }
        let stored = |name: &str| self.definition(name);
        if let Some(answer) =
            self.openapi()
                .answer(&head.path, head.query.text("hash"), accept, known, &stored)
        {
            return Ok(answer);
        }
        let (address, port) = self.config.advertise;
        let address = SocketAddr::new(address, port);
        if let Some(answer) = issuer::answer(&head.path, accept, &self.registry.authenticator, address) {
            return answer;
        }
        let document = match head.path.as_str() {
            "/" => discovery.index(&PATHS),
            "/version" | "/version/" => discovery::version(),
            path => match self.extra_endpoints.document(path) {
                Some(document) => document.await,
                None => return self.not_found_response(head),
            },
        };
        Ok(web::json(
            200,
            document.to_string().into_bytes(),
            Format::Json,
            true,
        ))
    }

    /// The answer to a path that leads to nothing: within a group that is there a `Status`, else a text. A group that has
    /// nothing but custom kinds is not there for paths that lead to none of them.
    fn not_found_response(&self, head: &RequestHead) -> Result<HttpResponse, Status> {
        let path: Vec<_> = head.path.split('/').take(3).collect();
        let is_served = head.path.starts_with("/api/") || self.discovery().legacy(&path.join("/")).is_some();
        if is_served && !self.is_custom(path.last().unwrap_or(&"")) {
            return Err(verb::not_found());
        }
        Ok(path_not_found())
    }

    /// Whether a group has custom kinds and no others.
    fn is_custom(&self, group: &str) -> bool {
        let definitions = self.registry.caches.definitions().all();
        let mut definitions = definitions.values();
        definitions.any(|served| served.definition.group == group)
            && !builtin().all().iter().any(|kind| kind.group == group)
    }
}

/// 404 for an unknown path, as text.
// upstream: staging/src/k8s.io/apiserver/pkg/server/routes/index.go ServeHTTP; an unknown path is 404 with a text body
fn path_not_found() -> HttpResponse {
    web::text(404, "404 page not found\n")
}

/// The response 429 Too Many Requests when the in-flight limit is reached.
// upstream: staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go tooManyRequests
fn too_many_requests(observer: &RequestObserver) -> HttpResponse {
    observer.refused();
    let mut answer = web::text(429, "Too many requests, please try again later.\n");
    web::set(&mut answer, header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Builds the discovery documents.
fn discover(config: &Config, registry: &Registry) -> Discovery {
    let (address, port) = config.advertise;
    let mut groups = DiscoveryGroup::builtin();
    DiscoveryGroup::add_custom(&mut groups, registry.caches.definitions());
    if config.usage {
        groups.push(DiscoveryGroup::usage());
    }
    Discovery::new(groups, SocketAddr::new(address, port).to_string())
}

/// Adds the headers of every response.
fn finish(mut answer: HttpResponse, head: &RequestHead) -> HttpResponse {
    let headers = answer.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
    }
    if head.method == Method::HEAD {
        *answer.body_mut() = web::ResponseBody::Empty;
    }
    web::compress(answer, &head.headers)
}

// --- RequestHead ---

impl RequestHead {
    fn read(parts: &http::request::Parts) -> Self {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let text = |name| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default()
        };
        let agent = text(header::USER_AGENT);
        let is_read_by_people = ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|program| agent.starts_with(program));
        let pretty = match query.text("pretty") {
            "" => is_read_by_people,
            said => matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        };
        RequestHead {
            info: RequestInfo::read(&parts.method, parts.uri.path(), &query),
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            host: parts.uri.authority().map_or_else(
                || text(header::HOST).to_owned(),
                |authority| authority.as_str().to_owned(),
            ),
            uri: parts
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            query,
            headers: parts.headers.clone(),
            version: parts.version,
            pretty,
            peer: None,
            upgrade: Mutex::default(),
        }
    }

    /// All of it, to be passed on.
    fn passed(&self, body: RequestBody) -> ProxyRequest {
        ProxyRequest {
            method: self.method.clone(),
            headers: self.headers.clone(),
            path: self.path.clone(),
            query: self
                .uri
                .split_once('?')
                .map(|(_, query)| query.to_owned())
                .unwrap_or_default(),
            host: self.host.clone(),
            peer: self.peer,
            upgrade: self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take(),
            body,
        }
    }

    /// A header; empty if it is not there or not text.
    pub(super) fn text(&self, name: &header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    fn accepted(&self, offer: MediaTypeOffer) -> Result<NegotiatedMediaType, Status> {
        web::negotiate(self.text(&header::ACCEPT), offer, self.pretty)
    }

    /// The format of an error response: the negotiated one, if possible.
    fn error_format(&self) -> Format {
        self.accepted(MediaTypeOffer::Object)
            .map_or(Format::Json, |accepted| accepted.format)
    }
}
