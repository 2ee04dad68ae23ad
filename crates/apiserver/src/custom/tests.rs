//! Definitions on servers without connections, which may share a store.

use std::{sync::Arc, time::Duration};

use k3_api::{
    kinds::{KindRef, builtin},
    strategy::Tree,
};
use k3_storage::{Revision, memory::MemoryStore};
use serde_json::{Value, json};

use super::{
    CustomResourceConverter, CustomResourceDefinitionController, DefinitionRegistry, ServedDefinition,
};
use crate::{
    cache::{WatchCaches, WatchFilter, WatchStart},
    outgoing::{
        WebhookClientManager,
        testing::{FakeResponse, FakeWebhookServer},
    },
    registry::{self, Registry, RequestContext, Resource, own_user, testing::TestRegistry},
};

/// A server without its connections.
struct Node {
    registry: Arc<Registry>,
    caches: Arc<WatchCaches>,
    _controller: CustomResourceDefinitionController,
    _server: TestRegistry,
}

impl Node {
    async fn start(store: &Arc<MemoryStore>) -> Self {
        let store = Arc::<MemoryStore>::clone(store);
        let server = TestRegistry::start(store, "10.0.0.0/24").await;
        Node {
            registry: Arc::clone(&server.registry),
            caches: Arc::clone(&server.caches),
            _controller: CustomResourceDefinitionController::start(Arc::clone(&server.registry)),
            _server: server,
        }
    }

    async fn create(&self, object: Value) -> Result<(), k3_api::status::Status> {
        let api_version = object.text("apiVersion").to_owned();
        let (group, version) = api_version.split_once('/').unwrap();
        let kind = match builtin().kind(group, version, object.text("kind")) {
            Some(kind) => kind.into(),
            None => self.widgets(version),
        };
        self.registry.create_own(kind, object, own_user(), "test").await
    }

    fn widgets(&self, version: &str) -> KindRef {
        let definitions = self.caches.definitions();
        definitions.kind("example.com", version, "widgets").unwrap()
    }

    /// Whether objects are served. That follows the definition, which is seen a little before.
    fn serves(&self) -> bool {
        let definitions = self.caches.definitions();
        definitions.kind("example.com", "v1", "widgets").is_some()
    }

    fn definition(&self) -> Option<Value> {
        let cache = self.caches.resource(super::PREFIX);
        Some(cache.get(&format!("{}{NAME}", super::PREFIX))?.tree())
    }

    async fn delete(&self, kind: KindRef, name: &str) {
        let mut ctx = RequestContext::own(kind, "", own_user(), self.registry.now());
        name.clone_into(&mut ctx.target.name);
        self.registry.delete(&ctx).await.unwrap();
    }

    fn condition(&self, kind: &str) -> String {
        let crd = self.definition().unwrap_or_default();
        let condition = super::conditions::find(&crd, kind);
        condition.map_or_else(String::new, |condition| {
            format!("{} {}", condition.text("status"), condition.text("reason"))
        })
    }
}

const NAME: &str = "widgets.example.com";

fn definition(versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|name| {
            json!({
                "name": name, "served": true, "storage": *name == versions[0],
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": versions,
        },
    })
}

fn widget(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "finalizers": finalizers}, "spec": {"size": 1},
    })
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    assert!(waited.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_serve_and_finalize_definition() {
    let store = Arc::new(MemoryStore::new());
    let one = Node::start(&store).await;
    let two = Node::start(&store).await;
    one.create(definition(&["v1"])).await.unwrap();
    for node in [&one, &two] {
        until("it is established", || {
            node.condition("Established") == "True InitialNamesAccepted" && node.serves()
        })
        .await;
    }
    two.create(widget("a", &["example.com/held"])).await.unwrap();
    let widgets = Resource::of(two.widgets("v1"), &two.caches);
    let (mut watcher, _) = widgets
        .cache
        .watch(&WatchFilter::Everything, WatchStart::Now, two.caches.applied())
        .unwrap();

    let definitions = builtin().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    one.delete(definitions.unwrap().into(), NAME).await;
    until("the object is deleted", || {
        let object = widgets.cache.get("/registry/example.com/widgets/a");
        object.is_some_and(|object| object.tree().at("metadata").has("deletionTimestamp"))
    })
    .await;
    let refused = two.create(widget("b", &[])).await.unwrap_err();
    assert!(refused.message.contains("is terminating"), "{}", refused.message);
    // Whoever of the two did it: the other may hear of it later.
    until("the Terminating condition is set", || {
        one.condition("Terminating").starts_with("True InstanceDeletion")
    })
    .await;

    // Whoever held the object lets go of it.
    let mut object = widgets
        .cache
        .get("/registry/example.com/widgets/a")
        .unwrap()
        .tree();
    object["metadata"]["finalizers"] = json!([]);
    two.registry
        .update_own(&widgets, object, "test", None)
        .await
        .unwrap();
    for node in [&one, &two] {
        until("the definition is deleted", || node.definition().is_none()).await;
        until("nothing is served", || {
            let definitions = node.caches.definitions();
            definitions.find("example.com", "widgets").is_none()
        })
        .await;
    }
    let ended = async {
        while std::future::poll_fn(|context| watcher.poll(context))
            .await
            .is_some()
        {}
    };
    tokio::time::timeout(Duration::from_mins(1), ended).await.unwrap();
}

/// A server that was behind wakes up, and wants to end a definition that another server has ended since.
#[tokio::test(flavor = "multi_thread")]
async fn stale_server_does_not_delete_objects_of_new_definition() {
    let store = Arc::new(MemoryStore::new());
    let node = Node::start(&store).await;
    node.create(definition(&["v1"])).await.unwrap();
    until("it is served", || node.serves()).await;
    node.create(widget("a", &[])).await.unwrap();
    let widgets = Resource::of(node.widgets("v1"), &node.caches);
    let refused = node.registry.delete_own(&widgets, || false).await.unwrap_err();
    assert_eq!(refused.code, 409, "{}", refused.message);
    assert_eq!(widgets.cache.count(), 1);
    assert_eq!(node.registry.delete_own(&widgets, || true).await, Ok(0));
    assert_eq!(widgets.cache.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_server_resumes_finalization() {
    let store = Arc::new(MemoryStore::new());
    let first = Node::start(&store).await;
    first.create(definition(&["v1"])).await.unwrap();
    until("it is established", || {
        first.condition("Established").starts_with("True") && first.serves()
    })
    .await;
    first.create(widget("a", &[])).await.unwrap();
    // It ends after the definition was marked.
    let Node {
        registry,
        _controller,
        ..
    } = &first;
    let mut ctx = RequestContext::own(
        builtin()
            .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .unwrap(),
        "",
        own_user(),
        registry.now(),
    );
    NAME.clone_into(&mut ctx.target.name);
    registry.delete(&ctx).await.unwrap();
    drop(first);
    let next = Node::start(&store).await;
    until("the definition is deleted", || next.definition().is_none()).await;
    assert_eq!(next.caches.resource("/registry/example.com/widgets/").count(), 0);
}

fn served(webhook: &Value) -> Arc<ServedDefinition> {
    let mut crd = definition(&["v1", "v2"]);
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": webhook},
    });
    crd["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
    let definitions = DefinitionRegistry::default();
    definitions.follow(NAME, Some(&crd), Revision::new(1));
    definitions.find("example.com", "widgets").unwrap()
}

async fn converted(callee: &FakeWebhookServer, objects: Vec<Value>) -> Result<Vec<Value>, String> {
    let store = MemoryStore::new();
    let (caches, _feed) = WatchCaches::fill(store, registry::selectable).await.unwrap();
    let converter = CustomResourceConverter::new(Arc::new(WebhookClientManager::new(caches, Arc::default())));
    let served = served(&callee.client("/convert"));
    let converted = converter.show(&served, objects, "v2").await;
    converted.map_err(|error| error.to_string())
}

/// A webhook that applies a change to each object.
async fn webhook(change: impl Fn(&mut Value) + Send + Sync + 'static) -> FakeWebhookServer {
    FakeWebhookServer::new(move |_, review| {
        let request = &review["request"];
        let mut objects = request["objects"].as_array().unwrap().clone();
        for object in &mut objects {
            object["apiVersion"] = request["desiredAPIVersion"].clone();
            change(object);
        }
        FakeResponse::Json(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
        }))
    })
    .await
}

#[tokio::test]
async fn converts_many_objects_in_one_call() {
    let callee = webhook(|object| object["spec"] = json!({"length": 1})).await;
    let mut there = widget("c", &[]);
    there["apiVersion"] = json!("example.com/v2");
    let objects = vec![widget("a", &[]), there, widget("b", &[])];
    let all = converted(&callee, objects).await.unwrap();
    assert_eq!(callee.calls().len(), 1);
    assert_eq!(
        callee.calls()[0]["request"]["objects"].as_array().unwrap().len(),
        2
    );
    let specs: Vec<&Value> = all.iter().map(|object| &object["spec"]).collect();
    assert_eq!(
        specs,
        [&json!({"length": 1}), &json!({"size": 1}), &json!({"length": 1})]
    );
    assert!(all.iter().all(|object| object["apiVersion"] == "example.com/v2"));
}

#[tokio::test]
async fn conversion_may_change_only_labels_and_annotations() {
    let callee = webhook(|object| {
        object["metadata"]["labels"] = json!({"a": "b"});
        object["metadata"]["generation"] = json!(7);
    })
    .await;
    let all = converted(&callee, vec![widget("a", &[])]).await.unwrap();
    assert_eq!(all[0]["metadata"]["labels"], json!({"a": "b"}));
    assert_ne!(all[0]["metadata"]["generation"], json!(7));
    let callee = webhook(|object| object["metadata"]["name"] = json!("other")).await;
    let refused = converted(&callee, vec![widget("a", &[])]).await.unwrap_err();
    assert!(
        refused.ends_with("must have the same name: a != other"),
        "{refused}"
    );
}

#[tokio::test]
async fn reports_conversion_webhook_failure() {
    let callee = FakeWebhookServer::new(|_, review| {
        let uid = &review["request"]["uid"];
        FakeResponse::Json(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "response": {"uid": uid, "result": {"status": "Failure", "message": "no such field"}},
        }))
    })
    .await;
    let refused = converted(&callee, vec![widget("a", &[])]).await.unwrap_err();
    let expected = "conversion webhook for example.com/v1, Kind=Widget failed: no such field";
    assert_eq!(refused, expected);
    let callee = FakeWebhookServer::new(|_, _| FakeResponse::Text(500, "broken")).await;
    let refused = converted(&callee, vec![widget("a", &[])]).await.unwrap_err();
    let expected = "conversion webhook for example.com/v1, Kind=Widget failed: an error on the server (\"broken\") has prevented \
                    the request from succeeding";
    assert_eq!(refused, expected);
}
