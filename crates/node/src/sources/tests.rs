//! Requests to the API server and caching.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use http::{Request, Response};
use k8s_openapi::jiff::SignedDuration;
use kube::client::Body;
use kubecontroller::{Clock, testing::FakeApi};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;

fn config_map(value: &str) -> ConfigMap {
    let map = json!({"metadata": {"namespace": "shop", "name": "x"}, "data": {"k": value}});
    serde_json::from_value(map).unwrap()
}

fn immutable_config_map(value: &str) -> ConfigMap {
    ConfigMap {
        immutable: Some(true),
        ..config_map(value)
    }
}

fn pod(uid: &str) -> Pod {
    let pod = json!({
        "metadata": {"namespace": "shop", "name": uid, "uid": uid},
        "spec": {"containers": [], "volumes": [{"name": "v", "configMap": {"name": "x"}}]}
    });
    serde_json::from_value(pod).unwrap()
}

/// Number of requests since the last call.
fn take_request_count(api: &FakeApi) -> usize {
    let count = api.requests().len();
    api.clear_requests();
    count
}

/// Reads the value of the only key of the ConfigMap.
async fn read_value(sources: &ApiObjectSources) -> Option<String> {
    let map = sources.config_map("shop", "x").await.unwrap()?;
    map.data.as_ref()?.get("k").cloned()
}

#[tokio::test(start_paused = true)]
async fn reads_object_again_after_a_minute_or_for_a_new_pod() {
    let api = FakeApi::new();
    let sources = ApiObjectSources::new(api.client(), Clock::system());
    api.put(&config_map("1"));
    sources.register_pod(&pod("one"));
    assert_eq!(read_value(&sources).await.as_deref(), Some("1"));
    assert_eq!(read_value(&sources).await.as_deref(), Some("1"));
    assert_eq!(take_request_count(&api), 1);

    api.put(&config_map("2"));
    advance(Duration::from_secs(30)).await;
    sources.register_pod(&pod("one"));
    assert_eq!(
        read_value(&sources).await.as_deref(),
        Some("1"),
        "cached for a minute"
    );
    assert_eq!(take_request_count(&api), 0);
    sources.register_pod(&pod("two"));
    assert_eq!(
        read_value(&sources).await.as_deref(),
        Some("2"),
        "a new pod sees the current version"
    );
    assert_eq!(take_request_count(&api), 1);

    api.put(&config_map("3"));
    advance(Duration::from_mins(1)).await;
    assert_eq!(read_value(&sources).await.as_deref(), Some("3"));
    assert_eq!(take_request_count(&api), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_send_one_request() {
    let api = FakeApi::new();
    let sources = ApiObjectSources::new(api.client(), Clock::system());
    api.put(&config_map("1"));
    for uid in 0..50 {
        sources.register_pod(&pod(&uid.to_string()));
    }
    let all = futures_util::future::join_all((0..50).map(|_| read_value(&sources))).await;
    assert!(all.iter().all(|value| value.as_deref() == Some("1")));
    assert_eq!(take_request_count(&api), 1);
}

#[tokio::test(start_paused = true)]
async fn immutable_objects_are_read_once_while_referenced() {
    let api = FakeApi::new();
    let sources = ApiObjectSources::new(api.client(), Clock::system());
    api.put(&immutable_config_map("1"));
    sources.register_pod(&pod("one"));
    assert!(read_value(&sources).await.is_some());
    advance(Duration::from_hours(24)).await;
    sources.register_pod(&pod("one"));
    assert!(read_value(&sources).await.is_some());
    assert_eq!(take_request_count(&api), 1);
    sources.unregister_pod(&PodIdentity::of(&pod("one")));
    advance(Duration::from_mins(1)).await;
    sources.register_pod(&pod("two"));
    assert!(read_value(&sources).await.is_some());
    assert_eq!(
        take_request_count(&api),
        1,
        "it may have been deleted and created again"
    );
}

#[tokio::test(start_paused = true)]
async fn does_not_cache_missing_objects_and_errors() {
    let api = FakeApi::new();
    let sources = ApiObjectSources::new(api.client(), Clock::system());
    assert_eq!(read_value(&sources).await, None);
    api.put(&config_map("1"));
    assert_eq!(read_value(&sources).await.as_deref(), Some("1"));
    advance(Duration::from_mins(2)).await;
    api.faults().fail_next(1, 403);
    assert!(matches!(
        sources.config_map("shop", "x").await,
        Err(ObjectSourceError::Api(_))
    ));
    assert_eq!(read_value(&sources).await.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn returns_services_of_the_namespace_from_one_list() {
    let api = FakeApi::new();
    let sources = ApiObjectSources::new(api.client(), Clock::system());
    let put = |namespace: &str, name: &str| {
        let service = json!({"metadata": {"namespace": namespace, "name": name}});
        api.put(&serde_json::from_value::<Service>(service).unwrap());
    };
    put("default", "kubernetes");
    put("default", "other");
    put("shop", "db");
    let names = async |namespace: &str| {
        let services = sources.services(namespace).await.unwrap();
        let mut names: Vec<_> = services
            .iter()
            .filter_map(|service| service.metadata.name.clone())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("shop").await, ["db", "kubernetes"]);
    assert_eq!(names("default").await, ["kubernetes", "other"]);
    let lists = api
        .requests()
        .iter()
        .filter(|request| request.verb == "list")
        .count();
    assert!(lists <= 1);
}

/// An API server that issues tokens `token-1`, `token-2` and so on, or rejects requests.
struct FakeTokenApi {
    sources: ApiObjectSources,
    requests: Arc<Mutex<Vec<Value>>>,
    rejects_requests: Arc<std::sync::atomic::AtomicBool>,
    /// The clock of the sources and of the API server.
    seconds: Arc<AtomicI64>,
}

fn fake_token_api() -> FakeTokenApi {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let rejects_requests = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let time = Arc::clone(&seconds);
    let clock = Clock::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
    let shared_log = Arc::clone(&requests);
    let shared_rejects = Arc::clone(&rejects_requests);
    let server_clock = clock.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&shared_log);
        let rejects = Arc::clone(&shared_rejects);
        let clock = server_clock.clone();
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await?;
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            if rejects.load(Ordering::Relaxed) {
                let status = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
                return Ok::<_, kube::Error>(json_response(403, &status));
            }
            let count = {
                let mut log = log.lock();
                log.push(json!({"path": path, "spec": body["spec"]}));
                log.len()
            };
            let lifetime = SignedDuration::from_secs(body["spec"]["expirationSeconds"].as_i64().unwrap());
            body["status"] = json!({"token": format!("token-{count}"), "expirationTimestamp": (clock.now() + lifetime).to_string()});
            Ok(json_response(201, &body))
        }
    });
    let sources = ApiObjectSources::new(kube::Client::new(service, "default"), clock);
    FakeTokenApi {
        sources,
        requests,
        rejects_requests,
        seconds,
    }
}

fn json_response(code: u16, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}

#[tokio::test]
async fn requests_bound_tokens_and_refreshes_them() {
    let api = fake_token_api();
    let pod = PodIdentity {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
    };
    let token = async || {
        api.sources
            .service_account_token(&pod, "robot", Some("vault"), 3600)
            .await
    };
    assert_eq!(token().await.unwrap().token, "token-1");
    assert_eq!(token().await.unwrap().token, "token-1");
    let request = api.requests.lock()[0].clone();
    assert_eq!(
        request["path"],
        "/api/v1/namespaces/shop/serviceaccounts/robot/token"
    );
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"});
    assert_eq!(
        request["spec"],
        json!({"audiences": ["vault"], "boundObjectRef": bound, "expirationSeconds": 3600})
    );

    api.seconds.fetch_add(2800, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().token, "token-1");
    api.seconds.fetch_add(81, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().token, "token-2");

    // If the refresh fails, the old token is used until it expires.
    api.rejects_requests.store(true, Ordering::Relaxed);
    api.seconds.fetch_add(3500, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().token, "token-2");
    api.seconds.fetch_add(200, Ordering::Relaxed);
    let error = token().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "token of service account shop/robot expired and refresh failed: no"
    );
    api.sources.unregister_pod(&pod);
    assert_eq!(
        token().await.unwrap_err().to_string(),
        "failed to fetch token: no"
    );
    api.rejects_requests.store(false, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().token, "token-3");
}
