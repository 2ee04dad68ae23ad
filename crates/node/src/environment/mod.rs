//! The environment of a container.
//!
//! Promises:
//! - Variables are told in the order in which the container declares them: first those that come from whole config maps and
//!   secrets, then its own, then those of services. A later one replaces an earlier one of its name, in its place.
//! - `$(NAME)` in a value sees the variables declared before it, and those of services.
//! - What cannot be resolved and is not optional is an error in the words that `kubectl describe` shows for
//!   `CreateContainerConfigError`.

mod expand;
mod fields;
mod file;
mod resources;
mod services;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, Pod};

pub use self::expand::expand;
pub(crate) use self::{expand::expand_with, fields::of_metadata, resources::of_file};
use crate::{
    Facts,
    sources::{SourceError, Sources},
    volumes::Volumes,
};

/// Why a container has no environment: its status waits with `CreateContainerConfigError`, and these words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A config map or a secret is not there.
    #[error("{kind} {name:?} not found")]
    NotFound {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// It is there, without the key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Whether it is there is not known.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A field, a resource or a file cannot be told, in upstream's words.
    #[error("{0}")]
    Value(String),
}

/// The environment of a container, without that of its image.
pub async fn of(
    pod: &Pod,
    container: &Container,
    sources: &dyn Sources,
    facts: &Facts,
    pod_ips: &[IpAddr],
    volumes: &Volumes,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let services = match sources.services(namespace).await {
        Ok(services) => services,
        // A static pod may be what makes the API come up: it does not wait for it.
        Err(_) if is_static(pod) => Vec::new(),
        Err(_) => {
            let why = "services have not yet been read at least once, cannot construct envvars";
            return Err(EnvironmentError::Value(why.to_owned()));
        }
    };
    let scene = Scene {
        pod,
        container,
        namespace,
        sources,
        facts,
        pod_ips,
        volumes,
    };
    let services = services::of_pod(pod, &services, facts);
    let mut variables = Variables::default();
    for source in container.env_from.iter().flatten() {
        scene.all_of(source, &mut variables).await?;
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = scene.value(variable, &variables, &services).await? {
            variables.set(&variable.name, value);
        }
    }
    for (name, value) in services {
        if variables.get(&name).is_none() {
            variables.set(&name, value);
        }
    }
    Ok(variables.ordered)
}

/// Whether a pod comes from a file of this node.
fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|annotations| annotations.get("kubernetes.io/config.source"));
    source.is_some_and(|source| source != "api")
}

/// Variables in order, found by name.
#[derive(Default)]
struct Variables {
    ordered: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

/// What values are made of.
struct Scene<'a> {
    pod: &'a Pod,
    container: &'a Container,
    namespace: &'a str,
    sources: &'a dyn Sources,
    facts: &'a Facts,
    pod_ips: &'a [IpAddr],
    volumes: &'a Volumes,
}

// --- Variables ---

impl Variables {
    fn get(&self, name: &str) -> Option<&String> {
        self.places.get(name).map(|place| &self.ordered[*place].1)
    }

    fn set(&mut self, name: &str, value: String) {
        if let Some(place) = self.places.get(name) {
            self.ordered[*place].1 = value;
        } else {
            self.places.insert(name.to_owned(), self.ordered.len());
            self.ordered.push((name.to_owned(), value));
        }
    }
}

// --- Scene ---

impl Scene<'_> {
    /// All entries of a config map or a secret.
    async fn all_of(
        &self,
        source: &EnvFromSource,
        variables: &mut Variables,
    ) -> Result<(), EnvironmentError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            let map = self.sources.config_map(self.namespace, &reference.name).await?;
            match map {
                Some(map) => {
                    for (key, value) in map.data.iter().flatten() {
                        variables.set(&format!("{prefix}{key}"), value.clone());
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(not_found("configmap", &reference.name)),
            }
        } else if let Some(reference) = &source.secret_ref {
            let secret = self.sources.secret(self.namespace, &reference.name).await?;
            match secret {
                Some(secret) => {
                    for (key, value) in secret.data.iter().flatten() {
                        let value = String::from_utf8_lossy(&value.0);
                        variables.set(&format!("{prefix}{key}"), value.into_owned());
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(not_found("secret", &reference.name)),
            }
        }
        Ok(())
    }

    /// The value of a variable; none if it refers to something optional that is not there.
    async fn value(
        &self,
        variable: &EnvVar,
        before: &Variables,
        services: &BTreeMap<String, String>,
    ) -> Result<Option<String>, EnvironmentError> {
        let text = variable.value.as_deref().unwrap_or_default();
        match &variable.value_from {
            Some(source) if text.is_empty() => self.referred(source).await,
            _ => Ok(Some(expand_with(text, |name| {
                before.get(name).or_else(|| services.get(name)).cloned()
            }))),
        }
    }

    async fn referred(&self, source: &EnvVarSource) -> Result<Option<String>, EnvironmentError> {
        if let Some(selector) = &source.field_ref {
            let value = fields::of_variable(selector, self.pod, self.facts, self.pod_ips);
            return value.map(Some).map_err(EnvironmentError::Value);
        }
        if let Some(selector) = &source.resource_field_ref {
            let value = resources::of_variable(selector, self.pod, self.container, self.facts);
            return value.map(Some).map_err(EnvironmentError::Value);
        }
        if let Some(selector) = &source.config_map_key_ref {
            let is_optional = selector.optional == Some(true);
            return match self.sources.config_map(self.namespace, &selector.name).await? {
                None if is_optional => Ok(None),
                None => Err(not_found("configmap", &selector.name)),
                Some(map) => match map.data.as_ref().and_then(|data| data.get(&selector.key)) {
                    Some(value) => Ok(Some(value.clone())),
                    None if is_optional => Ok(None),
                    None => Err(self.no_key(&selector.key, "ConfigMap", &selector.name)),
                },
            };
        }
        if let Some(selector) = &source.secret_key_ref {
            let is_optional = selector.optional == Some(true);
            return match self.sources.secret(self.namespace, &selector.name).await? {
                None if is_optional => Ok(None),
                None => Err(not_found("secret", &selector.name)),
                Some(secret) => match secret.data.as_ref().and_then(|data| data.get(&selector.key)) {
                    Some(value) => Ok(Some(String::from_utf8_lossy(&value.0).into_owned())),
                    None if is_optional => Ok(None),
                    None => Err(self.no_key(&selector.key, "Secret", &selector.name)),
                },
            };
        }
        if let Some(selector) = &source.file_key_ref {
            return self.of_file(selector).await;
        }
        Ok(Some(String::new()))
    }

    /// A variable that an earlier container wrote into a file.
    async fn of_file(&self, selector: &FileKeySelector) -> Result<Option<String>, EnvironmentError> {
        let read = self.volumes.read(self.pod, &selector.volume_name, &selector.path);
        let text = match read
            .await
            .map_err(|error| EnvironmentError::Value(error.to_string()))?
        {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => return Err(EnvironmentError::Value("couldn't parse env file".to_owned())),
        };
        let value = file::value_of(&text, &selector.key).map_err(|why| {
            tracing::warn!(
                volume = selector.volume_name,
                file = selector.path,
                why,
                "an environment file makes no sense"
            );
            EnvironmentError::Value("couldn't parse env file".to_owned())
        })?;
        match (value.is_empty(), selector.optional == Some(true)) {
            (false, _) => Ok(Some(value)),
            (true, true) => Ok(None),
            (true, false) => Err(EnvironmentError::Value(format!(
                "environment variable key {:?} not found in file {:?}",
                selector.key, selector.path
            ))),
        }
    }

    fn no_key(&self, key: &str, kind: &'static str, name: &str) -> EnvironmentError {
        EnvironmentError::NoKey {
            key: key.to_owned(),
            kind,
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

fn not_found(kind: &'static str, name: &str) -> EnvironmentError {
    EnvironmentError::NotFound {
        kind,
        name: name.to_owned(),
    }
}
