//! The endpoints of paths that are no resources.

use std::{net::SocketAddr, sync::Arc};

use http::{Method, header};
use k3_api::{
    kinds::builtin,
    status::{GroupResource, Status},
    time::Time,
};
use k3_task::Clock;
use parking_lot::Mutex;

use super::{
    extra_endpoints::{ExtraEndpoints, ProcessSetting, SettingError},
    health, issuer,
};
use crate::{
    Config,
    authn::Authenticator,
    cache::WatchCaches,
    custom::{DefinitionRegistry, DefinitionsGeneration, PREFIX},
    discovery::{self, Discovery, DiscoveryGroup},
    http::{self as web, Format, HttpResponse, JsonLayout, RequestBody},
    metrics::Metrics,
    openapi::OpenApi,
    pipeline::{
        body::BodyMemory, decode::NonResourceRequest, inflight::LimitClass, rejection::Rejection,
        request_head::RequestHead, verb,
    },
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

/// Answers paths that are no resources.
pub(crate) struct NonResourceEndpoints {
    pub caches: Arc<WatchCaches>,
    pub metrics: Arc<Metrics>,
    pub authenticator: Arc<Authenticator>,
    pub clock: Clock,
    pub body_memory: BodyMemory,
    pub extra: Arc<ExtraEndpoints>,
    pub documents: ApiDocuments,
    /// `None` if what nodes and pods use is not shown.
    pub usage: Option<ResourceMetrics>,
}

/// The documents that describe the served resources. They are rebuilt when custom resources change.
pub(crate) struct ApiDocuments {
    /// Where clients in the cluster reach this server.
    address: SocketAddr,
    usage: UsageGroup,
    /// With the generation of the definitions that they describe. They are built under the lock, once for all requests; a panic
    /// leaves the earlier ones, with their generation.
    discovery: Mutex<(DefinitionsGeneration, Arc<Discovery>)>,
    openapi: Mutex<(DefinitionsGeneration, Arc<OpenApi>)>,
}

/// Whether discovery has the group `metrics.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageGroup {
    Served,
    Absent,
}

// --- NonResourceEndpoints ---

impl NonResourceEndpoints {
    /// Answers a request.
    pub(in crate::pipeline) async fn serve(
        &self,
        request: NonResourceRequest<'_>,
    ) -> Result<HttpResponse, Rejection> {
        let head = request.head;
        if request.is_below_group() {
            return match (&self.usage, UsageRequest::read(&head.path)) {
                (Some(usage), Some(asked)) => Ok(self.serve_usage(head, usage, &asked).await?),
                _ => Err(self.not_found(head)),
            };
        }
        match self.extra.setting(&head.path) {
            Some(setting) if !setting.is_open_to(&request.user) => Err(Status::forbidden(
                GroupResource::new("", ""),
                "",
                "only members of system:masters may use this path",
            )
            .into()),
            Some(setting) => Ok(self.serve_setting(head, &setting, request.body).await?),
            None => self.serve_path(head).await,
        }
    }

    /// Reads or changes a setting of the process.
    async fn serve_setting(
        &self,
        head: &RequestHead,
        setting: &ProcessSetting,
        body: RequestBody,
    ) -> Result<HttpResponse, Status> {
        match head.method {
            Method::GET | Method::HEAD => Ok(web::text(200, format!("{}\n", (setting.get)()))),
            Method::PUT => {
                let (bytes, _memory) = self
                    .body_memory
                    .read(body, &head.headers, LimitClass::Ordinary)
                    .await?;
                let text = std::str::from_utf8(&bytes).map_err(SettingError::from);
                let changed = text.and_then(|text| (setting.set)(text.trim()));
                Ok(match changed {
                    Ok(said) => web::text(200, format!("{said}\n")),
                    Err(why) => web::text(400, format!("{why}\n")),
                })
            }
            _ => Err(verb::not_allowed()),
        }
    }

    /// Serves `metrics.k8s.io`.
    async fn serve_usage(
        &self,
        head: &RequestHead,
        usage: &ResourceMetrics,
        asked: &UsageRequest<'_>,
    ) -> Result<HttpResponse, Status> {
        if !head.is_read() || head.asks_for_watch() {
            return Err(verb::not_allowed());
        }
        let now = Time::from(self.clock.system_time());
        let tree = usage.answer(asked, &head.query, now).await?;
        let format = match head.error_format() {
            Format::Yaml => Format::Yaml,
            _ => Format::Json,
        };
        Ok(web::json(200, tree.to_string().into_bytes(), format, head.layout))
    }

    /// Serves health, metrics, discovery, OpenAPI, issuer discovery and extra documents.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/routes/index.go ServeHTTP
    async fn serve_path(&self, head: &RequestHead) -> Result<HttpResponse, Rejection> {
        if let Some(answer) = health::answer(&head.path, &head.query, &self.caches, &self.metrics).await {
            return Ok(answer);
        }
        let metrics = match head.path.as_str() {
            "/metrics" => Some(self.extra.metrics(self.metrics.text(&self.caches))),
            "/metrics/slis" => Some(self.metrics.slis()),
            _ => None,
        };
        if let Some(metrics) = metrics {
            let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
            return Ok(web::answer(200, media, metrics));
        }
        let definitions = self.caches.definitions();
        let accept = head.text(&header::ACCEPT);
        let known = head.text(&header::IF_NONE_MATCH);
        let discovery = self.documents.discovery(definitions);
        if let Some(answer) = discovery.answer(&head.path, accept, known, head.layout) {
            return Ok(answer);
        }
        let stored = |name: &str| self.definition(name);
        let openapi = self.documents.openapi(definitions);
        if let Some(answer) = openapi.answer(&head.path, head.query.text("hash"), accept, known, &stored) {
            return Ok(answer);
        }
        let address = self.documents.address;
        if let Some(answer) = issuer::answer(&head.path, accept, &self.authenticator, address) {
            return Ok(answer?);
        }
        let document = match head.path.as_str() {
            "/" => discovery.index(&PATHS),
            "/version" | "/version/" => discovery::version(),
            path => match self.extra.document(path) {
                Some(document) => document.await,
                None => return Err(self.not_found(head)),
            },
        };
        Ok(web::json(
            200,
            document.to_string().into_bytes(),
            Format::Json,
            JsonLayout::Indented,
        ))
    }

    /// A definition as it is stored.
    fn definition(&self, name: &str) -> Option<serde_json::Value> {
        let cache = self.caches.resource(PREFIX);
        Some(cache.get(&format!("{PREFIX}{name}"))?.tree())
    }

    /// The answer to a path that leads to nothing: within a group that is there a `Status`, else a text. A group that has
    /// nothing but custom kinds is not there for paths that lead to none of them.
    fn not_found(&self, head: &RequestHead) -> Rejection {
        let path: Vec<_> = head.path.split('/').take(3).collect();
        let definitions = self.caches.definitions();
        let is_served = head.path.starts_with("/api/")
            || self
                .documents
                .discovery(definitions)
                .legacy(&path.join("/"))
                .is_some();
        if is_served && !is_custom(path.last().unwrap_or(&""), definitions) {
            return verb::not_found().into();
        }
        Rejection::path_not_found()
    }
}

/// Whether a group has custom kinds and no others.
fn is_custom(group: &str, definitions: &DefinitionRegistry) -> bool {
    let definitions = definitions.all();
    let mut definitions = definitions.values();
    definitions.any(|served| served.definition.group == group)
        && !builtin().all().iter().any(|kind| kind.group == group)
}

// --- ApiDocuments ---

impl ApiDocuments {
    pub(crate) fn new(config: &Config, definitions: &DefinitionRegistry) -> Self {
        let (ip, port) = config.advertise;
        let address = SocketAddr::new(ip, port);
        let usage = if config.usage {
            UsageGroup::Served
        } else {
            UsageGroup::Absent
        };
        ApiDocuments {
            address,
            usage,
            discovery: Mutex::new((
                DefinitionsGeneration::FIRST,
                Arc::new(discover(address, usage, definitions)),
            )),
            openapi: Mutex::new((DefinitionsGeneration::FIRST, Arc::new(OpenApi::new()))),
        }
    }

    /// The discovery documents of the currently served resources.
    fn discovery(&self, definitions: &DefinitionRegistry) -> Arc<Discovery> {
        let generation = definitions.generation();
        let mut known = self.discovery.lock();
        if known.0 != generation {
            let discovery = discover(self.address, self.usage, definitions);
            *known = (generation, Arc::new(discovery));
        }
        Arc::clone(&known.1)
    }

    /// The OpenAPI documents of the currently served resources.
    fn openapi(&self, definitions: &DefinitionRegistry) -> Arc<OpenApi> {
        let generation = definitions.generation();
        let mut known = self.openapi.lock();
        if known.0 != generation {
            *known = (generation, Arc::new(known.1.with(definitions)));
        }
        Arc::clone(&known.1)
    }
}

/// Builds the discovery documents.
fn discover(address: SocketAddr, usage: UsageGroup, definitions: &DefinitionRegistry) -> Discovery {
    let mut groups = DiscoveryGroup::builtin();
    DiscoveryGroup::add_custom(&mut groups, definitions);
    if usage == UsageGroup::Served {
        groups.push(DiscoveryGroup::usage());
    }
    Discovery::new(groups, address.to_string())
}
