//! Asks the API.

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
};
use kube::Api;
use kubecontroller::{
    Clock, Key,
    informer::{Informer, InformerScope, SharedInformerFactory},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{
    SourceError, Sources, Token,
    objects::{Kind, Objects},
    tokens::{Asked, Tokens},
};
use crate::PodIdentity;

/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// The API, asked with the rights of a node.
pub struct ApiSources {
    client: kube::Client,
    config_maps: Objects<ConfigMap>,
    secrets: Objects<Secret>,
    tokens: Tokens,
    informers: SharedInformerFactory,
    /// Begun with the first pod that wants them.
    services: OnceLock<Informer<Service>>,
    /// As `services`: hardly any pod wants them.
    trust_bundles: OnceLock<Informer<ClusterTrustBundle>>,
}

// --- ApiSources ---

impl ApiSources {
    /// Asks nothing yet.
    pub fn new(client: kube::Client, clock: Clock) -> Self {
        ApiSources {
            config_maps: Objects::new(client.clone()),
            secrets: Objects::new(client.clone()),
            tokens: Tokens::new(client.clone(), clock, random),
            informers: SharedInformerFactory::new(client.clone()),
            services: OnceLock::new(),
            trust_bundles: OnceLock::new(),
            client,
        }
    }

    /// All services: nodes may list them.
    async fn all_services(&self) -> Result<&Informer<Service>, SourceError> {
        let services = self.services.get_or_init(|| {
            let mut options = self.informers.default_options::<Service>();
            options = options.transform(|service| {
                // Nothing but names, addresses and ports is ever asked for.
                service.metadata.managed_fields = None;
                service.metadata.annotations = None;
                service.status = None;
            });
            // Nobody else has this factory, so that nobody can have asked with other options.
            let informer = self.informers.typed_with(InformerScope::default(), options);
            let informer = informer.unwrap_or_else(|_| self.informers.typed(InformerScope::default()));
            self.informers.start();
            informer
        });
        let what = "service".to_owned();
        timeout(LIMIT, services.wait_for_sync())
            .await
            .map_err(|_| SourceError::Timeout { what })?;
        Ok(services)
    }
}

#[async_trait]
impl Sources for ApiSources {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, SourceError> {
        self.config_maps.get(namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, SourceError> {
        self.secrets.get(namespace, name).await
    }

    async fn token(
        &self,
        pod: &PodIdentity,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<Token, SourceError> {
        let asked = Asked {
            pod: pod.clone(),
            account: account.to_owned(),
            audience: audience.map(str::to_owned),
            seconds,
        };
        self.tokens.get(asked).await
    }

    async fn claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, SourceError> {
        let claims = Api::namespaced(self.client.clone(), namespace);
        get("persistentvolumeclaim", claims, name).await
    }

    async fn volume(&self, name: &str) -> Result<Option<Arc<PersistentVolume>>, SourceError> {
        get("persistentvolume", Api::all(self.client.clone()), name).await
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Arc<Service>>, SourceError> {
        let all = self.all_services().await?.store();
        let master = Key::new("default", "kubernetes");
        let mut services = all.by_namespace().get(namespace);
        if namespace != "default" {
            services.extend(all.get(&master));
        }
        Ok(services)
    }

    async fn trust_bundles(&self) -> Result<Vec<Arc<ClusterTrustBundle>>, SourceError> {
        let bundles = self.trust_bundles.get_or_init(|| {
            let informer = self.informers.typed(InformerScope::default());
            self.informers.start();
            informer
        });
        let what = "clustertrustbundle".to_owned();
        let synced = timeout(LIMIT, bundles.wait_for_sync()).await;
        synced.map_err(|_| SourceError::Timeout { what })?;
        Ok(bundles.store().all())
    }

    fn keep(&self, pod: &Pod) {
        let identity = PodIdentity::of(pod);
        let (config_maps, secrets) = references(pod);
        self.config_maps.keep(&identity.uid, &config_maps);
        self.secrets.keep(&identity.uid, &secrets);
    }

    fn forget(&self, pod: &PodIdentity) {
        self.config_maps.forget(&pod.uid);
        self.secrets.forget(&pod.uid);
        self.tokens.forget(&pod.uid);
    }
}

/// An object as it is now.
async fn get<K>(what: &str, api: Api<K>, name: &str) -> Result<Option<Arc<K>>, SourceError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let answer = timeout(LIMIT, api.get_opt(name)).await;
    let answer = answer.map_err(|_| SourceError::Timeout {
        what: what.to_owned(),
    })?;
    let answer = answer.map_err(|error| SourceError::of(what, error))?;
    Ok(answer.map(Arc::new))
}

/// A number from 0 to 1; 0 where there is no randomness, which only makes renewals less spread.
fn random() -> f64 {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 4];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        return 0.0;
    }
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

// --- Kinds ---

impl Kind for ConfigMap {
    const WHAT: &'static str = "configmap";

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    fn api(client: &kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client.clone(), namespace)
    }
}

impl Kind for Secret {
    const WHAT: &'static str = "secret";

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    fn api(client: &kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client.clone(), namespace)
    }
}

// --- References ---

/// The config maps and secrets that a pod refers to.
fn references(pod: &Pod) -> (BTreeSet<Key>, BTreeSet<Key>) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = References::default();
    let Some(spec) = &pod.spec else {
        return Default::default();
    };
    for secret in spec.image_pull_secrets.iter().flatten() {
        found.secrets.insert(secret.name.clone());
    }
    for volume in spec.volumes.iter().flatten() {
        found.of_volume(volume);
    }
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    for container in containers {
        found.of_container(container);
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        found.of_ephemeral(container);
    }
    let keys = |names: BTreeSet<String>| {
        let named = names.into_iter().filter(|name| !name.is_empty());
        named.map(|name| Key::new(namespace, &name)).collect()
    };
    (keys(found.config_maps), keys(found.secrets))
}

#[derive(Default)]
struct References {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl References {
    fn of_volume(&mut self, volume: &Volume) {
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

    fn of_container(&mut self, container: &Container) {
        self.of_environment(container.env.as_ref(), container.env_from.as_ref());
    }

    fn of_ephemeral(&mut self, container: &EphemeralContainer) {
        self.of_environment(container.env.as_ref(), container.env_from.as_ref());
    }

    fn of_environment(&mut self, variables: Option<&Vec<EnvVar>>, all: Option<&Vec<EnvFromSource>>) {
        for source in all.into_iter().flatten() {
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
