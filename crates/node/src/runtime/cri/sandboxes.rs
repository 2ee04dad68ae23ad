//! Sandbox calls.

use std::{
    collections::HashSet,
    net::IpAddr,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::fs;

use crate::{
    blocking::run_blocking,
    runtime::{RuntimeError, Sandbox, SandboxId, SandboxSpec, SandboxState},
};

use super::{
    CriRuntime,
    containers::StatusDetail,
    convert,
    error::{CriError, MessageFormat},
    ignore_not_found, logs,
    messages::{self, method},
    sandbox_config::{self, LOG_DIRECTORY},
};

/// Maximum number of concurrent status calls.
const MAX_CONCURRENT: usize = 8;

impl CriRuntime {
    pub(super) async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        create_directory(&spec.log_directory).await?;
        let request = messages::RunPodSandboxRequest {
            config: Some(sandbox_config::config(spec, &self.owner)),
            runtime_handler: spec.handler.clone(),
        };
        let limit = self.timeouts.start;
        let created: Result<messages::PodSandboxId, _> = self
            .connection
            .call(method::RUN_POD_SANDBOX, request, limit)
            .await;
        match created {
            Ok(created) => Ok(SandboxId(created.pod_sandbox_id)),
            Err(error) => {
                if let Some(taken) = self.name_taken(&error).await? {
                    return Err(taken);
                }
                let what = format!("sandbox of pod {}", spec.pod);
                Err(error.into_runtime_error(&what, limit, self.connection.socket(), MessageFormat::WithCode))
            }
        }
    }

    /// Returns an error if a sandbox of another owner has the name.
    async fn name_taken(&self, error: &CriError) -> Result<Option<RuntimeError>, RuntimeError> {
        let Some((name, holder)) = parse_reserved_name(error.message()) else {
            return Ok(None);
        };
        let owned = self.list_own_sandboxes(holder).await?;
        Ok(owned.is_empty().then(|| RuntimeError::NameTaken {
            name: name.to_owned(),
            holder: holder.to_owned(),
        }))
    }

    pub(super) async fn stop_own_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        if self.own_sandbox(id).await?.is_none() {
            return Ok(());
        }
        let request = messages::PodSandboxId {
            pod_sandbox_id: id.0.clone(),
        };
        let limit = self.timeouts.stop;
        let done: Result<messages::Empty, _> = self
            .connection
            .call(method::STOP_POD_SANDBOX, request, limit)
            .await;
        ignore_not_found(done)
            .map(|_| ())
            .map_err(|error| self.runtime_error(error, &format!("stop of sandbox {id}"), limit))
    }

    pub(super) async fn remove_own_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let Some(sandbox) = self.own_sandbox(id).await? else {
            return Ok(());
        };
        // Find the logs first: the log paths are lost with the containers.
        let containers = self.list_own_containers("", &id.0).await?;
        let mut written = Vec::new();
        for container in &containers {
            written.extend(self.log_of(container).await?);
        }
        let request = messages::PodSandboxId {
            pod_sandbox_id: id.0.clone(),
        };
        let limit = self.timeouts.stop;
        let done: Result<messages::Empty, _> = self
            .connection
            .call(method::REMOVE_POD_SANDBOX, request, limit)
            .await;
        ignore_not_found(done)
            .map_err(|error| self.runtime_error(error, &format!("removal of sandbox {id}"), limit))?;
        self.status_cache.remove(&id.0);
        for container in &containers {
            self.status_cache.remove(&container.id);
        }
        for log in written {
            remove_log(log).await?;
        }
        self.remove_directories(sandbox).await
    }

    /// Removes the log directories, unless the pod has another sandbox, which may be about to use them.
    async fn remove_directories(&self, sandbox: messages::PodSandboxStatus) -> Result<(), RuntimeError> {
        let Some(directory) = sandbox.annotations.get(LOG_DIRECTORY).map(PathBuf::from) else {
            return Ok(());
        };
        let uid = sandbox.metadata.unwrap_or_default().uid;
        let sandboxes = self.list_own_sandboxes("").await?;
        let is_of_pod =
            |other: &messages::PodSandbox| other.metadata.as_ref().is_some_and(|pod| pod.uid == uid);
        if sandboxes.iter().any(is_of_pod) {
            return Ok(());
        }
        if let Ok(mut containers) = fs::read_dir(&directory).await {
            while let Ok(Some(container)) = containers.next_entry().await {
                // Non-empty directories stay: their content is not the runtime's.
                let _ = fs::remove_dir(container.path()).await;
            }
        }
        let _ = fs::remove_dir(&directory).await;
        Ok(())
    }

    /// Returns the status of an owned sandbox, if it exists.
    async fn own_sandbox(&self, id: &SandboxId) -> Result<Option<messages::PodSandboxStatus>, RuntimeError> {
        let status = self
            .sandbox_status(&id.0, StatusDetail::Basic)
            .await?
            .and_then(|answer| answer.status);
        if let Some(status) = &status {
            self.check_ownership("sandbox", &id.0, &status.labels)?;
        }
        Ok(status)
    }

    pub(super) async fn query_sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let listed = self.list_own_sandboxes("").await?;
        let is_ready =
            |sandbox: &&messages::PodSandbox| convert::sandbox_state(sandbox.state) == SandboxState::Ready;
        let ready: HashSet<String> = listed
            .iter()
            .filter(is_ready)
            .map(|sandbox| sandbox.id.clone())
            .collect();
        self.status_cache.retain_sandboxes(&ready);
        stream::iter(listed)
            .map(async |listed| {
                let addresses = match convert::sandbox_state(listed.state) {
                    SandboxState::Ready => self.addresses_of(&listed.id).await?,
                    SandboxState::NotReady => Vec::new(),
                };
                Ok(convert::sandbox(listed, addresses))
            })
            .buffered(MAX_CONCURRENT)
            .try_collect()
            .await
    }

    /// Returns the IPs of a ready sandbox; none if it was removed meanwhile.
    pub(super) async fn addresses_of(&self, id: &str) -> Result<Vec<IpAddr>, RuntimeError> {
        if let Some(addresses) = self.status_cache.addresses(id) {
            return Ok(addresses);
        }
        let addresses = match self.sandbox_status(id, StatusDetail::Basic).await? {
            Some(answer) => answer.status.as_ref().map(convert::addresses).unwrap_or_default(),
            None => return Ok(Vec::new()),
        };
        self.status_cache.insert_addresses(id, &addresses);
        Ok(addresses)
    }

    /// Returns the status of a sandbox, if it exists.
    pub(super) async fn sandbox_status(
        &self,
        id: &str,
        detail: StatusDetail,
    ) -> Result<Option<messages::PodSandboxStatusResponse>, RuntimeError> {
        let request = messages::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: detail == StatusDetail::Verbose,
        };
        let limit = self.timeouts.query;
        match self
            .connection
            .call(method::POD_SANDBOX_STATUS, request, limit)
            .await
        {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.runtime_error(error, &format!("status of sandbox {id}"), limit)),
        }
    }

    /// Lists owned sandboxes, or the one with this ID.
    pub(super) async fn list_own_sandboxes(
        &self,
        id: &str,
    ) -> Result<Vec<messages::PodSandbox>, RuntimeError> {
        let request = messages::ListPodSandboxRequest {
            filter: Some(messages::PodSandboxFilter {
                id: id.to_owned(),
                label_selector: self.node_selector(),
            }),
        };
        let listed: messages::ListPodSandboxResponse = self
            .query(method::LIST_POD_SANDBOX, request, "the list of sandboxes")
            .await?;
        let mut sandboxes = listed.items;
        sandboxes.retain(|sandbox| self.owner.owns(|name| sandbox.labels.get(name)));
        Ok(sandboxes)
    }
}

/// Creates a log directory.
pub(super) async fn create_directory(directory: &Path) -> Result<(), RuntimeError> {
    fs::create_dir_all(directory).await.map_err(|error| {
        RuntimeError::OperationFailed(format!(
            "cannot create directory {}: {error}",
            directory.display()
        ))
    })
}

/// Removes a log and its rotated files.
pub(super) async fn remove_log(log: PathBuf) -> Result<(), RuntimeError> {
    let path = log.clone();
    run_blocking(move || logs::remove(&path)).await.map_err(|error| {
        RuntimeError::OperationFailed(format!("cannot remove the log {}: {error}", log.display()))
    })
}

/// Parses name and holder from `name "x" is reserved for "id"`.
fn parse_reserved_name(message: &str) -> Option<(&str, &str)> {
    let (before, after) = message.rsplit_once("\" is reserved for \"")?;
    let (_, name) = before.rsplit_once('"')?;
    let (holder, _) = after.split_once('"')?;
    Some((name, holder))
}

#[cfg(test)]
mod tests {
    use super::parse_reserved_name;

    #[test]
    fn parses_name_conflict() {
        let message = "failed to reserve sandbox name \"a_b_c_0\": name \"a_b_c_0\" is reserved for \"1234\"";
        assert_eq!(parse_reserved_name(message), Some(("a_b_c_0", "1234")));
        assert_eq!(parse_reserved_name("something else"), None);
    }
}
