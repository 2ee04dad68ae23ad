//! Requests that are as costly as clients can make them: every list and map of every kind, and patches up to the limit of
//! bodies.

mod clock;
#[expect(dead_code, reason = "the tests of costs use all of it")]
#[path = "../../../api/tests/cost/objects.rs"]
mod objects;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use http::Method;
use k3_api::kinds::Kind;
use serde_json::{Value, json};

use self::objects::{Entries, field_locations};
use crate::{
    backend::Backend,
    client::{Client, TestResponse},
};

/// Entries of each list and map. The tests of costs compare sizes; here it counts that all of them are answered.
const ENTRIES: usize = 400;
/// What an error may take.
const MOST_ERROR: usize = 256 * 1024;
/// How often others are answered before the test ends.
const LEAST_ANSWERS: usize = 20;

on_every_backend!(answers_hostile_objects_of_every_kind, answers_large_patches);

async fn answers_hostile_objects_of_every_kind(backend: &Backend) {
    let client = Client::start(backend.open().await).await;
    let requests = requests();
    beside_others(&client, || async {
        let mut wrong = Vec::new();
        for (path, object, name) in &requests {
            let reply = client.send(Method::POST, path, Some(object)).await;
            // upstream: pkg/registry/core/pod/storage/storage.go BindingREST.Create; it returns errors that are no status
            let is_binding = reply.code == 500 && reply.text.contains("target.name: Required value");
            if !is_binding && let Err(error) = check(&reply, name) {
                wrong.push(error);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    })
    .await;
}

/// The path of each request, its object, and what it is called in messages.
fn requests() -> Vec<(String, Value, String)> {
    let mut written = HashSet::new();
    let mut requests = Vec::new();
    for (position, location) in field_locations().into_iter().enumerate() {
        let kind = location.kind;
        let entries = [Entries::Distinct, Entries::Equal, Entries::EqualOrEmpty][position % 3];
        let mut object = location.object(ENTRIES, entries);
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        let path = path(kind);
        requests.push((
            format!("{path}?dryRun=All"),
            object.clone(),
            format!("dry run: {}", location.name()),
        ));
        // One of each kind is stored. Policies and webhooks would have a say in what follows.
        if written.insert(path.clone()) && kind.group != "admissionregistration.k8s.io" {
            requests.push((path, object, location.name()));
        }
    }
    requests
}

fn path(kind: &Kind) -> String {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let namespace = if kind.is_namespaced() {
        "/namespaces/default"
    } else {
        ""
    };
    format!("{root}/{}{namespace}/{}", kind.api_version(), kind.plural)
}

async fn answers_large_patches(backend: &Backend) {
    const PATH: &str = "/api/v1/namespaces/default/configmaps";
    let client = Client::start(backend.open().await).await;
    let config_map = json!({"metadata": {"name": "patched"}, "data": {"a": "b"}});
    client.create(PATH, &config_map).await;
    let data = |count: usize| {
        let entries: Vec<_> = (0..count).map(|key| format!("\"k{key}\":\"v\"")).collect();
        format!("{{{}}}", entries.join(","))
    };
    let document = |data: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"patched"}},"data":{data}}}"#)
    };
    let operations = |data: &str| format!(r#"[{{"op":"replace","path":"/data","value":{data}}}]"#);
    // With its record of managed fields, the larger one is too large for every store.
    for (count, code) in [(150_000, 413), (20_000, 200)] {
        let data = data(count);
        beside_others(&client, || async {
            for (media, body) in [
                ("application/merge-patch+json", document(&data)),
                ("application/strategic-merge-patch+json", document(&data)),
                ("application/json-patch+json", operations(&data)),
                ("application/apply-patch+yaml", document(&data)),
            ] {
                let force = if media.contains("apply") {
                    "&force=true"
                } else {
                    ""
                };
                for query in ["dryRun=All", ""] {
                    let path = format!("{PATH}/patched?fieldManager=a{force}&{query}");
                    let name = format!("{count} keys, {media} {query}");
                    let reply = client.send_as(Method::PATCH, &path, media, body.clone()).await;
                    check(&reply, &name).unwrap();
                    assert_eq!(reply.code, code, "{name}: {}", cut(&reply.text));
                }
            }
        })
        .await;
    }
    let stored = client.get(&format!("{PATH}/patched")).await;
    assert_eq!(stored.body["data"].as_object().unwrap().len(), 20_000);
}

/// Runs requests one after the other, again until others were answered often enough meanwhile.
async fn beside_others<F: Future<Output = ()>>(client: &Client, run: impl Fn() -> F) {
    let is_over = AtomicBool::new(false);
    let answers = AtomicUsize::new(0);
    let requests = async {
        loop {
            run().await;
            if answers.load(Relaxed) >= LEAST_ANSWERS {
                break;
            }
        }
        is_over.store(true, Relaxed);
    };
    let others = async {
        while !is_over.load(Relaxed) {
            let reply = client.send(Method::GET, "/healthz", None).await;
            assert_eq!(reply.code, 200, "{}", reply.text);
            answers.fetch_add(1, Relaxed);
            // In memory nothing waits: the other requests must get their turn.
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(requests, others);
}

/// Whether a request was answered as it may be: not with a failure of the server, and not with a long error.
fn check(reply: &TestResponse, name: &str) -> Result<(), String> {
    if !(200..500).contains(&reply.code) {
        return Err(format!("{name}: {} {}", reply.code, cut(&reply.text)));
    }
    if reply.code >= 400 && reply.text.len() > MOST_ERROR {
        return Err(format!("{name}: {} with {} bytes", reply.code, reply.text.len()));
    }
    Ok(())
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(1000)]
}
