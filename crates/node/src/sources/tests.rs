//! What is asked of the API, and how often.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use k8s_openapi::jiff::SignedDuration;
use kube::client::Body;
use kubecontroller::{Clock, testing::FakeApi};
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;

fn config_map(value: &str, immutable: bool) -> ConfigMap {
    let map =
        json!({"metadata": {"namespace": "shop", "name": "x"}, "data": {"k": value}, "immutable": immutable});
    serde_json::from_value(map).unwrap()
}

fn pod(uid: &str) -> Pod {
    let pod = json!({
        "metadata": {"namespace": "shop", "name": uid, "uid": uid},
        "spec": {"containers": [], "volumes": [{"name": "v", "configMap": {"name": "x"}}]}
    });
    serde_json::from_value(pod).unwrap()
}

/// How many requests were made since the last time.
fn requests(api: &FakeApi) -> usize {
    let count = api.requests().len();
    api.clear_requests();
    count
}

async fn value(sources: &ApiSources) -> Option<String> {
    let map = sources.config_map("shop", "x").await.unwrap()?;
    map.data.as_ref()?.get("k").cloned()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_once_a_minute_and_at_once_for_a_new_pod() {
    let api = FakeApi::new();
    let sources = ApiSources::new(api.client(), Clock::system());
    api.put(&config_map("1", false));
    sources.keep(&pod("one"));
    assert_eq!(value(&sources).await.as_deref(), Some("1"));
    assert_eq!(value(&sources).await.as_deref(), Some("1"));
    assert_eq!(requests(&api), 1);

    api.put(&config_map("2", false));
    advance(Duration::from_secs(30)).await;
    sources.keep(&pod("one"));
    assert_eq!(
        value(&sources).await.as_deref(),
        Some("1"),
        "it is good for a minute"
    );
    assert_eq!(requests(&api), 0);
    sources.keep(&pod("two"));
    assert_eq!(
        value(&sources).await.as_deref(),
        Some("2"),
        "a new pod sees what is there"
    );
    assert_eq!(requests(&api), 1);

    api.put(&config_map("3", false));
    advance(Duration::from_mins(1)).await;
    assert_eq!(value(&sources).await.as_deref(), Some("3"));
    assert_eq!(requests(&api), 1);
}

#[tokio::test(start_paused = true)]
async fn what_many_pods_want_at_once_is_asked_for_once() {
    let api = FakeApi::new();
    let sources = ApiSources::new(api.client(), Clock::system());
    api.put(&config_map("1", false));
    for uid in 0..50 {
        sources.keep(&pod(&uid.to_string()));
    }
    let all = futures_util::future::join_all((0..50).map(|_| value(&sources))).await;
    assert!(all.iter().all(|value| value.as_deref() == Some("1")));
    assert_eq!(requests(&api), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_immutable_is_never_read_again() {
    let api = FakeApi::new();
    let sources = ApiSources::new(api.client(), Clock::system());
    api.put(&config_map("1", true));
    sources.keep(&pod("one"));
    assert!(value(&sources).await.is_some());
    advance(Duration::from_hours(24)).await;
    sources.keep(&pod("one"));
    assert!(value(&sources).await.is_some());
    assert_eq!(requests(&api), 1);
    sources.forget(&PodIdentity::of(&pod("one")));
    advance(Duration::from_mins(1)).await;
    sources.keep(&pod("two"));
    assert!(value(&sources).await.is_some());
    assert_eq!(requests(&api), 1, "it may be another one by then");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_looked_for_each_time_and_trouble_is_told() {
    let api = FakeApi::new();
    let sources = ApiSources::new(api.client(), Clock::system());
    assert_eq!(value(&sources).await, None);
    api.put(&config_map("1", false));
    assert_eq!(value(&sources).await.as_deref(), Some("1"));
    advance(Duration::from_mins(2)).await;
    api.faults().fail_next(1, 403);
    assert!(matches!(
        sources.config_map("shop", "x").await,
        Err(SourceError::Refused(_))
    ));
    assert_eq!(value(&sources).await.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn services_are_watched_and_those_of_the_namespace_told() {
    let api = FakeApi::new();
    let sources = ApiSources::new(api.client(), Clock::system());
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

/// An API that gives tokens, or refuses.
struct Issuer {
    sources: ApiSources,
    asked: Arc<Mutex<Vec<Value>>>,
    is_broken: Arc<std::sync::atomic::AtomicBool>,
    seconds: Arc<AtomicI64>,
}

fn issuer() -> Issuer {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let is_broken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let time = Arc::clone(&seconds);
    let clock = Clock::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
    let log = Arc::clone(&asked);
    let broken = Arc::clone(&is_broken);
    let now = clock.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        let broken = Arc::clone(&broken);
        let now = now.clone();
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect_bytes().await?;
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            if broken.load(Ordering::Relaxed) {
                let status = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
                return Ok::<_, kube::Error>(answer(403, &status));
            }
            let count = {
                let mut log = log.lock().unwrap();
                log.push(json!({"path": path, "spec": body["spec"]}));
                log.len()
            };
            let life = SignedDuration::from_secs(body["spec"]["expirationSeconds"].as_i64().unwrap());
            body["status"] = json!({"token": format!("token-{count}"), "expirationTimestamp": (now.now() + life).to_string()});
            Ok(answer(201, &body))
        }
    });
    let sources = ApiSources::new(kube::Client::new(service, "default"), clock);
    Issuer {
        sources,
        asked,
        is_broken,
        seconds,
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}

#[tokio::test]
async fn a_token_is_bound_to_its_pod_and_renewed_in_time() {
    let issuer = issuer();
    let pod = PodIdentity {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
    };
    let token = async || issuer.sources.token(&pod, "robot", Some("vault"), 3600).await;
    assert_eq!(token().await.unwrap().text, "token-1");
    assert_eq!(token().await.unwrap().text, "token-1");
    let asked = issuer.asked.lock().unwrap()[0].clone();
    assert_eq!(
        asked["path"],
        "/api/v1/namespaces/shop/serviceaccounts/robot/token"
    );
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"});
    assert_eq!(
        asked["spec"],
        json!({"audiences": ["vault"], "boundObjectRef": bound, "expirationSeconds": 3600})
    );

    issuer.seconds.fetch_add(2800, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().text, "token-1");
    issuer.seconds.fetch_add(81, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().text, "token-2");

    // While no other can be had, the old one goes on until it ends.
    issuer.is_broken.store(true, Ordering::Relaxed);
    issuer.seconds.fetch_add(3500, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().text, "token-2");
    issuer.seconds.fetch_add(200, Ordering::Relaxed);
    let told = token().await.unwrap_err().to_string();
    assert_eq!(
        told,
        "token of service account shop/robot expired and refresh failed: no"
    );
    issuer.sources.forget(&pod);
    assert_eq!(
        token().await.unwrap_err().to_string(),
        "failed to fetch token: no"
    );
    issuer.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(token().await.unwrap().text, "token-3");
}
