//! Sandboxes.

use std::{
    collections::HashSet,
    net::IpAddr,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::fs;

use crate::runtime::{RuntimeError, Sandbox, SandboxId, SandboxSpec, SandboxState};

use super::{
    Cri,
    failure::{Failure, Words},
    gone, logs,
    messages::{self, method},
    sandbox_config::{self, LOG_DIRECTORY},
    state,
};

/// How many statuses are asked for at once.
const AT_ONCE: usize = 8;

impl Cri {
    pub(super) async fn make_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        make_folder(&spec.log_directory).await?;
        let request = messages::RunPodSandboxRequest {
            config: Some(sandbox_config::config(spec, &self.owner)),
            runtime_handler: spec.handler.clone(),
        };
        let limit = self.limits.start;
        let made: Result<messages::PodSandboxId, _> = self
            .connection
            .call(method::RUN_POD_SANDBOX, request, limit)
            .await;
        match made {
            Ok(made) => Ok(SandboxId(made.pod_sandbox_id)),
            Err(failure) => {
                if let Some(taken) = self.name_taken(&failure).await? {
                    return Err(taken);
                }
                let what = format!("sandbox of pod {}", spec.pod);
                Err(failure.explain(&what, limit, self.connection.socket(), Words::Coded))
            }
        }
    }

    /// Whether the name is held by a sandbox that is not ours.
    async fn name_taken(&self, failure: &Failure) -> Result<Option<RuntimeError>, RuntimeError> {
        let Some((name, holder)) = reserved(failure.message()) else {
            return Ok(None);
        };
        let ours = self.listed_sandboxes(holder).await?;
        Ok(ours.is_empty().then(|| RuntimeError::NameTaken {
            name: name.to_owned(),
            holder: holder.to_owned(),
        }))
    }

    pub(super) async fn end_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        if self.own_sandbox(id).await?.is_none() {
            return Ok(());
        }
        let request = messages::PodSandboxId {
            pod_sandbox_id: id.0.clone(),
        };
        let limit = self.limits.stop;
        let done: Result<messages::Nothing, _> = self
            .connection
            .call(method::STOP_POD_SANDBOX, request, limit)
            .await;
        gone(done)
            .map(|_| ())
            .map_err(|failure| self.explain(failure, &format!("end of sandbox {id}"), limit))
    }

    pub(super) async fn delete_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let Some(sandbox) = self.own_sandbox(id).await? else {
            return Ok(());
        };
        // Afterwards nobody knows where their logs are.
        let containers = self.listed_containers("", &id.0).await?;
        let mut written = Vec::new();
        for container in &containers {
            written.extend(self.log_of(container).await?);
        }
        let request = messages::PodSandboxId {
            pod_sandbox_id: id.0.clone(),
        };
        let limit = self.limits.stop;
        let done: Result<messages::Nothing, _> = self
            .connection
            .call(method::REMOVE_POD_SANDBOX, request, limit)
            .await;
        gone(done).map_err(|failure| self.explain(failure, &format!("removal of sandbox {id}"), limit))?;
        self.known.forget(&id.0);
        for container in &containers {
            self.known.forget(&container.id);
        }
        for log in &written {
            logs::remove(log).map_err(|error| cannot_remove(log, &error))?;
        }
        self.remove_folders(sandbox).await
    }

    /// Removes the folders of logs, if no other sandbox of the pod is there: that one may be about to use them.
    async fn remove_folders(&self, sandbox: messages::PodSandboxStatus) -> Result<(), RuntimeError> {
        let Some(folder) = sandbox.annotations.get(LOG_DIRECTORY).map(PathBuf::from) else {
            return Ok(());
        };
        let uid = sandbox.metadata.unwrap_or_default().uid;
        let others = self.listed_sandboxes("").await?;
        let is_same =
            |other: &messages::PodSandbox| other.metadata.as_ref().is_some_and(|pod| pod.uid == uid);
        if others.iter().any(is_same) {
            return Ok(());
        }
        if let Ok(mut containers) = fs::read_dir(&folder).await {
            while let Ok(Some(container)) = containers.next_entry().await {
                // Folders that are not empty are left alone: whatever is in them is not of the sandbox.
                let _ = fs::remove_dir(container.path()).await;
            }
        }
        let _ = fs::remove_dir(&folder).await;
        Ok(())
    }

    /// What the runtime tells of a sandbox that must be ours, if it is there.
    async fn own_sandbox(&self, id: &SandboxId) -> Result<Option<messages::PodSandboxStatus>, RuntimeError> {
        let status = self
            .sandbox_status(&id.0, false)
            .await?
            .and_then(|answer| answer.status);
        if let Some(status) = &status {
            self.must_be_ours("sandbox", &id.0, &status.labels)?;
        }
        Ok(status)
    }

    pub(super) async fn list_sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let listed = self.listed_sandboxes("").await?;
        let is_ready =
            |sandbox: &&messages::PodSandbox| state::sandbox_state(sandbox.state) == SandboxState::Ready;
        let ready: HashSet<String> = listed
            .iter()
            .filter(is_ready)
            .map(|sandbox| sandbox.id.clone())
            .collect();
        self.known.only_sandboxes(&ready);
        stream::iter(listed)
            .map(async |listed| {
                let addresses = match state::sandbox_state(listed.state) {
                    SandboxState::Ready => self.addresses_of(&listed.id).await?,
                    SandboxState::NotReady => Vec::new(),
                };
                Ok(state::sandbox(listed, addresses))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The addresses of a sandbox that is ready. One that went away meanwhile has none.
    pub(super) async fn addresses_of(&self, id: &str) -> Result<Vec<IpAddr>, RuntimeError> {
        if let Some(addresses) = self.known.addresses(id) {
            return Ok(addresses);
        }
        let addresses = match self.sandbox_status(id, false).await? {
            Some(answer) => answer.status.as_ref().map(state::addresses).unwrap_or_default(),
            None => return Ok(Vec::new()),
        };
        self.known.keep_addresses(id, &addresses);
        Ok(addresses)
    }

    /// What the runtime tells of one sandbox, if it is there.
    pub(super) async fn sandbox_status(
        &self,
        id: &str,
        verbose: bool,
    ) -> Result<Option<messages::PodSandboxStatusResponse>, RuntimeError> {
        let request = messages::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose,
        };
        let limit = self.limits.query;
        match self
            .connection
            .call(method::POD_SANDBOX_STATUS, request, limit)
            .await
        {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(self.explain(failure, &format!("status of sandbox {id}"), limit)),
        }
    }

    /// Ours, or the one of ours with this id.
    pub(super) async fn listed_sandboxes(&self, id: &str) -> Result<Vec<messages::PodSandbox>, RuntimeError> {
        let request = messages::ListPodSandboxRequest {
            filter: Some(messages::PodSandboxFilter {
                id: id.to_owned(),
                label_selector: self.ours(),
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

/// Makes a folder for logs.
pub(super) async fn make_folder(folder: &Path) -> Result<(), RuntimeError> {
    fs::create_dir_all(folder).await.map_err(|error| {
        RuntimeError::Refused(format!("cannot make the folder {}: {error}", folder.display()))
    })
}

/// Why a log stays.
pub(super) fn cannot_remove(log: &Path, error: &std::io::Error) -> RuntimeError {
    RuntimeError::Refused(format!("cannot remove the log {}: {error}", log.display()))
}

/// The name that is taken, and who has it: `name "x" is reserved for "id"`.
fn reserved(message: &str) -> Option<(&str, &str)> {
    let (before, after) = message.rsplit_once("\" is reserved for \"")?;
    let (_, name) = before.rsplit_once('"')?;
    let (holder, _) = after.split_once('"')?;
    Some((name, holder))
}

#[cfg(test)]
mod tests {
    use super::reserved;

    #[test]
    fn who_has_a_name_is_understood() {
        let said = "failed to reserve sandbox name \"a_b_c_0\": name \"a_b_c_0\" is reserved for \"1234\"";
        assert_eq!(reserved(said), Some(("a_b_c_0", "1234")));
        assert_eq!(reserved("something else"), None);
    }
}
