//! What each request goes through.

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
use tokio::{sync::Notify, time};

use super::{
    annex::{Annex, Setting},
    asked,
    body::{BodyMemory, Unread},
    deprecation,
    exchange::{Exchange, is_connection},
    health,
    inflight::{self, Permit, Pools},
    issuer,
    request_id::RequestIds,
    time_limit,
    verb::{self, Verb},
    watchers::Watchers,
    work_pool::{self, WorkPermit, WorkPool},
    writers::Writers,
};
use crate::{
    Config, NodeClient,
    audit::Auditor,
    authn::{BadSigningKey, Credentials, Peer, PublicKey, is_kubectl_refusal},
    authz::Identity,
    custom::PREFIX,
    discovery::{self, Discovery, Group},
    http::{self as web, Accepted, Answer, Format, Offer, Sent},
    openapi::OpenApi,
    outgoing::Passed,
    registry::{Ask, Cancellation, Registry, warn},
    request::{Info, ListOptions, Query, Route, Target, route},
    usage::{Asked, Usage},
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

/// What answers requests.
pub(super) struct Handler {
    config: Config,
    registry: Arc<Registry>,
    discovery: Mutex<(u64, Arc<Discovery>)>,
    openapi: Mutex<(u64, Arc<OpenApi>)>,
    ids: RequestIds,
    pools: Pools,
    body_memory: BodyMemory,
    work_pool: WorkPool,
    watchers: Arc<Watchers>,
    writers: Writers,
    auditor: Option<Arc<Auditor>>,
    pub(super) annex: Annex,
    /// `None` if what nodes and pods use is not shown.
    usage: Option<Usage>,
}

/// What a request says of itself, beside its body.
pub(super) struct Head {
    /// What it wants, as authorization sees it.
    pub info: Info,
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
    /// The connection, if it can become something else than HTTP, until somebody takes it.
    upgrade: Mutex<Option<OnUpgrade>>,
}

// --- Handler ---

impl Handler {
    pub(super) fn new(config: Config, registry: Arc<Registry>, auditor: Option<Arc<Auditor>>) -> Self {
        let discovery = Mutex::new((0, Arc::new(discover(&config, &registry))));
        let limits = config.limits;
        let usage = config
            .usage
            .then(|| Usage::new(Arc::clone(&registry.caches), Arc::clone(&registry.nodes)));
        Handler {
            config,
            discovery,
            openapi: Mutex::new((0, Arc::new(OpenApi::new()))),
            ids: RequestIds::new(),
            pools: Pools::new(limits.reads, limits.writes, Arc::clone(&registry.metrics)),
            body_memory: BodyMemory::new(),
            work_pool: WorkPool::new(),
            watchers: Watchers::new(limits.watches_per_user),
            writers: Writers::default(),
            auditor,
            annex: Annex::default(),
            usage,
            registry,
        }
    }

    /// Ends all watches: their clients will begin them anew, elsewhere or later.
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
        self.writers.end(patience).await;
    }

    /// A client did not get as far as a request.
    pub(super) fn no_tls(&self) {
        self.registry.metrics.tls_errors.count();
    }

    /// Answers a request, whatever it is. When its connection is not to be used again, that is told to `end`.
    pub(super) async fn handle(
        self: &Arc<Self>,
        request: Request<Sent>,
        peer: &Peer,
        end: &Notify,
    ) -> Answer {
        let (mut parts, body) = request.into_parts();
        let mut head = Head::read(&parts);
        head.peer = peer.address.map(|address| address.ip());
        head.upgrade = Mutex::new(parts.extensions.remove());
        // First of all: what a path leads to depends on what is stored.
        let recent = self.registry.ensure_recent(&head.path).await;
        let place = route(&head.path, self.registry.caches.definitions());
        let mut exchange = Exchange::begin(self.ids.of(&head.headers), &head, &place, &self.registry.metrics);
        let unread = Unread::default();
        let body = unread.keep(body);
        let answered = match recent {
            Ok(()) => self.limited(&head, place, body, peer, &mut exchange).await,
            Err(status) => Err(status),
        };
        let mut answer = match answered {
            Ok(answer) => answer,
            // As text: kubectl shows the message of a Status only for resources, and it asks for discovery first.
            Err(status) if is_kubectl_refusal(&status) => web::text(status.code, status.message.clone()),
            Err(status) => web::status(&status, head.error_format(), head.pretty),
        };
        unread.discard(&head.headers).await;
        if let Some(warning) = exchange.warning.take() {
            warn(&mut answer, &[warning]);
        }
        // A connection that many requests can share at no cost to the client is only for those who are known.
        if head.version == Version::HTTP_2 && !exchange.is_known {
            end.notify_one();
        }
        finish(exchange.answered(answer), &head)
    }

    /// Answers a request in the time that it has, and if need be that it failed.
    async fn limited(
        self: &Arc<Self>,
        head: &Head,
        place: Route,
        body: Sent,
        peer: &Peer,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let end = if exchange.is_long {
            None
        } else {
            let limit = time_limit::of(head.query.text("timeout"), self.config.limits.request_time)
                .inspect_err(|status| self.refused(head, peer, exchange, status.code, &status.message))?;
            Some(exchange.began + limit)
        };
        let answered = AssertUnwindSafe(self.answer(head, place, body, peer, exchange)).catch_unwind();
        let answered = match end {
            None => Ok(answered.await),
            Some(end) => time::timeout_at(end, answered).await,
        };
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => {
                let why = web::panic_text(&*panic);
                tracing::error!(method = %head.method, path = head.path, id = ?exchange.id, why, "a request panicked");
                exchange.panicked(why);
                let told = "This request caused apiserver to panic. Look in the logs for details.";
                Err(Status::internal_error(told))
            }
            Err(_) => {
                exchange.timed_out();
                Err(time_limit::over())
            }
        }
    }

    async fn answer(
        self: &Arc<Self>,
        head: &Head,
        place: Route,
        body: Sent,
        peer: &Peer,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let credentials = Credentials {
            headers: &head.headers,
            path: &head.path,
            host: &head.host,
            peer,
            now: self.registry.now(),
        };
        let known = self.registry.authenticator.authenticate(&credentials).await;
        let known = known.inspect_err(|status| {
            exchange.asked_by_nobody();
            self.refused(head, peer, exchange, status.code, &asked::attempts(head, peer));
        })?;
        let mut answer = self
            .answer_to(head, place, body, (peer, known.user), exchange)
            .await?;
        if let Some(warning) = known.warning {
            warn(&mut answer, &[warning.to_owned()]);
        }
        Ok(answer)
    }

    async fn answer_to(
        self: &Arc<Self>,
        head: &Head,
        place: Route,
        body: Sent,
        (peer, user): (&Peer, User),
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        exchange.asked_by(&user);
        self.write_down(head, peer, &user, exchange);
        if !exchange.is_long && !health::is_asked_for(&head.path) {
            let writes = !matches!(head.method, Method::GET | Method::HEAD);
            match self.pools.enter(writes, &user) {
                Some(permit) => exchange.permit = Some(permit),
                None => return Ok(too_many(exchange)),
            }
        }
        let authorizer = &self.registry.authorizer;
        let identity = authorizer.impersonate(user, &head.headers, &head.info)?;
        exchange.acts_as(&identity);
        let decision = authorizer.require(&head.info.action(&identity.user));
        exchange.decided(&decision);
        decision?;
        match place {
            Route::Resource(target) => self.resource(head, target, identity, body, exchange).await,
            Route::Missing(kind, name) => {
                let resource = GroupResource::new(&kind.group, &kind.plural);
                Err(Status::not_found(resource, &name))
            }
            Route::Nowhere => match (&self.usage, Asked::read(&head.path)) {
                (Some(usage), Some(asked)) => self.usage(head, usage, &asked).await,
                _ => self.nowhere(head),
            },
            Route::Other => match self.annex.setting(&head.path) {
                Some(setting) if !setting.is_open_to(&identity.user) => Err(Status::forbidden(
                    GroupResource::new("", ""),
                    "",
                    "only members of system:masters may use this path",
                )),
                Some(setting) => self.setting(head, &setting, body).await,
                None => self.document(head).await,
            },
        }
    }

    /// Shows a setting of the process, or changes it.
    async fn setting(&self, head: &Head, setting: &Setting, body: Sent) -> Result<Answer, Status> {
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

    /// What nodes and pods use.
    async fn usage(&self, head: &Head, usage: &Usage, asked: &Asked<'_>) -> Result<Answer, Status> {
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

    /// Begins to write a request down, if it is to be.
    fn write_down(&self, head: &Head, peer: &Peer, user: &User, exchange: &mut Exchange) {
        if let Some(auditor) = &self.auditor {
            let id = exchange.id.to_str().unwrap_or_default();
            let now = self.registry.now();
            exchange.record = auditor.begin(asked::asked(head, peer, id, Some(user), now));
        }
        if let Some(record) = &mut exchange.record {
            record.note(&exchange.notes);
        }
    }

    /// Writes down a request that got no further than the door.
    fn refused(&self, head: &Head, peer: &Peer, exchange: &Exchange, code: u16, why: &str) {
        if let Some(auditor) = &self.auditor {
            let id = exchange.id.to_str().unwrap_or_default();
            let asked = asked::asked(head, peer, id, None, self.registry.now());
            auditor.refused(asked, code, why.to_owned());
        }
    }

    async fn resource(
        self: &Arc<Self>,
        head: &Head,
        target: Target,
        identity: Identity,
        body: Sent,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let is_custom = target.kind.strategy.is_some();
        let everywhere = target.kind.is_namespaced() && target.namespace.is_empty();
        if is_custom && everywhere && !matches!(head.method, Method::GET | Method::HEAD) {
            return Ok(no_page());
        }
        let watches = head.query.flag("watch").unwrap_or_default();
        let verb = Verb::of(&head.method, &target, watches)?;
        // Two readers of one path that differ would let somebody do what they were not asked about.
        if !head.info.means(&target, verb.word()) {
            return Err(verb::not_allowed());
        }
        let offer = match verb {
            Verb::List | Verb::Watch if is_custom => Offer::CustomCollection,
            Verb::List | Verb::Watch => Offer::Collection,
            // A scale is no custom object.
            _ if is_custom && target.part() != "scale" => Offer::CustomObject,
            _ => Offer::Object,
        };
        let accepted = match head.accepted(offer) {
            // What is passed on looks as others like.
            Err(_) if is_connection(target.part()) => Accepted::default(),
            accepted => accepted?,
        };
        if verb == Verb::Watch {
            exchange.seat = Some(self.watchers.sit(&identity.user)?);
        }
        let media = head.text(&header::CONTENT_TYPE).to_owned();
        let is_exempt = inflight::is_exempt(&identity.user);
        let (body, body_memory, passed) = if is_connection(target.part()) {
            (Bytes::new(), None, Some(head.passed(body)))
        } else {
            let (body, memory) = self.body_memory.read(body, &head.headers, is_exempt).await?;
            (body, memory, None)
        };
        if let Some(record) = &mut exchange.record {
            record.sent(&body, &media);
        }
        let ask = Ask {
            target,
            query: head.query.clone(),
            user: identity.user,
            agent: head.text(&header::USER_AGENT).to_owned(),
            media,
            body,
            accepted,
            now: self.registry.now(),
            notes: exchange.notes.clone(),
            cancellation: Cancellation::default(),
            body_memory,
        };
        exchange.warning = deprecation::of(&ask.target.kind, self.registry.caches.definitions());
        if let Some(passed) = passed {
            return self.registry.connect(&ask, verb, passed).await;
        }
        let cost = self.registry.cost(&ask, verb);
        if let Some(permit) = &mut exchange.permit
            && !self
                .pools
                .widen(permit, inflight::seats(cost.objects, cost.bytes), &ask.user)
        {
            return Ok(too_many(exchange));
        }
        let work = if cost.bytes < work_pool::LARGE {
            None
        } else {
            Some(self.work_pool.enter(cost.bytes, is_exempt).await?)
        };
        let _cancel = ask.cancellation.on_drop();
        match work {
            _ if verb.is_write() => self.write(ask, verb, work, exchange.permit.take()).await,
            Some(work) => {
                let handler = Arc::clone(self);
                work.run(async move { handler.run(&ask, verb).await }).await?
            }
            None => self.run(&ask, verb).await,
        }
    }

    /// Carries out a write. It goes on when its client leaves or its time is over: it stops between two stages, or is stored, but is
    /// never cut off half way. It keeps its seats.
    async fn write(
        self: &Arc<Self>,
        ask: Ask,
        verb: Verb,
        work: Option<WorkPermit>,
        permit: Option<Permit>,
    ) -> Result<Answer, Status> {
        let handler = Arc::clone(self);
        let write = Box::pin(async move { handler.run(&ask, verb).await });
        let done = self.writers.begin(async move {
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

    async fn run(&self, ask: &Ask, verb: Verb) -> Result<Answer, Status> {
        if let Some(answer) = self.registry.special(ask, verb).await {
            return answer;
        }
        match verb {
            Verb::Get => self.registry.get(ask).await,
            Verb::List => {
                let options = ListOptions::read(&ask.query, false)?;
                self.registry.list(ask, &options).await
            }
            Verb::Watch => {
                let options = ListOptions::read(&ask.query, true)?;
                self.registry.watch(ask, &options).await
            }
            Verb::Create => self.registry.create(ask).await,
            Verb::Update => self.registry.update(ask).await,
            Verb::Patch => self.registry.patch(ask).await,
            Verb::Delete => self.registry.delete(ask).await,
            Verb::DeleteCollection => self.registry.delete_collection(ask).await,
        }
    }

    /// What there is to ask for, as of now.
    fn discovery(&self) -> Arc<Discovery> {
        let generation = self.registry.caches.definitions().generation();
        let mut known = self.discovery.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != generation {
            *known = (generation, Arc::new(discover(&self.config, &self.registry)));
        }
        Arc::clone(&known.1)
    }

    /// What it looks like, as of now.
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

    /// What the server says of itself.
    async fn document(&self, head: &Head) -> Result<Answer, Status> {
        let caches = &self.registry.caches;
        let metrics = &self.registry.metrics;
        if let Some(answer) = health::answer(&head.path, &head.query, caches, metrics).await {
            return Ok(answer);
        }
        let figures = match head.path.as_str() {
            "/metrics" => Some(self.annex.figures(metrics.text(&self.registry.caches))),
            "/metrics/slis" => Some(metrics.slis()),
            _ => None,
        };
        if let Some(figures) = figures {
            let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
            return Ok(web::answer(200, media, figures));
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
            path => match self.annex.document(path) {
                Some(document) => document.await,
                None => return self.nowhere(head),
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
    fn nowhere(&self, head: &Head) -> Result<Answer, Status> {
        let path: Vec<_> = head.path.split('/').take(3).collect();
        let is_served = head.path.starts_with("/api/") || self.discovery().legacy(&path.join("/")).is_some();
        if is_served && !self.is_custom(path.last().unwrap_or(&"")) {
            return Err(verb::not_found());
        }
        Ok(no_page())
    }

    /// Whether a group has custom kinds and no others.
    fn is_custom(&self, group: &str) -> bool {
        let definitions = self.registry.caches.definitions().all();
        let mut definitions = definitions.values();
        definitions.any(|served| served.definition.group == group)
            && !builtin().all().iter().any(|kind| kind.group == group)
    }
}

/// The answer to a path that leads to nothing the server knows of.
fn no_page() -> Answer {
    web::text(404, "404 page not found\n")
}

/// The answer when too many requests are being served.
fn too_many(exchange: &Exchange) -> Answer {
    exchange.refused();
    let mut answer = web::text(429, "Too many requests, please try again later.\n");
    web::set(&mut answer, header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// What there is to ask for.
fn discover(config: &Config, registry: &Registry) -> Discovery {
    let (address, port) = config.advertise;
    let mut groups = Group::builtin();
    Group::add_custom(&mut groups, registry.caches.definitions());
    if config.usage {
        groups.push(Group::usage());
    }
    Discovery::new(groups, SocketAddr::new(address, port).to_string())
}

/// What every answer carries.
fn finish(mut answer: Answer, head: &Head) -> Answer {
    let headers = answer.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
    }
    if head.method == Method::HEAD {
        *answer.body_mut() = web::Body::Empty;
    }
    web::compress(answer, &head.headers)
}

// --- Head ---

impl Head {
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
        Head {
            info: Info::read(&parts.method, parts.uri.path(), &query),
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
    fn passed(&self, body: Sent) -> Passed {
        Passed {
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

    fn accepted(&self, offer: Offer) -> Result<Accepted, Status> {
        web::negotiate(self.text(&header::ACCEPT), offer, self.pretty)
    }

    /// The format of an answer that something went wrong: the one that was asked for, if that can be told.
    fn error_format(&self) -> Format {
        self.accepted(Offer::Object)
            .map_or(Format::Json, |accepted| accepted.format)
    }
}
