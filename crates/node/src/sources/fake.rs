//! In-memory object sources for tests.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::{
    api::{
        certificates::v1::ClusterTrustBundle,
        core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service},
        node::v1::RuntimeClass,
    },
    jiff::{SignedDuration, Timestamp},
};
use kubecontroller::Key;
use parking_lot::{Mutex, MutexGuard};

use super::{ObjectSourceError, ObjectSources, ServiceAccountToken};
use crate::PodIdentity;

/// Returns the objects that a test put into it.
#[derive(Default)]
pub(crate) struct FakeObjectSources {
    objects: Mutex<FakeObjects>,
}

#[derive(Default)]
struct FakeObjects {
    config_maps: BTreeMap<Key, Arc<ConfigMap>>,
    secrets: BTreeMap<Key, Arc<Secret>>,
    persistent_volume_claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    persistent_volumes: BTreeMap<String, Arc<PersistentVolume>>,
    runtime_classes: BTreeMap<String, Arc<RuntimeClass>>,
    services: Vec<Arc<Service>>,
    cluster_trust_bundles: Vec<Arc<ClusterTrustBundle>>,
    /// Suffix of tokens. Incremented by `refresh_tokens`.
    token_version: u32,
}

impl FakeObjectSources {
    pub(crate) fn put_config_map(&self, object: ConfigMap) {
        self.objects()
            .config_maps
            .insert(key(&object.metadata), Arc::new(object));
    }

    pub(crate) fn remove_config_map(&self, namespace: &str, name: &str) {
        self.objects().config_maps.remove(&Key::new(namespace, name));
    }

    pub(crate) fn put_secret(&self, object: Secret) {
        self.objects()
            .secrets
            .insert(key(&object.metadata), Arc::new(object));
    }

    pub(crate) fn put_persistent_volume_claim(&self, object: PersistentVolumeClaim) {
        self.objects()
            .persistent_volume_claims
            .insert(key(&object.metadata), Arc::new(object));
    }

    pub(crate) fn put_persistent_volume(&self, object: PersistentVolume) {
        let name = object.metadata.name.clone().unwrap_or_default();
        self.objects().persistent_volumes.insert(name, Arc::new(object));
    }

    pub(crate) fn put_runtime_class(&self, object: RuntimeClass) {
        let name = object.metadata.name.clone().unwrap_or_default();
        self.objects().runtime_classes.insert(name, Arc::new(object));
    }

    pub(crate) fn put_service(&self, object: Service) {
        self.objects().services.push(Arc::new(object));
    }

    pub(crate) fn put_cluster_trust_bundle(&self, object: ClusterTrustBundle) {
        self.objects().cluster_trust_bundles.push(Arc::new(object));
    }

    /// Makes later calls return new tokens.
    pub(crate) fn refresh_tokens(&self) {
        self.objects().token_version += 1;
    }

    fn objects(&self) -> MutexGuard<'_, FakeObjects> {
        self.objects.lock()
    }
}

fn key(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Key {
    Key::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

#[async_trait]
impl ObjectSources for FakeObjectSources {
    async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<ConfigMap>>, ObjectSourceError> {
        Ok(self
            .objects()
            .config_maps
            .get(&Key::new(namespace, name))
            .cloned())
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, ObjectSourceError> {
        Ok(self.objects().secrets.get(&Key::new(namespace, name)).cloned())
    }

    async fn service_account_token(
        &self,
        pod: &PodIdentity,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<ServiceAccountToken, ObjectSourceError> {
        let version = self.objects().token_version;
        let audience = audience.unwrap_or("api");
        Ok(ServiceAccountToken {
            token: format!("{account}-of-{}-for-{audience}-{version}", pod.name),
            expires: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds),
        })
    }

    async fn persistent_volume_claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, ObjectSourceError> {
        Ok(self
            .objects()
            .persistent_volume_claims
            .get(&Key::new(namespace, name))
            .cloned())
    }

    async fn persistent_volume(
        &self,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolume>>, ObjectSourceError> {
        Ok(self.objects().persistent_volumes.get(name).cloned())
    }

    async fn runtime_class(&self, name: &str) -> Result<Option<Arc<RuntimeClass>>, ObjectSourceError> {
        Ok(self.objects().runtime_classes.get(name).cloned())
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Arc<Service>>, ObjectSourceError> {
        let objects = self.objects();
        let is_selected = |service: &&Arc<Service>| {
            let key = key(&service.metadata);
            service.metadata.namespace.as_deref() == Some(namespace)
                || key == Key::new("default", "kubernetes")
        };
        Ok(objects.services.iter().filter(is_selected).cloned().collect())
    }

    async fn cluster_trust_bundles(&self) -> Result<Vec<Arc<ClusterTrustBundle>>, ObjectSourceError> {
        Ok(self.objects().cluster_trust_bundles.clone())
    }

    fn register_pod(&self, _pod: &Pod) {}

    fn unregister_pod(&self, _pod: &PodIdentity) {}
}
