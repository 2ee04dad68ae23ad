//! Every resource that is stored, built in and custom, and objects of each.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use http::Method;
use k3_api::{
    encode::encode_stored,
    kinds::{Kind, Persistence, builtin},
};
use k3_storage::{Key, Page, Prefix, Revision, Store, Write};
use serde_json::{Value, json};

use crate::client::Client;

const NAMESPACE: &str = "behind";

/// A resource whose objects are stored.
pub(crate) struct StoredResource {
    /// The path of all objects.
    pub(crate) path: String,
    /// The path of the objects of the namespace.
    objects: String,
    /// The prefix of the keys of all objects.
    prefix: String,
    /// What the keys of the namespace have after the prefix.
    namespace: &'static str,
    kind: String,
    api_version: String,
}

// --- StoredResource ---

impl StoredResource {
    /// All of them, with those of a definition for `widgets` in `history.example.com`.
    pub(crate) fn all() -> Vec<Self> {
        let kinds = builtin().all().iter();
        let stored = kinds.filter(|kind| kind.persistence == Persistence::Stored && kind.allows("watch"));
        let mut all: Vec<_> = stored.map(Self::of).collect();
        assert!(all.len() > 60, "{} kinds are stored", all.len());
        all.push(Self::custom("widgets", "Widget"));
        all
    }

    /// Those of which each has objects of its own: some are the same objects in another version.
    pub(crate) fn with_own_objects() -> Vec<Self> {
        let mut seen = BTreeSet::new();
        let mut all = Self::all();
        all.retain(|resource| seen.insert(resource.prefix.clone()));
        all
    }

    fn of(kind: &Kind) -> Self {
        let stored = match (&*kind.group, &*kind.kind) {
            ("events.k8s.io", "Event") => builtin().kind("", "v1", "Event").unwrap(),
            ("autoscaling", "HorizontalPodAutoscaler") => builtin()
                .kind("autoscaling", "v2", "HorizontalPodAutoscaler")
                .unwrap(),
            _ => kind,
        };
        let root = if kind.group.is_empty() { "/api" } else { "/apis" };
        let base = format!("{root}/{}", kind.api_version());
        let group = if stored.group.is_empty() {
            "core"
        } else {
            &stored.group
        };
        StoredResource {
            path: format!("{base}/{}", kind.plural),
            objects: if kind.is_namespaced() {
                format!("{base}/namespaces/{NAMESPACE}/{}", kind.plural)
            } else {
                format!("{base}/{}", kind.plural)
            },
            prefix: format!("/registry/{group}/{}/", stored.plural),
            namespace: if kind.is_namespaced() { "behind/" } else { "" },
            kind: stored.kind.to_string(),
            api_version: stored.api_version(),
        }
    }

    pub(crate) fn custom(plural: &str, kind: &str) -> Self {
        let base = "/apis/history.example.com/v1";
        StoredResource {
            path: format!("{base}/{plural}"),
            objects: format!("{base}/namespaces/{NAMESPACE}/{plural}"),
            prefix: format!("/registry/history.example.com/{plural}/"),
            namespace: "behind/",
            kind: kind.to_owned(),
            api_version: "history.example.com/v1".to_owned(),
        }
    }

    /// The revision among those of resources that is of the objects of this one.
    pub(crate) fn last_of(&self, owned: &[Self], revisions: &[u64]) -> u64 {
        let position = owned.iter().position(|owner| owner.prefix == self.prefix);
        revisions[position.unwrap()]
    }

    pub(crate) fn object_path(&self, name: &str) -> String {
        format!("{}/{name}", self.objects)
    }

    fn key(&self, name: &str) -> Key {
        Key::try_new(format!("{}{}{name}", self.prefix, self.namespace)).unwrap()
    }

    /// An object as it is stored: no more than all kinds have.
    fn stored(&self, name: &str, state: &str) -> Vec<u8> {
        let mut object = json!({
            "kind": self.kind,
            "apiVersion": self.api_version,
            "metadata": {
                "name": name,
                "uid": format!("00000000-0000-4000-8000-{:012x}", name.len()),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"state": state},
            },
        });
        if !self.namespace.is_empty() {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        encode_stored(object.as_object().unwrap())
    }

    pub(crate) async fn create(&self, store: &dyn Store, name: &str) -> u64 {
        let write = Write::create(self.key(name), self.stored(name, "new"));
        store.commit(write).await.unwrap().get()
    }

    pub(crate) async fn update(&self, store: &dyn Store, name: &str) -> u64 {
        // Controllers of the server may write some kinds meanwhile.
        loop {
            let entry = store.get(&self.key(name)).await.unwrap().unwrap();
            let state = format!("after-{}", entry.revision);
            let write = Write::update(self.key(name), entry.revision, self.stored(name, &state));
            if let Ok(revision) = store.commit(write).await {
                return revision.get();
            }
        }
    }

    pub(crate) async fn delete(&self, store: &dyn Store, name: &str) {
        loop {
            let entry = store.get(&self.key(name)).await.unwrap().unwrap();
            let write = Write::delete(self.key(name), entry.revision);
            if store.commit(write).await.is_ok() {
                return;
            }
        }
    }

    /// What is stored at a revision: the revisions of objects, by their keys without the prefix.
    async fn stored_at(&self, store: &dyn Store, revision: u64) -> BTreeMap<String, u64> {
        let page = Page {
            at: Some(Revision::new(revision)),
            ..Page::all()
        };
        let prefix = Prefix::try_new(&self.prefix).unwrap();
        let range = store.range(&prefix, page).await.unwrap();
        let name = |key: &Key| key[self.prefix.len()..].to_owned();
        let entries = range.entries.iter();
        entries
            .map(|entry| (name(&entry.key), entry.revision.get()))
            .collect()
    }

    /// Lists, and checks that the list is what was stored at the revision that it names. Gives the revision.
    pub(crate) async fn check_list(&self, client: &Client, store: &dyn Store, options: &str) -> u64 {
        let path = format!("{}?{options}", self.path);
        let reply = client.get(&path).await;
        assert_eq!(reply.code, 200, "{path}: {}", reply.text);
        let revision = version(&reply.body);
        let listed: BTreeMap<_, _> = reply.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (full_name(item), version(item)))
            .collect();
        assert_eq!(
            listed,
            self.stored_at(store, revision).await,
            "{path} at {revision}"
        );
        revision
    }
}

/// Does something with every resource at once.
pub(crate) async fn for_all<'r, F: Future>(
    all: &'r [StoredResource],
    each: impl Fn(&'r StoredResource) -> F,
) -> Vec<F::Output> {
    join_all(all.iter().map(each)).await
}

/// The resource version of an object or a list.
pub(crate) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.unwrap_or_else(|| panic!("no version: {object}"))
        .parse()
        .unwrap()
}

pub(crate) fn full_name(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Defines a custom resource, and waits until it is served.
pub(crate) async fn define(client: &Client, plural: &str, kind: &str) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.history.example.com")},
        "spec": {
            "group": "history.example.com",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.create(path, &definition).await;
    let objects = StoredResource::custom(plural, kind).path;
    client.get_until(&objects, |reply| reply.code == 200).await;
}

/// Deletes the definition of a custom resource, and waits until it is not served.
pub(crate) async fn remove_definition(client: &Client, plural: &str) {
    let name = format!("{plural}.history.example.com");
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let reply = client.send(Method::DELETE, &path, None).await;
    assert!(reply.code < 300, "{}", reply.text);
    client.get_until(&path, |reply| reply.code == 404).await;
}
