//! Endpoints for probes, metrics and debugging.
//!
//! | path | response |
//! | --- | --- |
//! | `/healthz`, `/livez` | 200 `ok`; 503 with `stopping` during the shutdown, or with the error of a check |
//! | `/readyz` | 200 `ok`; 503 with `not synced` until all informers are synced, or with the error of a check |
//! | the above with `?verbose` | the result of each check |
//! | `/metrics` | metrics, on their own address or on the same |
//! | `/debug/log-level` | GET returns the log level; PUT changes it to the one in the body. Local callers only |
//! | `/debug/pprof/profile?seconds=N` | a CPU profile for `go tool pprof`, if profiling is enabled. Local callers only |

#[cfg(feature = "pprof")]
mod profile;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{net::TcpListener, task::JoinSet};
use tracing::debug;

use super::{Config, ManagerContext, ManagerError, Stop, log};

/// A health check.
type CheckFn = Arc<dyn Fn() -> Result<(), HealthCheckError> + Send + Sync>;

/// Why a health check failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HealthCheckError {
    /// The program is stopping.
    #[error("stopping")]
    Stopping,
    /// Some informers are not synced.
    #[error("not synced")]
    NotSynced,
    /// A check that was added failed for this reason.
    #[error("{0}")]
    Failed(String),
}

/// Health and readiness checks. Clones share their state.
#[derive(Clone, Default)]
pub struct HealthChecks {
    state: Arc<Mutex<HealthState>>,
}

#[derive(Default)]
struct HealthState {
    stop: Option<Stop>,
    /// Whether the informers of each manager are synced.
    synced: BTreeMap<String, bool>,
    alive: Vec<(String, CheckFn)>,
    ready: Vec<(String, CheckFn)>,
}

/// The endpoints of an address.
#[derive(Clone)]
pub(super) struct Endpoints {
    context: ManagerContext,
    health: bool,
    metrics: bool,
    profiling: bool,
}

/// A bound HTTP server.
pub(super) struct HealthServer {
    listener: TcpListener,
    address: SocketAddr,
    endpoints: Endpoints,
}

/// The maximal size of a request body, which is a log level.
const MAX_BODY_BYTES: usize = 64;
/// The time for a client to send the headers of its request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);

// --- HealthChecks ---

impl HealthChecks {
    /// Adds a check to `/healthz`. It must not block.
    pub fn add_healthz_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), HealthCheckError> + Send + Sync + 'static,
    ) {
        self.state().alive.push((name.to_owned(), Arc::new(check)));
    }

    /// Adds a check to `/readyz`. It must not block.
    pub fn add_readyz_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), HealthCheckError> + Send + Sync + 'static,
    ) {
        self.state().ready.push((name.to_owned(), Arc::new(check)));
    }

    /// The first failure of the `/healthz` checks.
    pub fn healthz(&self) -> Result<(), HealthCheckError> {
        first_failure(&self.alive_checks())
    }

    /// The first failure of the `/readyz` checks.
    pub fn readyz(&self) -> Result<(), HealthCheckError> {
        first_failure(&self.ready_checks())
    }

    pub(super) fn begin<'n>(&self, stop: &Stop, managers: impl Iterator<Item = &'n str>) {
        let mut state = self.state();
        state.stop = Some(stop.clone());
        state
            .synced
            .extend(managers.map(|manager| (manager.to_owned(), false)));
    }

    pub(super) fn synced(&self, manager: &str) {
        self.state().synced.insert(manager.to_owned(), true);
    }

    fn running(&self) -> (String, CheckFn) {
        let stop = self.state().stop.clone();
        let is_stopping = stop.is_some_and(|stop| stop.is_stopped());
        let result = if is_stopping {
            Err(HealthCheckError::Stopping)
        } else {
            Ok(())
        };
        ("running".to_owned(), Arc::new(move || result.clone()))
    }

    fn alive_checks(&self) -> Vec<(String, CheckFn)> {
        let mut checks = vec![self.running()];
        checks.extend(self.state().alive.clone());
        checks
    }

    fn ready_checks(&self) -> Vec<(String, CheckFn)> {
        let mut checks = vec![self.running()];
        let state = self.state();
        let is_synced = state.synced.values().all(|synced| *synced);
        let result = if is_synced {
            Ok(())
        } else {
            Err(HealthCheckError::NotSynced)
        };
        checks.push(("informers".to_owned(), Arc::new(move || result.clone())));
        checks.extend(state.ready.clone());
        checks
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock()
    }
}

fn first_failure(checks: &[(String, CheckFn)]) -> Result<(), HealthCheckError> {
    checks.iter().try_for_each(|(_, check)| check())
}

// --- Endpoints ---

/// The addresses to serve, with their endpoints.
pub(super) fn servers(config: &Config, context: &ManagerContext) -> Vec<(String, Endpoints)> {
    let endpoints = |health: bool, metrics: bool| Endpoints {
        context: context.clone(),
        health,
        metrics,
        profiling: config.profiling,
    };
    match (&config.health_address, &config.metrics_address) {
        (Some(health), Some(metrics)) if health == metrics => vec![(health.clone(), endpoints(true, true))],
        (health, metrics) => {
            let health = health
                .iter()
                .map(|address| (address.clone(), endpoints(true, false)));
            let metrics = metrics
                .iter()
                .map(|address| (address.clone(), endpoints(false, true)));
            health.chain(metrics).collect()
        }
    }
}

impl Endpoints {
    /// Whether a caller must not read a path: the debug endpoints are for local callers.
    fn is_forbidden(path: &str, from: SocketAddr) -> bool {
        path.starts_with("/debug/") && !from.ip().to_canonical().is_loopback()
    }

    async fn respond(&self, request: Request<Incoming>, from: SocketAddr) -> Response<Full<Bytes>> {
        let path = request.uri().path().trim_end_matches('/').to_owned();
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        let health = self.context.health();
        match path.as_str() {
            "/healthz" | "/livez" if self.health && is_get => {
                checked("healthz", &request, &health.alive_checks())
            }
            "/readyz" if self.health && is_get => checked("readyz", &request, &health.ready_checks()),
            "/metrics" if self.metrics && is_get => {
                let text = self.context.metrics().text();
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                typed(StatusCode::OK, kind, text)
            }
            path if Self::is_forbidden(path, from) => {
                text(StatusCode::FORBIDDEN, "allowed for local callers only\n")
            }
            "/debug/log-level" if self.health => level(request).await,
            "/debug/pprof/profile" if self.health && self.profiling && is_get => profile(&request).await,
            "/healthz" | "/livez" | "/readyz" if self.health => {
                text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n")
            }
            "/metrics" if self.metrics => {
                text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n")
            }
            _ => text(StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go handleRootHealth; the verbose text has its form
fn checked(page: &str, request: &Request<Incoming>, checks: &[(String, CheckFn)]) -> Response<Full<Bytes>> {
    let results: Vec<_> = checks.iter().map(|(name, check)| (name, check())).collect();
    let failure = results.iter().find_map(|(_, result)| result.as_ref().err());
    let code = if failure.is_some() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    let query = request.uri().query().unwrap_or_default();
    if !query
        .split('&')
        .any(|part| part.split('=').next() == Some("verbose"))
    {
        let failure = failure.map(ToString::to_string);
        return text(code, failure.as_deref().unwrap_or("ok"));
    }
    let lines = results.iter().map(|(name, result)| match result {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(why) => format!("[-]{name} failed: {why}\n"),
    });
    let end = if failure.is_some() { "failed" } else { "passed" };
    let body = lines.collect::<String>() + page + " check " + end + "\n";
    text(code, &body)
}

async fn level(request: Request<Incoming>) -> Response<Full<Bytes>> {
    match *request.method() {
        Method::GET => text(StatusCode::OK, &log::level()),
        Method::PUT => {
            let body = Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await;
            let Ok(body) = body.map(http_body_util::Collected::to_bytes) else {
                return text(StatusCode::BAD_REQUEST, "expected a log level\n");
            };
            match log::set_level(String::from_utf8_lossy(&body).trim()) {
                Ok(level) => text(StatusCode::OK, &level),
                Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
            }
        }
        _ => text(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed: use GET or PUT\n",
        ),
    }
}

#[cfg(feature = "pprof")]
async fn profile(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    match profile::cpu_profile(request.uri().query().unwrap_or_default()).await {
        Ok(profile) => typed(StatusCode::OK, "application/octet-stream", profile),
        Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
    }
}

#[cfg(not(feature = "pprof"))]
#[expect(
    clippy::unused_async,
    reason = "the variant with profiling awaits the profile"
)]
async fn profile(_: &Request<Incoming>) -> Response<Full<Bytes>> {
    text(
        StatusCode::NOT_FOUND,
        "this program was built without the feature `pprof`\n",
    )
}

fn text(code: StatusCode, body: &str) -> Response<Full<Bytes>> {
    typed(code, "text/plain; charset=utf-8", body.to_owned())
}

fn typed(code: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        header::HeaderValue::from_static("nosniff"),
    );
    response
}

// --- HealthServer ---

impl HealthServer {
    /// Binds the address, so that a conflict ends the start of the program.
    pub(super) async fn listen(address: &str, endpoints: Endpoints) -> Result<Self, ManagerError> {
        let listener = TcpListener::bind(address).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (actual, listener) = bound.map_err(|source| ManagerError::Listen {
            address: address.to_owned(),
            source,
        })?;
        Ok(HealthServer {
            listener,
            address: actual,
            endpoints,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `stop` is triggered, and finishes those that are in progress.
    pub(super) async fn run(self, stop: Stop) {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_TIMEOUT);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        while let Some(accepted) = stop.unless_stopped(self.listener.accept()).await {
            while connections.try_join_next().is_some() {}
            let Ok((stream, from)) = accepted else {
                // E.g. out of file descriptors; the pause avoids a busy loop until some are closed.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let endpoints = self.endpoints.clone();
            let service = hyper::service::service_fn(move |request| {
                let endpoints = endpoints.clone();
                async move { Ok::<_, Infallible>(endpoints.respond(request, from).await) }
            });
            let connection = builder
                .serve_connection(TokioIo::new(stream), service)
                .into_owned();
            let connection = graceful.watch(connection);
            connections.spawn(async move {
                if let Err(error) = connection.await {
                    debug!(%from, error, "connection ended with an error");
                }
            });
        }
        stop.until_expired(graceful.shutdown()).await;
    }
}
