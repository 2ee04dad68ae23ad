//! Containers that are of no pod: services of the machine, such as a database, each with a name, ports and a volume of its own.
//!
//! Promises: nothing is removed but what the caller names by its id or by labels; a volume outlives its container; what has ended
//! or is gone already is no failure.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::Path,
    time::Duration,
};

use futures_util::StreamExt;
use serde_json::json;

use super::{
    Engine, Owner,
    answer::{Inspected, Listed, Made, VolumeList},
    client::{QUICK, START, query},
    containers::{STOP, is_being_removed, is_name_taken},
};
use crate::runtime::{ContainerId, LogOptions, RuntimeError};

/// How often a container may be started again before it counts as one that cannot live.
const RESTARTS: u32 = 3;

/// A service to be started.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// What its container is called.
    pub name: String,
    /// Its image, which is there already.
    pub image: String,
    /// The program; empty for the image's.
    pub entrypoint: Vec<String>,
    /// Its arguments; empty for the image's.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Its ports, and where each is reached on this machine.
    pub ports: Vec<ServicePort>,
    /// What is kept when it is gone.
    pub volume: ServiceVolume,
    /// By which container and volume are found again.
    pub labels: BTreeMap<String, String>,
}

/// A port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The address of this machine.
    pub address: IpAddr,
    /// The port there.
    pub machine: u16,
    /// The port in the container.
    pub container: u16,
}

/// A volume with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceVolume {
    /// Its name.
    pub name: String,
    /// Where it is in the container.
    pub path: String,
}

/// A container as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundService {
    /// Its id.
    pub id: String,
    /// How it is.
    pub state: ServiceState,
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// The ports of this machine that it asked for.
    pub ports: Vec<u16>,
}

/// How a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// It was made, and perhaps somebody is about to start it.
    Made,
    /// It runs.
    Running,
    /// It has ended, with this exit code.
    Ended(i64),
}

impl Engine {
    /// Docker or Podman at `socket`, for services alone.
    pub async fn for_services(socket: &Path) -> Result<Self, RuntimeError> {
        Self::connect(socket, Owner::default()).await
    }

    /// Which engine, and where, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The container with this name or id, whosever it is.
    pub async fn service(&self, name: &str) -> Result<Option<FoundService>, RuntimeError> {
        match self.inspect(name).await {
            Ok(seen) => Ok(Some(found(&seen))),
            Err(RuntimeError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes and starts a container with its volume, and tells its id. A name that is taken: [`RuntimeError::NameTaken`].
    pub async fn run_service(&self, service: &Service) -> Result<String, RuntimeError> {
        let volume = json!({ "Name": service.volume.name, "Labels": service.labels });
        self.client
            .send("/volumes/create", &volume, QUICK)
            .await
            .map_err(|error| self.failed(error, "make a volume"))?;
        let path = format!("/containers/create{}", query([("name", service.name.as_str())]));
        let body = self.planner.service(service);
        let id = match self.client.post::<Made>(&path, &body, START).await {
            Ok(made) => made.id,
            Err(error) if is_name_taken(&error, &service.name) => {
                return Err(RuntimeError::NameTaken {
                    name: service.name.clone(),
                    holder: error.to_string(),
                });
            }
            Err(error) => return Err(self.failed(error, "create container")),
        };
        if let Err(error) = self.start(&id).await {
            // A port that is taken shows only here. What cannot start is of no use; the first error is the one to tell.
            let _ = self.remove_service(&id).await;
            return Err(error);
        }
        Ok(id)
    }

    /// Asks a container to end, ends it after `grace`, and removes it. Its volume stays.
    pub async fn end_service(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let path = format!(
            "/containers/{id}/stop{}",
            query([("t", grace.as_secs().to_string().as_str())])
        );
        // What could not be stopped is removed by force.
        let _ = self.client.order(&path, grace.saturating_add(STOP)).await;
        self.remove_service(id).await
    }

    /// Removes a container, also if it runs. Its volume stays.
    pub async fn remove_service(&self, id: &str) -> Result<(), RuntimeError> {
        let path = format!("/containers/{id}{}", query([("v", "1"), ("force", "1")]));
        match self.client.delete(&path, QUICK).await {
            Err(error) if !error.is_not_found() && !is_being_removed(&error) => {
                Err(self.failed(error, "remove container"))
            }
            _ => Ok(()),
        }
    }

    /// The last lines that a container wrote.
    pub async fn last_words(&self, id: &str, lines: u64) -> Result<String, RuntimeError> {
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

    /// The ids of all containers with this label.
    pub async fn services_labelled(&self, label: &str, value: &str) -> Result<Vec<String>, RuntimeError> {
        let path = format!("/containers/json{}", labelled(&[("all", "1")], label, value));
        let listed: Vec<Listed> = self
            .client
            .get(&path, QUICK)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        // The filter is the engine's; what is removed by it is ours to say.
        let carries = |entry: &Listed| entry.labels.get(label).is_some_and(|found| found == value);
        Ok(listed.into_iter().filter(carries).map(|entry| entry.id).collect())
    }

    /// Removes all volumes with this label that nothing uses, and tells their names.
    pub async fn remove_volumes_labelled(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<String>, RuntimeError> {
        let listed: VolumeList = self
            .client
            .get(&format!("/volumes{}", labelled(&[], label, value)), QUICK)
            .await
            .map_err(|error| self.failed(error, "list volumes"))?;
        let mut removed = Vec::new();
        for volume in listed.volumes {
            if volume.labels.get(label).is_none_or(|found| found != value) {
                continue;
            }
            let path = format!("/volumes/{}", volume.name);
            match self.client.delete(&path, QUICK).await {
                Err(error) if !error.is_not_found() => return Err(self.failed(error, "remove a volume")),
                _ => removed.push(volume.name),
            }
        }
        Ok(removed)
    }
}

fn labelled(pairs: &[(&str, &str)], label: &str, value: &str) -> String {
    let filters = json!({ "label": [format!("{label}={value}")] }).to_string();
    query(pairs.iter().copied().chain([("filters", filters.as_str())]))
}

fn found(seen: &Inspected) -> FoundService {
    let state = match seen.state.status.as_str() {
        // One that is between two lives is said to run by some.
        "restarting" if seen.restart_count < RESTARTS => ServiceState::Made,
        "restarting" => ServiceState::Ended(seen.state.exit_code),
        _ if seen.state.running => ServiceState::Running,
        "created" | "configured" | "initialized" => ServiceState::Made,
        _ => ServiceState::Ended(seen.state.exit_code),
    };
    let bindings = seen.host_config.port_bindings.values().flatten().flatten();
    FoundService {
        id: seen.id.clone(),
        state,
        labels: seen.config.labels.clone(),
        ports: bindings.filter_map(|port| port.host_port.parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FoundService {
        found(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn what_was_found_is_told_with_its_ports_and_its_state() {
        let running = read(
            r#"{"Id":"1","State":{"Running":true,"Status":"running"},"Config":{"Labels":{"a":"b"}},
                "HostConfig":{"PortBindings":{"2379/tcp":[{"HostIp":"127.0.0.1","HostPort":"3379"}],"80/tcp":null}}}"#,
        );
        assert_eq!(running.state, ServiceState::Running);
        assert_eq!(running.ports, [3379]);
        assert_eq!(running.labels["a"], "b");
        let ended = read(r#"{"Id":"1","State":{"Status":"exited","ExitCode":3}}"#);
        assert_eq!(ended.state, ServiceState::Ended(3));
        let again =
            r#"{"Id":"1","RestartCount":N,"State":{"Running":true,"Status":"restarting","ExitCode":3}}"#;
        assert_eq!(read(&again.replace('N', "2")).state, ServiceState::Made);
        assert_eq!(read(&again.replace('N', "3")).state, ServiceState::Ended(3));
        let made = read(r#"{"Id":"1","State":{"Status":"created"},"HostConfig":null}"#);
        assert_eq!(made.state, ServiceState::Made);
    }
}
