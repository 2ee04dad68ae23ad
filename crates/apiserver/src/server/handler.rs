//! What each request goes through.

use std::{
    net::SocketAddr,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k3_api::{rules::User, status::Status};

use super::{
    deprecation, health, metrics,
    verb::{self, Verb},
};
use crate::{
    Config, authn,
    authz::Identity,
    custom::PREFIX,
    discovery::{self, Discovery, Group},
    http::{self as web, Accepted, Answer, Format, Offer},
    openapi::OpenApi,
    registry::{Ask, Notes, Registry, warn},
    request::{Info, ListOptions, Query, Route, Target, route},
};

/// The longest body.
const MOST_BYTES: usize = 3 * 1024 * 1024;

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
}

/// Who is at the other end of a connection.
pub(super) struct Peer {
    /// The certificate it showed, verified, as DER.
    pub certificate: Option<Vec<u8>>,
}

/// A request that was found to be allowed.
struct Allowed {
    /// Who it is answered for, and who made it.
    identity: Identity,
    /// What was asked about.
    info: Info,
    /// Why it is allowed.
    reason: String,
}

/// What a request says of itself, beside path and body.
struct Head {
    method: Method,
    path: String,
    query: Query,
    headers: HeaderMap,
    pretty: bool,
}

// --- Handler ---

impl Handler {
    pub(super) fn new(config: Config, registry: Arc<Registry>) -> Self {
        let discovery = Mutex::new((0, Arc::new(discover(&config, &registry))));
        Handler {
            config,
            registry,
            discovery,
            openapi: Mutex::new((0, Arc::new(OpenApi::new()))),
        }
    }

    /// Ends all watches: their clients will begin them anew, elsewhere or later.
    pub(super) fn end_watches(&self) {
        self.registry.caches.close();
    }

    /// Answers a request, whatever it is.
    pub(super) async fn handle<B>(&self, request: Request<B>, peer: &Peer) -> Answer
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let head = Head::read(&parts);
        let format = head.error_format();
        let answered = AssertUnwindSafe(self.answer(&head, body, peer));
        let answer = match futures_util::FutureExt::catch_unwind(answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) => web::status(&status, format, head.pretty),
            Err(_) => {
                tracing::error!(method = %head.method, path = head.path, "a request panicked");
                let why = "This request caused apiserver to panic. Look in the logs for details.";
                web::status(&Status::internal_error(why), format, head.pretty)
            }
        };
        finish(answer, &head)
    }

    async fn answer<B>(&self, head: &Head, body: B, peer: &Peer) -> Result<Answer, Status>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let user = self.authenticate(head, peer)?;
        let authorizer = &self.registry.authorizer;
        let info = Info::read(&head.method, &head.path, &head.query);
        let identity = authorizer.impersonate(user, &head.headers, &info)?;
        let reason = authorizer.require(&info.action(&identity.user))?;
        match route(&head.path, self.registry.caches.definitions()) {
            Route::Resource(target) => {
                let allowed = Allowed {
                    identity,
                    info,
                    reason,
                };
                self.resource(head, target, allowed, body).await
            }
            Route::Nowhere => self.nowhere(head),
            Route::Other => self.document(head).await,
        }
    }

    fn authenticate(&self, head: &Head, peer: &Peer) -> Result<User, Status> {
        let refused = || Status::unauthorized("Unauthorized");
        if let Some(certificate) = &peer.certificate {
            match authn::certificate_user(certificate) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, "a client certificate names no user");
                    return Err(refused());
                }
            }
        }
        match head.bearer() {
            Some(token) => self.config.tokens.user(token).cloned().ok_or_else(refused),
            None if self.config.anonymous => Ok(authn::anonymous()),
            None => Err(refused()),
        }
    }

    async fn resource<B>(
        &self,
        head: &Head,
        target: Target,
        allowed: Allowed,
        body: B,
    ) -> Result<Answer, Status>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let watches = head.query.flag("watch").unwrap_or_default();
        let verb = Verb::of(&head.method, &target, watches)?;
        // Two readers of one path that differ would let somebody do what they were not asked about.
        if !allowed.info.means(&target, verb.word()) {
            return Err(verb::not_allowed());
        }
        let is_custom = target.kind.rules.is_some();
        let offer = match verb {
            Verb::List | Verb::Watch if is_custom => Offer::CustomCollection,
            Verb::List | Verb::Watch => Offer::Collection,
            // A scale is no custom object.
            _ if is_custom && target.part() != "scale" => Offer::CustomObject,
            _ => Offer::Object,
        };
        let accepted = head.accepted(offer)?;
        let body = read_body(body).await?;
        let ask = Ask {
            target,
            query: head.query.clone(),
            user: allowed.identity.user,
            impersonator: allowed.identity.impersonator,
            agent: head.text(&header::USER_AGENT).to_owned(),
            media: head.text(&header::CONTENT_TYPE).to_owned(),
            body,
            accepted,
            now: self.registry.now(),
            notes: Notes::default(),
        };
        ask.notes.add("authorization.k8s.io/decision", "allow");
        ask.notes.add("authorization.k8s.io/reason", allowed.reason);
        let mut answer = self.run(&ask, verb).await?;
        if let Some(warning) = deprecation::of(&ask.target.kind, self.registry.caches.definitions()) {
            warn(&mut answer, &[warning]);
        }
        Ok(answer)
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
        let store = self.registry.caches.store();
        if let Some(answer) = health::answer(&head.path, &head.query, store.as_ref()).await {
            return Ok(answer);
        }
        if head.path == "/metrics" {
            let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
            return Ok(web::answer(200, media, metrics::text(&self.registry.caches)));
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
        let document = match head.path.as_str() {
            "/" => discovery.index(&PATHS),
            "/version" | "/version/" => discovery::version(),
            "/.well-known/openid-configuration" => {
                let (address, port) = self.config.advertise;
                self.registry
                    .signer
                    .configuration(&SocketAddr::new(address, port).to_string())
            }
            "/openid/v1/jwks" => {
                let media = "application/jwk-set+json";
                if !accept.is_empty() && !accept.contains("*/*") && !accept.contains(media) {
                    return Err(web::refused(&[media]));
                }
                let keys = self.registry.signer.key_set().to_string();
                return Ok(web::answer(200, media, keys));
            }
            _ => return self.nowhere(head),
        };
        Ok(web::json(
            200,
            document.to_string().into_bytes(),
            Format::Json,
            true,
        ))
    }

    /// The answer to a path that leads to nothing: within a group that is there a `Status`, else a text.
    fn nowhere(&self, head: &Head) -> Result<Answer, Status> {
        let group = head.path.split('/').take(3).collect::<Vec<_>>().join("/");
        if head.path.starts_with("/api/") || self.discovery().legacy(&group).is_some() {
            return Err(verb::not_found());
        }
        Ok(web::text(404, "404 page not found\n"))
    }
}

/// What there is to ask for.
fn discover(config: &Config, registry: &Registry) -> Discovery {
    let (address, port) = config.advertise;
    let mut groups = Group::builtin();
    Group::add_custom(&mut groups, registry.caches.definitions());
    Discovery::new(groups, SocketAddr::new(address, port).to_string())
}

/// Reads a body, up to the limit.
async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, MOST_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::request_entity_too_large(format!("limit is {MOST_BYTES}")))
        }
        Err(error) => Err(Status::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
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
        let agent = parts
            .headers
            .get(header::USER_AGENT)
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        let is_read_by_people = ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|program| agent.starts_with(program));
        let pretty = match query.text("pretty") {
            "" => is_read_by_people,
            said => matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        };
        Head {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query,
            headers: parts.headers.clone(),
            pretty,
        }
    }

    /// A header; empty if it is not there or not text.
    fn text(&self, name: &header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The token of an `Authorization: Bearer` header.
    fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.text(&header::AUTHORIZATION).split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
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
