//! A double for tests: what is there is what was put there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use k8s_openapi::{
    api::{
        certificates::v1::ClusterTrustBundle,
        core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service},
    },
    jiff::{SignedDuration, Timestamp},
};
use kubecontroller::Key;

use super::{SourceError, Sources, Token};
use crate::PodIdentity;

/// Sources in memory.
#[derive(Default)]
pub(crate) struct MemorySources {
    world: Mutex<World>,
}

#[derive(Default)]
struct World {
    config_maps: BTreeMap<Key, Arc<ConfigMap>>,
    secrets: BTreeMap<Key, Arc<Secret>>,
    claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    services: Vec<Arc<Service>>,
    trust_bundles: Vec<Arc<ClusterTrustBundle>>,
    /// How many tokens were made anew: a test says when they change.
    token_age: u32,
}

impl MemorySources {
    pub(crate) fn put_config_map(&self, object: ConfigMap) {
        self.world()
            .config_maps
            .insert(key(&object.metadata), Arc::new(object));
    }

    pub(crate) fn remove_config_map(&self, namespace: &str, name: &str) {
        self.world().config_maps.remove(&Key::new(namespace, name));
    }

    pub(crate) fn put_secret(&self, object: Secret) {
        self.world()
            .secrets
            .insert(key(&object.metadata), Arc::new(object));
    }

    pub(crate) fn put_claim(&self, object: PersistentVolumeClaim) {
        self.world()
            .claims
            .insert(key(&object.metadata), Arc::new(object));
    }

    pub(crate) fn put_volume(&self, object: PersistentVolume) {
        let name = object.metadata.name.clone().unwrap_or_default();
        self.world().volumes.insert(name, Arc::new(object));
    }

    pub(crate) fn put_service(&self, object: Service) {
        self.world().services.push(Arc::new(object));
    }

    pub(crate) fn put_trust_bundle(&self, object: ClusterTrustBundle) {
        self.world().trust_bundles.push(Arc::new(object));
    }

    /// From now on tokens are others.
    pub(crate) fn renew_tokens(&self) {
        self.world().token_age += 1;
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Key {
    Key::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

#[async_trait]
impl Sources for MemorySources {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, SourceError> {
        Ok(self.world().config_maps.get(&Key::new(namespace, name)).cloned())
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, SourceError> {
        Ok(self.world().secrets.get(&Key::new(namespace, name)).cloned())
    }

    async fn token(
        &self,
        pod: &PodIdentity,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<Token, SourceError> {
        let age = self.world().token_age;
        let audience = audience.unwrap_or("api");
        Ok(Token {
            text: format!("{account}-of-{}-for-{audience}-{age}", pod.name),
            expires: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds),
        })
    }

    async fn claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, SourceError> {
        Ok(self.world().claims.get(&Key::new(namespace, name)).cloned())
    }

    async fn volume(&self, name: &str) -> Result<Option<Arc<PersistentVolume>>, SourceError> {
        Ok(self.world().volumes.get(name).cloned())
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Arc<Service>>, SourceError> {
        let world = self.world();
        let is_seen = |service: &&Arc<Service>| {
            let key = key(&service.metadata);
            service.metadata.namespace.as_deref() == Some(namespace)
                || key == Key::new("default", "kubernetes")
        };
        Ok(world.services.iter().filter(is_seen).cloned().collect())
    }

    async fn trust_bundles(&self) -> Result<Vec<Arc<ClusterTrustBundle>>, SourceError> {
        Ok(self.world().trust_bundles.clone())
    }

    fn keep(&self, _pod: &Pod) {}

    fn forget(&self, _pod: &PodIdentity) {}
}
