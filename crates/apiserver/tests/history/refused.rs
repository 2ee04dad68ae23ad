//! Requests to a server that cannot know the state of the cluster.

use std::sync::Arc;

use http::{Method, header};
use k3_storage::Store;

use crate::{
    backend::{Backend, run},
    client::Client,
    decisions,
    gap_store::GapStore,
    kinds::{StoredResource, version},
};

/// A server that reloads its cache rejects requests with a retry time.
#[test]
fn rejects_requests_while_cache_loads() {
    run(async {
        let backend = Backend::memory().await;
        let store = backend.open().await;
        let gap = GapStore::new(backend.open().await);
        let client = Client::start(Arc::clone(&gap) as Arc<dyn Store>).await;
        let all = StoredResource::all();
        let config_maps = all.iter().find(|resource| resource.path == "/api/v1/configmaps");
        let config_maps = config_maps.unwrap();
        config_maps.create(store.as_ref(), "before").await;
        let old = version(&client.get("/api/v1/configmaps").await.body);

        gap.stall();
        config_maps.create(store.as_ref(), "after").await;
        gap.hold_ranges(true);
        gap.lose_history().await;
        client.get_until("/readyz", |reply| reply.code == 500).await;
        let refused = client
            .get_until("/api/v1/configmaps?resourceVersion=0", |reply| {
                // Until then it is known that nothing is older than some seconds.
                if reply.code == 200 {
                    assert_eq!(version(&reply.body), old);
                }
                reply.code != 200
            })
            .await;
        assert_eq!(refused.code, 503, "{}", refused.text);
        assert_eq!(refused.headers[header::RETRY_AFTER], "1");
        assert_eq!(client.send(Method::GET, "/livez", None).await.code, 200);
        assert_eq!(client.send(Method::GET, "/version", None).await.code, 200);

        gap.hold_ranges(false);
        let path = config_maps.object_path("after");
        assert_eq!(client.get(&path).await.code, 200);
        client.get_until("/readyz", |reply| reply.code == 200).await;
    });
}

/// A server that lags does not go on for long with what another server has revoked.
#[test]
fn revoked_role_stops_allowing() {
    run(async {
        let backend = Backend::memory().await;
        let gap = GapStore::new(backend.open().await);
        let behind = Client::start(Arc::clone(&gap) as Arc<dyn Store>).await;
        let current = Client::start(backend.open().await).await;
        decisions::grant(&current, "early").await;
        let path = "/api/v1/configmaps";
        behind.get(path).await;
        let user = behind.with_user("early", "people");
        assert_eq!(user.get(path).await.code, 200);

        gap.stall();
        decisions::revoke(&current, "early").await;
        let cached = format!("{path}?resourceVersion=0");
        let refused = user.get_until(&cached, |reply| reply.code != 200).await;
        assert_eq!(refused.code, 504, "{}", refused.text);
        assert!(
            refused.text.contains("Too large resource version"),
            "{}",
            refused.text
        );
        assert_eq!(refused.headers[header::RETRY_AFTER], "1");
        gap.resume();
        assert_eq!(user.get(&cached).await.code, 403);
    });
}

/// A version that was never written is rejected as upstream does, after a wait.
#[test]
fn rejects_future_resource_version() {
    run(async {
        let client = Client::start(Backend::memory().await.open().await).await;
        let future = version(&client.get("/api/v1/configmaps").await.body) + 1000;
        let paths = [
            format!("/api/v1/configmaps?resourceVersion={future}"),
            format!("/api/v1/configmaps?resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
            format!("/api/v1/configmaps?resourceVersion={future}&resourceVersionMatch=Exact"),
            format!("/api/v1/namespaces/default?resourceVersion={future}"),
            format!(
                "/api/v1/configmaps?watch=true&resourceVersion={future}&sendInitialEvents=true\
                 &resourceVersionMatch=NotOlderThan"
            ),
        ];
        let replies = paths.iter().map(|path| client.send(Method::GET, path, None));
        let replies = futures_util::future::join_all(replies).await;
        for (path, reply) in paths.iter().zip(replies) {
            let is_watch = path.contains("watch=true");
            assert_eq!(
                reply.code,
                if is_watch { 200 } else { 504 },
                "{path}: {}",
                reply.text
            );
            let status = if is_watch {
                &reply.body["object"]
            } else {
                &reply.body
            };
            assert_eq!(status["code"], 504, "{path}: {}", reply.text);
            assert_eq!(status["reason"], "Timeout", "{path}");
            let message = status["message"].as_str().unwrap();
            assert!(
                message.starts_with(&format!(
                    "Timeout: Too large resource version: {future}, current: "
                )),
                "{path}: {message}"
            );
            let cause = &status["details"]["causes"][0];
            assert_eq!(cause["reason"], "ResourceVersionTooLarge", "{path}");
            assert_eq!(status["details"]["retryAfterSeconds"], 1, "{path}");
        }
    });
}
