//! Whether the server is alive and ready.

use http::{HeaderValue, header::CACHE_CONTROL};
use k3_storage::Store;

use crate::{
    http::{self as web, Answer},
    request::Query,
};

/// A check, and what it says when it fails.
type Check = (&'static str, Result<(), String>);

/// Answers `/healthz`, `/livez`, `/readyz`, and `/<of them>/<check>`; `None` for other paths.
pub(super) async fn answer(path: &str, query: &Query, store: &dyn Store) -> Option<Answer> {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let endpoint = parts.next()?;
    if !matches!(endpoint, "healthz" | "livez" | "readyz") {
        return None;
    }
    let checks = checks(endpoint, store).await;
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

async fn checks(endpoint: &str, store: &dyn Store) -> Vec<Check> {
    let mut checks = vec![("ping", Ok(()))];
    let health = store.health().await;
    checks.push(("storage", health.map(drop).map_err(|error| error.to_string())));
    if endpoint == "readyz" {
        // A server takes no request before these are done.
        checks.push(("informer-sync", Ok(())));
        checks.push(("poststarthook/bootstrap", Ok(())));
    }
    checks
}

fn all(endpoint: &str, checks: &[Check], query: &Query) -> Answer {
    let excluded: Vec<_> = query.all("exclude").collect();
    let mut text = String::new();
    let mut failed = Vec::new();
    for (name, result) in checks {
        if excluded.contains(name) {
            text.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        match result {
            Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
            Err(why) => {
                tracing::warn!(check = name, %why, "a health check failed");
                failed.push(*name);
                text.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
        }
    }
    let unknown: Vec<_> = excluded
        .iter()
        .filter(|name| checks.iter().all(|(check, _)| check != *name))
        .collect();
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ));
    }
    if !failed.is_empty() {
        return web::text(500, format!("{text}{endpoint} check failed\n"));
    }
    if query.has("verbose") {
        return web::text(200, format!("{text}{endpoint} check passed\n"));
    }
    web::text(200, "ok")
}
