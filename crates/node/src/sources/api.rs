//! Reads objects from the API server.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::{
    certificates::v1::ClusterTrustBundle,
    core::v1::{
        ConfigMap, Container, EnvFromSource, EnvVar, EphemeralContainer, PersistentVolume,
        PersistentVolumeClaim, Pod, Secret, Service, Volume,
    },
    node::v1::RuntimeClass,
};
use kube::Api;
use kubecontroller::{
    Clock, Key,
    informer::{Informer, InformerScope, SharedInformerFactory},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{
    ObjectSourceError, ObjectSources, ServiceAccountToken,
    object_store::{ObjectStore, ReferencedObject},
    token_manager::{TokenKey, TokenManager},
};
use crate::PodIdentity;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads objects from the API server, with the permissions of a node (authorization mode `Node`): it may get ConfigMaps, Secrets,
/// claims and volumes of its pods by name, but not list or watch them. Services and ClusterTrustBundles it may list.
pub struct ApiObjectSources {
    client: kube::Client,
    config_maps: ObjectStore<ConfigMap>,
    secrets: ObjectStore<Secret>,
    tokens: TokenManager,
    informers: SharedInformerFactory,
    /// Started by the first pod that needs service environment variables.
    services: OnceLock<Informer<Service>>,
    /// Started by the first pod that mounts a bundle: hardly any does.
    trust_bundles: OnceLock<Informer<ClusterTrustBundle>>,
}

// --- ApiObjectSources ---

impl ApiObjectSources {
    /// Sends no requests yet.
    pub fn new(client: kube::Client, clock: Clock) -> Self {
        ApiObjectSources {
            config_maps: ObjectStore::new(client.clone()),
            secrets: ObjectStore::new(client.clone()),
            tokens: TokenManager::new(client.clone(), clock, random),
            informers: SharedInformerFactory::new(client.clone()),
            services: OnceLock::new(),
            trust_bundles: OnceLock::new(),
            client,
        }
    }

    async fn service_informer(&self) -> Result<&Informer<Service>, ObjectSourceError> {
        let services = self.services.get_or_init(|| {
            let mut options = self.informers.default_options::<Service>();
            options = options.transform(|service| {
                // Only names, addresses and ports are used. Dropping the rest saves memory in large clusters.
                service.metadata.managed_fields = None;
                service.metadata.annotations = None;
                service.status = None;
            });
            // The error means that an informer with other options exists. It cannot: this factory is private.
            let informer = self.informers.typed_with(InformerScope::default(), options);
            let informer = informer.unwrap_or_else(|_| self.informers.typed(InformerScope::default()));
            self.informers.start();
            informer
        });
        let resource = "service".to_owned();
        timeout(REQUEST_TIMEOUT, services.wait_for_sync())
            .await
            .map_err(|_| ObjectSourceError::Timeout { resource })?;
        Ok(services)
    }
}

#[async_trait]
impl ObjectSources for ApiObjectSources {
    async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<ConfigMap>>, ObjectSourceError> {
        self.config_maps.get(namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, ObjectSourceError> {
        self.secrets.get(namespace, name).await
    }

    async fn service_account_token(
        &self,
        pod: &PodIdentity,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<ServiceAccountToken, ObjectSourceError> {
        let key = TokenKey {
            pod: pod.clone(),
            account: account.to_owned(),
            audience: audience.map(str::to_owned),
            seconds,
        };
        self.tokens.get(key).await
    }

    async fn persistent_volume_claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, ObjectSourceError> {
        let claims = Api::namespaced(self.client.clone(), namespace);
        get("persistentvolumeclaim", claims, name).await
    }

    async fn persistent_volume(
        &self,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolume>>, ObjectSourceError> {
        get("persistentvolume", Api::all(self.client.clone()), name).await
    }

    async fn runtime_class(&self, name: &str) -> Result<Option<Arc<RuntimeClass>>, ObjectSourceError> {
        get("runtimeclass", Api::all(self.client.clone()), name).await
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Arc<Service>>, ObjectSourceError> {
        let store = self.service_informer().await?.store();
        let kubernetes = Key::new("default", "kubernetes");
        let mut services = store.by_namespace().get(namespace);
        if namespace != "default" {
            services.extend(store.get(&kubernetes));
        }
        Ok(services)
    }

    async fn cluster_trust_bundles(&self) -> Result<Vec<Arc<ClusterTrustBundle>>, ObjectSourceError> {
        let bundles = self.trust_bundles.get_or_init(|| {
            let informer = self.informers.typed(InformerScope::default());
            self.informers.start();
            informer
        });
        let resource = "clustertrustbundle".to_owned();
        let synced = timeout(REQUEST_TIMEOUT, bundles.wait_for_sync()).await;
        synced.map_err(|_| ObjectSourceError::Timeout { resource })?;
        Ok(bundles.store().all())
    }

    fn register_pod(&self, pod: &Pod) {
        let identity = PodIdentity::of(pod);
        let (config_maps, secrets) = referenced_objects(pod);
        self.config_maps.set_references(&identity.uid, &config_maps);
        self.secrets.set_references(&identity.uid, &secrets);
    }

    fn unregister_pod(&self, pod: &PodIdentity) {
        self.config_maps.remove_references(&pod.uid);
        self.secrets.remove_references(&pod.uid);
        self.tokens.remove_pod(&pod.uid);
    }
}

/// Reads an object, uncached.
async fn get<K>(resource: &str, api: Api<K>, name: &str) -> Result<Option<Arc<K>>, ObjectSourceError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let response = timeout(REQUEST_TIMEOUT, api.get_opt(name)).await;
    let response = response.map_err(|_| ObjectSourceError::Timeout {
        resource: resource.to_owned(),
    })?;
    let object = response.map_err(|error| ObjectSourceError::from_client_error(resource, error))?;
    Ok(object.map(Arc::new))
}

/// A random number from 0 to 1, for the jitter of token refreshes. Falls back to 0, which only removes the jitter.
fn random() -> f64 {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 4];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return 0.0;
    }
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

// --- ReferencedObject ---

impl ReferencedObject for ConfigMap {
    const RESOURCE: &'static str = "configmap";

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    fn api(client: &kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client.clone(), namespace)
    }
}

impl ReferencedObject for Secret {
    const RESOURCE: &'static str = "secret";

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    fn api(client: &kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client.clone(), namespace)
    }
}

// --- References ---

/// The ConfigMaps and Secrets that a pod refers to.
// upstream: pkg/api/v1/pod/util.go VisitPodSecretNames, VisitPodConfigmapNames
fn referenced_objects(pod: &Pod) -> (BTreeSet<Key>, BTreeSet<Key>) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut names = ReferencedNames::default();
    let Some(spec) = &pod.spec else {
        return Default::default();
    };
    for secret in spec.image_pull_secrets.iter().flatten() {
        names.secrets.insert(secret.name.clone());
    }
    for volume in spec.volumes.iter().flatten() {
        names.add_volume(volume);
    }
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    for container in containers {
        names.add_container(container);
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        names.add_ephemeral_container(container);
    }
    let keys = |names: BTreeSet<String>| {
        // Names may be empty: they are optional in the API.
        let names = names.into_iter().filter(|name| !name.is_empty());
        names.map(|name| Key::new(namespace, &name)).collect()
    };
    (keys(names.config_maps), keys(names.secrets))
}

#[derive(Default)]
struct ReferencedNames {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl ReferencedNames {
    fn add_volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.config_maps.insert(source.name.clone());
        }
        if let Some(name) = volume
            .secret
            .as_ref()
            .and_then(|source| source.secret_name.clone())
        {
            self.secrets.insert(name);
        }
        let projected = volume.projected.iter().flat_map(|source| &source.sources);
        for source in projected.flatten() {
            if let Some(source) = &source.config_map {
                self.config_maps.insert(source.name.clone());
            }
            if let Some(source) = &source.secret {
                self.secrets.insert(source.name.clone());
            }
        }
    }

    fn add_container(&mut self, container: &Container) {
        self.add_environment(container.env.as_ref(), container.env_from.as_ref());
    }

    fn add_ephemeral_container(&mut self, container: &EphemeralContainer) {
        self.add_environment(container.env.as_ref(), container.env_from.as_ref());
    }

    fn add_environment(&mut self, variables: Option<&Vec<EnvVar>>, env_from: Option<&Vec<EnvFromSource>>) {
        for source in env_from.into_iter().flatten() {
            if let Some(source) = &source.config_map_ref {
                self.config_maps.insert(source.name.clone());
            }
            if let Some(source) = &source.secret_ref {
                self.secrets.insert(source.name.clone());
            }
        }
        let variables = variables.into_iter().flatten();
        for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(source) = &source.config_map_key_ref {
                self.config_maps.insert(source.name.clone());
            }
            if let Some(source) = &source.secret_key_ref {
                self.secrets.insert(source.name.clone());
            }
        }
    }
}
