//! A small cluster with users for authorization tests.

use std::sync::Arc;

use k3_api::{
    kinds::builtin,
    strategy::{Tree, User},
};
use k3_storage::{Write, memory::MemoryStore};
use serde_json::Value;

use super::{AuthorizationAttributes, AuthorizationTarget, Authorizer, Decision, ResourceAttributes};
use crate::{
    cache::{StoreReflector, WatchCaches},
    registry::{self, Resource},
};

/// A cluster, and who decides in it.
pub(crate) struct TestCluster {
    pub caches: Arc<WatchCaches>,
    pub authorizer: Arc<Authorizer>,
    _feed: StoreReflector,
}

impl TestCluster {
    /// A cluster with nothing in it.
    pub(crate) async fn new() -> Self {
        let (caches, feed) = WatchCaches::fill(MemoryStore::new(), registry::selectable)
            .await
            .unwrap();
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&caches)));
        TestCluster {
            caches,
            authorizer,
            _feed: feed,
        }
    }

    fn resource_and_key(&self, object: &Value) -> (Resource, k3_storage::Key) {
        let version = object.text("apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = builtin().kind(group, version, object.text("kind")).unwrap();
        let resource = Resource::of(kind, &self.caches);
        let metadata = object.at("metadata");
        let key = resource
            .key(metadata.text("namespace"), metadata.text("name"))
            .unwrap();
        (resource, key)
    }

    /// Puts an object in, or in the place of another one, as it is.
    pub(crate) async fn put(&self, object: &Value) {
        let (resource, key) = self.resource_and_key(object);
        let bytes = k3_api::encode::encode_stored(object.as_object().unwrap());
        let write = match resource.cache.get(&key) {
            Some(old) => Write::update(key, old.revision, bytes),
            None => Write::create(key, bytes),
        };
        let revision = self.caches.store().writable().commit(write).await.unwrap();
        self.caches.wait_until_applied(revision).await;
    }

    /// Takes an object out.
    pub(crate) async fn remove(&self, object: &Value) {
        let (resource, key) = self.resource_and_key(object);
        let old = resource.cache.get(&key).unwrap();
        let write = Write::delete(key, old.revision);
        let revision = self.caches.store().writable().commit(write).await.unwrap();
        self.caches.wait_until_applied(revision).await;
    }

    /// What is said to a user who wants to do something: to `group/resource/part` or to a path.
    pub(crate) fn ask(&self, who: &User, verb: &str, what: AuthorizationTarget<'_>) -> Decision {
        let action = AuthorizationAttributes {
            user: who,
            verb,
            what,
        };
        self.authorizer.decide(&action)
    }

    /// Whether a user may do something to a resource, written `group/resource`, `resource/part` or `resource`.
    pub(crate) fn may(&self, who: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let object = object(resource, namespace, name);
        matches!(
            self.ask(who, verb, AuthorizationTarget::Resource(object)),
            Decision::Allow(_)
        )
    }
}

/// A resource, written `group:resource/part` with what is needed of that.
pub(crate) fn object<'a>(text: &'a str, namespace: &'a str, name: &'a str) -> ResourceAttributes<'a> {
    let (group, rest) = text.split_once(':').unwrap_or(("", text));
    let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
    ResourceAttributes {
        group,
        resource,
        subresource,
        namespace,
        name,
        ..ResourceAttributes::default()
    }
}

/// A user with groups.
pub(crate) fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.to_owned(),
        groups: groups.iter().map(ToString::to_string).collect(),
        ..User::default()
    }
}
