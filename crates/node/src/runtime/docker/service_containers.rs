//! Containers outside pods: services of the machine, such as a database, each with a name, ports and a named volume.
//!
//! Promises: only containers that the caller names by ID or label are removed; volumes outlive their containers; stopping or removing a
//! missing container succeeds.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::Path,
    time::Duration,
};

use futures_util::StreamExt;
use serde_json::json;

use super::{
    ContainerOwner, DockerRuntime,
    client::{CALL_TIMEOUT, START_TIMEOUT, query_string},
    containers::{STOP_TIMEOUT, is_being_removed, is_name_taken},
    responses::{ContainerInspect, ContainerSummary, CreatedResponse, VolumeList},
};
use crate::runtime::{ContainerId, LogOptions, RuntimeError};

/// Restarts after which a container counts as failed.
const RESTARTS: u32 = 3;

/// Configuration of a service container.
#[derive(Clone, Debug, Default)]
pub struct ServiceContainerSpec {
    /// Container name.
    pub name: String,
    /// Image, which must be present.
    pub image: String,
    /// Entrypoint; empty for the image's.
    pub entrypoint: Vec<String>,
    /// Arguments; empty for the image's.
    pub args: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Published ports.
    pub ports: Vec<ServiceContainerPort>,
    /// Volume with the data.
    pub volume: NamedVolume,
    /// Labels of container and volume.
    pub labels: BTreeMap<String, String>,
}

/// A published port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceContainerPort {
    /// Host address.
    pub host_ip: IpAddr,
    /// Host port.
    pub host_port: u16,
    /// Port in the container.
    pub container_port: u16,
}

/// A named volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedVolume {
    /// Name.
    pub name: String,
    /// Mount path in the container.
    pub path: String,
}

/// A service container as inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceContainer {
    /// ID.
    pub id: String,
    /// State.
    pub state: ServiceContainerState,
    /// Labels.
    pub labels: HashMap<String, String>,
    /// Published host ports.
    pub ports: Vec<u16>,
}

/// State of a service container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceContainerState {
    /// Created or restarting; another process may be about to start it.
    Created,
    /// Running.
    Running,
    /// Exited with this code.
    Exited(i64),
}

impl DockerRuntime {
    /// Connects to Docker or Podman at `socket`, for service containers only.
    pub async fn connect_without_owner(socket: &Path) -> Result<Self, RuntimeError> {
        Self::connect(socket, ContainerOwner::default()).await
    }

    /// Returns engine and socket, for messages.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the container with this name or ID, of any owner.
    pub async fn service_container(&self, name: &str) -> Result<Option<ServiceContainer>, RuntimeError> {
        match self.inspect(name).await {
            Ok(inspected) => Ok(Some(found(&inspected))),
            Err(RuntimeError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates and starts a container with its volume, and returns its ID. Returns [`RuntimeError::NameTaken`] if the name is in use.
    pub async fn run_service_container(
        &self,
        service: &ServiceContainerSpec,
    ) -> Result<String, RuntimeError> {
        let volume = json!({ "Name": service.volume.name, "Labels": service.labels });
        self.client
            .send("/volumes/create", &volume, CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "create volume"))?;
        let path = format!(
            "/containers/create{}",
            query_string([("name", service.name.as_str())])
        );
        let body = self.config_generator.service_config(service);
        let id = match self
            .client
            .post::<CreatedResponse>(&path, &body, START_TIMEOUT)
            .await
        {
            Ok(created) => created.id,
            Err(error) if is_name_taken(&error, &service.name) => {
                return Err(RuntimeError::NameTaken {
                    name: service.name.clone(),
                    holder: error.to_string(),
                });
            }
            Err(error) => return Err(self.failed(error, "create container")),
        };
        if let Err(error) = self.start(&id).await {
            // The engine detects host port conflicts only at start. The container is removed, and the first error returned.
            let _ = self.remove_service_container(&id).await;
            return Err(error);
        }
        Ok(id)
    }

    /// Stops a container with a grace period, and removes it. Its volume stays.
    pub async fn stop_service_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let path = format!(
            "/containers/{id}/stop{}",
            query_string([("t", grace.as_secs().to_string().as_str())])
        );
        // If stopping failed, the removal kills the container.
        let _ = self
            .client
            .post_empty(&path, grace.saturating_add(STOP_TIMEOUT))
            .await;
        self.remove_service_container(id).await
    }

    /// Removes a container, even if it runs. Its volume stays.
    pub async fn remove_service_container(&self, id: &str) -> Result<(), RuntimeError> {
        let path = format!("/containers/{id}{}", query_string([("v", "1"), ("force", "1")]));
        match self.client.delete(&path, CALL_TIMEOUT).await {
            Err(error) if !error.is_not_found() && !is_being_removed(&error) => {
                Err(self.failed(error, "remove container"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the last lines of a container's log.
    pub async fn log_tail(&self, id: &str, lines: u64) -> Result<String, RuntimeError> {
        let options = LogOptions {
            tail: Some(lines),
            ..LogOptions::default()
        };
        let mut log = self.read_logs(&ContainerId(id.to_owned()), &options).await?;
        let mut text = String::new();
        while let Some(line) = log.next().await {
            text.push_str(String::from_utf8_lossy(&line?.bytes).trim_end());
            text.push('\n');
        }
        Ok(text)
    }

    /// Returns the IDs of all containers with this label.
    pub async fn list_containers_with_label(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<String>, RuntimeError> {
        let path = format!("/containers/json{}", labelled(&[("all", "1")], label, value));
        let listed: Vec<ContainerSummary> = self
            .client
            .get(&path, CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        // The engine's filter is not trusted for removals.
        let carries = |entry: &ContainerSummary| entry.labels.get(label).is_some_and(|found| found == value);
        Ok(listed.into_iter().filter(carries).map(|entry| entry.id).collect())
    }

    /// Removes all unused volumes with this label, and returns their names.
    pub async fn remove_volumes_with_label(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<String>, RuntimeError> {
        let listed: VolumeList = self
            .client
            .get(&format!("/volumes{}", labelled(&[], label, value)), CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "list volumes"))?;
        let mut removed = Vec::new();
        for volume in listed.volumes {
            if volume.labels.get(label).is_none_or(|found| found != value) {
                continue;
            }
            let path = format!("/volumes/{}", volume.name);
            match self.client.delete(&path, CALL_TIMEOUT).await {
                Err(error) if !error.is_not_found() => return Err(self.failed(error, "remove volume")),
                _ => removed.push(volume.name),
            }
        }
        Ok(removed)
    }
}

fn labelled(pairs: &[(&str, &str)], label: &str, value: &str) -> String {
    let filters = json!({ "label": [format!("{label}={value}")] }).to_string();
    query_string(pairs.iter().copied().chain([("filters", filters.as_str())]))
}

fn found(inspected: &ContainerInspect) -> ServiceContainer {
    let state = match inspected.state.status.as_str() {
        // Some engines report a restarting container as running.
        "restarting" if inspected.restart_count < RESTARTS => ServiceContainerState::Created,
        "restarting" => ServiceContainerState::Exited(inspected.state.exit_code),
        _ if inspected.state.running => ServiceContainerState::Running,
        "created" | "configured" | "initialized" => ServiceContainerState::Created,
        _ => ServiceContainerState::Exited(inspected.state.exit_code),
    };
    let bindings = inspected.host_config.port_bindings.values().flatten().flatten();
    ServiceContainer {
        id: inspected.id.clone(),
        state,
        labels: inspected.config.labels.clone(),
        ports: bindings.filter_map(|port| port.host_port.parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServiceContainer {
        found(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn reports_state_and_ports() {
        let running = read(
            r#"{"Id":"1","State":{"Running":true,"Status":"running"},"Config":{"Labels":{"a":"b"}},
                "HostConfig":{"PortBindings":{"2379/tcp":[{"HostIp":"127.0.0.1","HostPort":"3379"}],"80/tcp":null}}}"#,
        );
        assert_eq!(running.state, ServiceContainerState::Running);
        assert_eq!(running.ports, [3379]);
        assert_eq!(running.labels["a"], "b");
        let exited = read(r#"{"Id":"1","State":{"Status":"exited","ExitCode":3}}"#);
        assert_eq!(exited.state, ServiceContainerState::Exited(3));
        let again =
            r#"{"Id":"1","RestartCount":N,"State":{"Running":true,"Status":"restarting","ExitCode":3}}"#;
        assert_eq!(
            read(&again.replace('N', "2")).state,
            ServiceContainerState::Created
        );
        assert_eq!(
            read(&again.replace('N', "3")).state,
            ServiceContainerState::Exited(3)
        );
        let created = read(r#"{"Id":"1","State":{"Status":"created"},"HostConfig":null}"#);
        assert_eq!(created.state, ServiceContainerState::Created);
    }
}
