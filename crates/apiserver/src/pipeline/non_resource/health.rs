//! Health endpoints: `/healthz`, `/livez`, `/readyz`.

use http::{HeaderValue, header::CACHE_CONTROL};

use k3_storage::StoreError;

use crate::{
    cache::WatchCaches,
    http::{self as web, HttpResponse},
    metrics::Metrics,
    request::Query,
};

/// A check, and its error.
type HealthCheckResult = (&'static str, Result<(), HealthCheckError>);

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
enum HealthCheckError {
    /// The store is not well.
    #[error(transparent)]
    Storage(StoreError),
    /// What requests read is not up to date.
    #[error("the watch cache is loaded again after the store's history was lost")]
    CacheLoads,
}

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Whether a path is a health endpoint. These are served regardless of load.
pub(in crate::pipeline) fn is_asked_for(path: &str) -> bool {
    path.split('/')
        .nth(1)
        .is_some_and(|first| ENDPOINTS.contains(&first))
}

/// Answers `/healthz`, `/livez`, `/readyz`, and `/<of them>/<check>`; `None` for other paths.
// upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go handleRootHealth, adaptCheckToHandler
pub(super) async fn answer(
    path: &str,
    query: &Query,
    caches: &WatchCaches,
    metrics: &Metrics,
) -> Option<HttpResponse> {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let endpoint = parts.next()?;
    if !ENDPOINTS.contains(&endpoint) {
        return None;
    }
    let checks = checks(endpoint, caches).await;
    for (name, result) in &checks {
        metrics.checked(name, endpoint, result);
    }
    let mut answer = match parts.next().filter(|check| !check.is_empty()) {
        None => all(endpoint, &checks, query),
        Some(name) => match checks.into_iter().find(|(check, _)| *check == name) {
            None => web::text(404, "404 page not found\n"),
            Some((_, Ok(()))) => web::text(200, "ok"),
            Some((_, Err(_))) => web::text(500, format!("internal server error: {name} check failed\n")),
        },
    };
    web::set(
        &mut answer,
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    Some(answer)
}

async fn checks(endpoint: &str, caches: &WatchCaches) -> Vec<HealthCheckResult> {
    let mut checks = vec![("ping", Ok(())), ("log", Ok(()))];
    let health = caches.store().health().await;
    checks.push(("storage", health.map(drop).map_err(HealthCheckError::Storage)));
    if endpoint == "readyz" {
        let follows = if caches.follows() {
            Ok(())
        } else {
            Err(HealthCheckError::CacheLoads)
        };
        checks.push(("informer-sync", follows));
        // A server takes no request before this is done.
        checks.push(("poststarthook/bootstrap", Ok(())));
    }
    checks
}

// upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go handleRootHealth
fn all(endpoint: &str, checks: &[HealthCheckResult], query: &Query) -> HttpResponse {
    let excluded: Vec<_> = query.all("exclude").collect();
    let mut lines = Vec::new();
    let mut failed = false;
    for (name, result) in checks {
        lines.push(match result {
            _ if excluded.contains(name) => format!("[+]{name} excluded: ok"),
            Ok(()) => format!("[+]{name} ok"),
            Err(why) => {
                tracing::warn!(check = name, %why, "health check failed");
                failed = true;
                format!("[-]{name} failed: reason withheld")
            }
        });
    }
    let unknown: Vec<_> = excluded
        .iter()
        .filter(|name| checks.iter().all(|(check, _)| check != *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        lines.push(format!(
            "warn: some health checks cannot be excluded: no matches for {}",
            unknown.join(",")
        ));
    }
    let text = lines.join("\n");
    if failed {
        return web::text(500, format!("{text}\n{endpoint} check failed\n"));
    }
    if query.has("verbose") {
        return web::text(200, format!("{text}\n{endpoint} check passed\n"));
    }
    web::text(200, "ok")
}
