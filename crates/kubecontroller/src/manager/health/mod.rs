//! What probes and scrapers ask.
//!
//! | page | answer |
//! | --- | --- |
//! | `/healthz`, `/livez` | 200 `ok`; 503 `stopping` once a stop began, or what a check says |
//! | `/readyz` | 200 `ok`; 503 `not synced` until all informers are, or what a check says |
//! | either with `?verbose` | each check by name |
//! | `/metrics` | the figures, on their own address or the same |
//! | `/debug/log-level` | GET: the level; PUT with a level as the body: another level. For callers on this machine |
//! | `/debug/pprof/profile?seconds=N` | where it was enabled: a profile of the processor, for `go tool pprof`. For callers on this machine |

#[cfg(feature = "pprof")]
mod profile;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use tokio::{net::TcpListener, task::JoinSet};
use tracing::debug;

use super::{Config, ManagerContext, ManagerError, Stop, log};
use crate::metrics;

/// A question that is answered with a reason why not.
type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Whether the program is alive and ready. Clones are the same.
#[derive(Clone, Default)]
pub struct HealthChecks {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    stop: Option<Stop>,
    /// Whether the informers of each manager are synced.
    synced: BTreeMap<String, bool>,
    alive: Vec<(String, Check)>,
    ready: Vec<(String, Check)>,
}

/// What an address serves.
#[derive(Clone)]
pub(super) struct Pages {
    context: ManagerContext,
    health: bool,
    metrics: bool,
    profiling: bool,
}

/// Something that listens.
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    pages: Pages,
}

/// A level, or a profile's length, is not longer than that.
const LONGEST_BODY: usize = 64;
/// Whoever does not even finish his question is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

// --- HealthChecks ---

impl HealthChecks {
    /// With a check of one's own for `/healthz`. It must not wait.
    pub fn add_healthz_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.state().alive.push((name.to_owned(), Arc::new(check)));
    }

    /// With a check of one's own for `/readyz`. It must not wait.
    pub fn add_readyz_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.state().ready.push((name.to_owned(), Arc::new(check)));
    }

    /// Why the program is not alive, if it is not.
    pub fn healthz(&self) -> Result<(), String> {
        first(&self.alive_checks())
    }

    /// Why the program is not ready, if it is not.
    pub fn readyz(&self) -> Result<(), String> {
        first(&self.ready_checks())
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

    fn running(&self) -> (String, Check) {
        let stop = self.state().stop.clone();
        let is_stopping = stop.is_some_and(|stop| stop.is_stopped());
        let answer = if is_stopping {
            Err("stopping".to_owned())
        } else {
            Ok(())
        };
        ("running".to_owned(), Arc::new(move || answer.clone()))
    }

    fn alive_checks(&self) -> Vec<(String, Check)> {
        let mut checks = vec![self.running()];
        checks.extend(self.state().alive.clone());
        checks
    }

    fn ready_checks(&self) -> Vec<(String, Check)> {
        let mut checks = vec![self.running()];
        let state = self.state();
        let is_synced = state.synced.values().all(|synced| *synced);
        let answer = if is_synced {
            Ok(())
        } else {
            Err("not synced".to_owned())
        };
        checks.push(("informers".to_owned(), Arc::new(move || answer.clone())));
        checks.extend(state.ready.clone());
        checks
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first(checks: &[(String, Check)]) -> Result<(), String> {
    checks.iter().try_for_each(|(_, check)| check())
}

// --- Pages ---

/// What is served where.
pub(super) fn servers(config: &Config, context: &ManagerContext) -> Vec<(String, Pages)> {
    let pages = |health: bool, metrics: bool| Pages {
        context: context.clone(),
        health,
        metrics,
        profiling: config.profiling,
    };
    match (&config.health_address, &config.metrics_address) {
        (Some(health), Some(metrics)) if health == metrics => vec![(health.clone(), pages(true, true))],
        (health, metrics) => {
            let health = health.iter().map(|address| (address.clone(), pages(true, false)));
            let metrics = metrics
                .iter()
                .map(|address| (address.clone(), pages(false, true)));
            health.chain(metrics).collect()
        }
    }
}

impl Pages {
    /// Whether it is not for that caller.
    fn is_forbidden(path: &str, from: SocketAddr) -> bool {
        path.starts_with("/debug/") && !from.ip().to_canonical().is_loopback()
    }

    async fn answer(&self, request: Request<Incoming>, from: SocketAddr) -> Response<Full<Bytes>> {
        let path = request.uri().path().trim_end_matches('/').to_owned();
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        let health = self.context.health();
        match path.as_str() {
            "/healthz" | "/livez" if self.health && is_get => {
                checked("healthz", &request, &health.alive_checks())
            }
            "/readyz" if self.health && is_get => checked("readyz", &request, &health.ready_checks()),
            "/metrics" if self.metrics && is_get => {
                let figures = metrics::encode_text(&self.context.registry());
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                typed(StatusCode::OK, kind, figures)
            }
            path if Self::is_forbidden(path, from) => {
                text(StatusCode::FORBIDDEN, "only for callers on this machine\n")
            }
            "/debug/log-level" if self.health => level(request).await,
            "/debug/pprof/profile" if self.health && self.profiling && is_get => profile(&request).await,
            "/healthz" | "/livez" | "/readyz" if self.health => {
                text(StatusCode::METHOD_NOT_ALLOWED, "want GET\n")
            }
            "/metrics" if self.metrics => text(StatusCode::METHOD_NOT_ALLOWED, "want GET\n"),
            _ => text(StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

fn checked(page: &str, request: &Request<Incoming>, checks: &[(String, Check)]) -> Response<Full<Bytes>> {
    let answers: Vec<_> = checks.iter().map(|(name, check)| (name, check())).collect();
    let failure = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
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
        return text(code, failure.map_or("ok", String::as_str));
    }
    let lines = answers.iter().map(|(name, answer)| match answer {
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
            let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await;
            let Ok(body) = body.map(http_body_util::Collected::to_bytes) else {
                return text(StatusCode::BAD_REQUEST, "want a level\n");
            };
            match log::set_level(String::from_utf8_lossy(&body).trim()) {
                Ok(level) => text(StatusCode::OK, &level),
                Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
            }
        }
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "want GET or PUT\n"),
    }
}

#[cfg(feature = "pprof")]
async fn profile(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    match profile::take(request.uri().query().unwrap_or_default()).await {
        Ok(profile) => typed(StatusCode::OK, "application/octet-stream", profile),
        Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
    }
}

#[cfg(not(feature = "pprof"))]
#[expect(clippy::unused_async, reason = "it waits where profiles can be taken")]
async fn profile(_: &Request<Incoming>) -> Response<Full<Bytes>> {
    text(StatusCode::NOT_FOUND, "built without profiles\n")
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

// --- Server ---

impl Server {
    /// Takes the address, so that a start fails that cannot have it.
    pub(super) async fn listen(address: &str, pages: Pages) -> Result<Self, ManagerError> {
        let listener = TcpListener::bind(address).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (actual, listener) = bound.map_err(|source| ManagerError::Listen {
            address: address.to_owned(),
            source,
        })?;
        Ok(Server {
            listener,
            address: actual,
            pages,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until it is stopped; what is being answered then is finished.
    pub(super) async fn run(self, stop: Stop) {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        while let Some(accepted) = stop.unless_stopped(self.listener.accept()).await {
            while connections.try_join_next().is_some() {}
            let Ok((stream, from)) = accepted else {
                // Out of file descriptors, say: that passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let pages = self.pages.clone();
            let service = hyper::service::service_fn(move |request| {
                let pages = pages.clone();
                async move { Ok::<_, Infallible>(pages.answer(request, from).await) }
            });
            let connection = builder
                .serve_connection(TokioIo::new(stream), service)
                .into_owned();
            let connection = graceful.watch(connection);
            connections.spawn(async move {
                if let Err(error) = connection.await {
                    debug!(%from, error, "a connection ended early");
                }
            });
        }
        stop.until_expired(graceful.shutdown()).await;
    }
}
