//! Environment variables of containers.
//!
//! ```text
//! expand      `$(NAME)` references
//! fields      fieldRef: metadata, spec and status of the pod
//! resources   resourceFieldRef: requests and limits
//! env_file    fileKeyRef: files that init containers wrote (KEP-3721)
//! services    service environment variables (`..._SERVICE_HOST`)
//! ```
//!
//! Promises:
//! - The order is: `envFrom` in order of declaration, `env` in order of declaration, services. A later variable replaces the value of
//!   an earlier one of the same name, at the earlier position.
//! - `$(NAME)` in a value refers to variables that are declared before it, and to those of services.
//! - A reference that cannot be resolved and is not optional is an error. Its message is upstream's: `kubectl describe` shows it
//!   for containers that wait with reason `CreateContainerConfigError`.

mod env_file;
mod expand;
mod fields;
mod resources;
mod services;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, Pod};

pub use self::{expand::expand, fields::FieldPathError, resources::ResourceFieldError};
pub(crate) use self::{
    expand::expand_with, fields::extract_field_path_as_string,
    resources::extract_resource_value_by_container_name,
};
use crate::{
    NodeFacts,
    sources::{ObjectSourceError, ObjectSources},
    volumes::{VolumeManager, VolumeManagerError},
};

/// Why the environment of a container cannot be made. Message of the waiting reason `CreateContainerConfigError`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A ConfigMap or Secret does not exist.
    #[error("{kind} {name:?} not found")]
    NotFound {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The ConfigMap or Secret does not have the key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    KeyNotFound {
        /// The missing key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// The ConfigMap or Secret cannot be read.
    #[error(transparent)]
    Source(#[from] ObjectSourceError),
    /// The services of the cluster are unknown.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    ServicesNotRead(#[source] ObjectSourceError),
    /// A `fieldRef` has no value.
    #[error(transparent)]
    Field(#[from] FieldPathError),
    /// A `resourceFieldRef` has no value.
    #[error(transparent)]
    Resource(#[from] ResourceFieldError),
    /// The file of a `fileKeyRef` cannot be read.
    #[error(transparent)]
    ReadFile(VolumeManagerError),
    /// The file of a `fileKeyRef` does not exist, or is invalid. Contains no details, as upstream: they could disclose the content of
    /// the file.
    #[error("couldn't parse env file")]
    InvalidFile,
    /// The file of a `fileKeyRef` does not contain the variable.
    #[error("environment variable key {key:?} not found in file {file:?}")]
    FileKeyNotFound {
        /// Name of the variable.
        key: String,
        /// Path of the file in its volume.
        file: String,
    },
}

/// The environment variables of a container, without those of its image.
// upstream: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables
pub async fn make_environment_variables(
    pod: &Pod,
    container: &Container,
    sources: &dyn ObjectSources,
    facts: &NodeFacts,
    pod_ips: &[IpAddr],
    volumes: &VolumeManager,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let services = match sources.services(namespace).await {
        Ok(services) => services,
        // A static pod may be the API server itself, so it must not wait for it.
        Err(_) if is_static_pod(pod) => Vec::new(),
        Err(error) => return Err(EnvironmentError::ServicesNotRead(error)),
    };
    let context = EnvironmentContext {
        pod,
        container,
        namespace,
        sources,
        facts,
        pod_ips,
        volumes,
    };
    let services = services::service_env_vars(pod, &services, facts);
    let mut variables = EnvironmentVariables::default();
    for source in container.env_from.iter().flatten() {
        context.add_env_from(source, &mut variables).await?;
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = context.resolve_value(variable, &variables, &services).await? {
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

/// Whether the pod comes from a manifest on this node.
// upstream: pkg/kubelet/types/pod_update.go IsStaticPod
fn is_static_pod(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|annotations| annotations.get("kubernetes.io/config.source"));
    source.is_some_and(|source| source != "api")
}

/// Ordered variables with unique names.
#[derive(Default)]
struct EnvironmentVariables {
    ordered: Vec<(String, String)>,
    /// Index in `ordered` by name.
    index_by_name: HashMap<String, usize>,
}

/// What the values of variables are resolved from.
struct EnvironmentContext<'a> {
    pod: &'a Pod,
    container: &'a Container,
    namespace: &'a str,
    sources: &'a dyn ObjectSources,
    facts: &'a NodeFacts,
    pod_ips: &'a [IpAddr],
    volumes: &'a VolumeManager,
}

// --- EnvironmentVariables ---

impl EnvironmentVariables {
    fn get(&self, name: &str) -> Option<&String> {
        self.index_by_name.get(name).map(|index| &self.ordered[*index].1)
    }

    fn set(&mut self, name: &str, value: String) {
        if let Some(index) = self.index_by_name.get(name) {
            self.ordered[*index].1 = value;
        } else {
            self.index_by_name.insert(name.to_owned(), self.ordered.len());
            self.ordered.push((name.to_owned(), value));
        }
    }
}

// --- EnvironmentContext ---

impl EnvironmentContext<'_> {
    /// Adds all keys of a ConfigMap or Secret.
    async fn add_env_from(
        &self,
        source: &EnvFromSource,
        variables: &mut EnvironmentVariables,
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

    /// The value of a variable; `None` if it refers to an optional object or key that does not exist.
    async fn resolve_value(
        &self,
        variable: &EnvVar,
        declared_before: &EnvironmentVariables,
        services: &BTreeMap<String, String>,
    ) -> Result<Option<String>, EnvironmentError> {
        let value = variable.value.as_deref().unwrap_or_default();
        match &variable.value_from {
            Some(source) if value.is_empty() => self.resolve_value_from(source).await,
            _ => Ok(Some(expand_with(value, |name| {
                declared_before.get(name).or_else(|| services.get(name)).cloned()
            }))),
        }
    }

    async fn resolve_value_from(&self, source: &EnvVarSource) -> Result<Option<String>, EnvironmentError> {
        if let Some(selector) = &source.field_ref {
            let value =
                fields::pod_field_selector_runtime_value(selector, self.pod, self.facts, self.pod_ips);
            return Ok(Some(value?));
        }
        if let Some(selector) = &source.resource_field_ref {
            let value =
                resources::container_resource_runtime_value(selector, self.pod, self.container, self.facts);
            return Ok(Some(value?));
        }
        if let Some(selector) = &source.config_map_key_ref {
            let is_optional = selector.optional == Some(true);
            return match self.sources.config_map(self.namespace, &selector.name).await? {
                None if is_optional => Ok(None),
                None => Err(not_found("configmap", &selector.name)),
                Some(map) => match map.data.as_ref().and_then(|data| data.get(&selector.key)) {
                    Some(value) => Ok(Some(value.clone())),
                    None if is_optional => Ok(None),
                    None => Err(self.key_not_found(&selector.key, "ConfigMap", &selector.name)),
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
                    None => Err(self.key_not_found(&selector.key, "Secret", &selector.name)),
                },
            };
        }
        if let Some(selector) = &source.file_key_ref {
            return self.resolve_file_key(selector).await;
        }
        Ok(Some(String::new()))
    }

    /// A variable that an init container wrote into a file of a volume. The details of a parse error are only logged, as upstream:
    /// they could disclose the content of the file.
    async fn resolve_file_key(&self, selector: &FileKeySelector) -> Result<Option<String>, EnvironmentError> {
        let content = self
            .volumes
            .read_file(self.pod, &selector.volume_name, &selector.path)
            .await
            .map_err(EnvironmentError::ReadFile)?;
        let Some(content) = content else {
            return Err(EnvironmentError::InvalidFile);
        };
        let content = String::from_utf8_lossy(&content);
        let value = env_file::parse_env(&content, &selector.key).map_err(|error| {
            tracing::warn!(
                volume = selector.volume_name,
                file = selector.path,
                reason = %error,
                "failed to parse an environment file"
            );
            EnvironmentError::InvalidFile
        })?;
        match (value.is_empty(), selector.optional == Some(true)) {
            (false, _) => Ok(Some(value)),
            (true, true) => Ok(None),
            (true, false) => Err(EnvironmentError::FileKeyNotFound {
                key: selector.key.clone(),
                file: selector.path.clone(),
            }),
        }
    }

    fn key_not_found(&self, key: &str, kind: &'static str, name: &str) -> EnvironmentError {
        EnvironmentError::KeyNotFound {
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
