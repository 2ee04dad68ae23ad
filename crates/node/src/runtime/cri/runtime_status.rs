//! Version and status of the runtime, and the pod network for runtimes without one.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use tokio::time::sleep;

use crate::runtime::{RuntimeError, RuntimeStatus, RuntimeVersion, cni::CniDirectories};

use super::{
    CriRuntime,
    messages::{self, method},
};

/// Polling interval for the runtime to load a new CNI configuration.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of polls.
const MAX_POLLS: u32 = 20;

const NETWORK_READY: &str = "NetworkReady";

impl CriRuntime {
    pub(super) async fn query_version(&self) -> Result<RuntimeVersion, RuntimeError> {
        let request = messages::VersionRequest {
            version: "v1".to_owned(),
        };
        let response: messages::VersionResponse = self
            .query(method::VERSION, request, "the runtime's version")
            .await?;
        Ok(RuntimeVersion {
            name: response.runtime_name,
            version: response.runtime_version,
        })
    }

    pub(super) async fn query_status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let mut status = self.status().await?;
        let mut advice = None;
        if let Some(network) = &self.network
            && !is_network_ready(&status)
        {
            match network.write_configuration(&directories(&status)).await {
                Ok(()) => status = self.wait_for_network(status).await?,
                Err(error) => advice = Some(error.to_string()),
            }
        }
        Ok(RuntimeStatus {
            problems: problems(&status).into_iter().chain(advice).collect(),
            systemd_cgroups: self.has_systemd_cgroups(&status).await?,
        })
    }

    /// Returns the verbose status, which includes the runtime's configuration.
    async fn status(&self) -> Result<messages::StatusResponse, RuntimeError> {
        let request = messages::StatusRequest { verbose: true };
        self.query(method::STATUS, request, "the runtime's status").await
    }

    /// Waits until the runtime has loaded the CNI configuration; it watches the directory.
    async fn wait_for_network(
        &self,
        mut status: messages::StatusResponse,
    ) -> Result<messages::StatusResponse, RuntimeError> {
        for _ in 0..MAX_POLLS {
            if is_network_ready(&status) {
                break;
            }
            sleep(POLL_INTERVAL).await;
            status = self.status().await?;
        }
        Ok(status)
    }

    async fn has_systemd_cgroups(&self, status: &messages::StatusResponse) -> Result<bool, RuntimeError> {
        let limit = self.timeouts.query;
        let response: Result<messages::RuntimeConfigResponse, _> = self
            .connection
            .call(method::RUNTIME_CONFIG, messages::Empty {}, limit)
            .await;
        match response {
            Ok(config) => Ok(config
                .linux
                .is_some_and(|linux| linux.cgroup_driver == i32::from(messages::CgroupDriver::Systemd))),
            Err(error) if error.is_unimplemented() => Ok(systemd_by_info(status)),
            Err(error) => Err(self.runtime_error(error, "the runtime's configuration", limit)),
        }
    }
}

/// Returns why pods cannot run, as in the node's Ready condition.
// upstream: pkg/kubelet/kubelet.go updateRuntimeUp
fn problems(status: &messages::StatusResponse) -> Vec<String> {
    let conditions = status.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| !condition.status)
        .filter_map(|condition| {
            let what = match condition.r#type.as_str() {
                NETWORK_READY => "container runtime network not ready",
                "RuntimeReady" => "container runtime not ready",
                // Other conditions are informational.
                _ => return None,
            };
            Some(format!(
                "{what}: {}=false reason:{} message:{}",
                condition.r#type, condition.reason, condition.message
            ))
        })
        .collect()
}

fn is_network_ready(status: &messages::StatusResponse) -> bool {
    let mut conditions = status.status.iter().flat_map(|status| &status.conditions);
    conditions.all(|condition| condition.status || condition.r#type != NETWORK_READY)
}

/// Parses the runtime's configuration. containerd and CRI-O have different formats under the same key.
fn info(status: &messages::StatusResponse) -> Option<Value> {
    serde_json::from_str(status.info.get("config")?).ok()
}

/// Returns the runtime's CNI directories; empty for the defaults.
fn directories(status: &messages::StatusResponse) -> CniDirectories {
    let info = info(status).unwrap_or_default();
    let path = |pointer: &str| {
        let text = info.pointer(pointer).and_then(Value::as_str)?;
        (!text.is_empty()).then(|| PathBuf::from(text))
    };
    CniDirectories {
        configuration: path("/cni/confDir"),
        plugins: path("/cni/binDir")
            .into_iter()
            // containerd 2.1 has a list.
            .chain(
                info.pointer("/cni/binDirs")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(PathBuf::from),
            )
            .collect(),
    }
}

fn systemd_by_info(status: &messages::StatusResponse) -> bool {
    let Some(info) = info(status) else {
        return false;
    };
    let handler = info
        .pointer("/containerd/defaultRuntimeName")
        .and_then(Value::as_str)
        .unwrap_or("runc");
    info.pointer(&format!("/containerd/runtimes/{handler}/options/SystemdCgroup"))
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The status of a runtime that is ready except for these conditions.
    fn status(unready: &[&str], config: &str) -> messages::StatusResponse {
        let conditions = [
            "RuntimeReady",
            NETWORK_READY,
            "ContainerdHasNoDeprecationWarnings",
        ];
        let condition = |name: &str| messages::RuntimeCondition {
            r#type: name.to_owned(),
            status: !unready.contains(&name),
            reason: "NetworkPluginNotReady".to_owned(),
            message: "cni plugin not initialized".to_owned(),
        };
        messages::StatusResponse {
            status: Some(messages::RuntimeStatus {
                conditions: conditions.map(condition).into(),
            }),
            info: BTreeMap::from([("config".to_owned(), config.to_owned())]),
        }
    }

    #[test]
    fn formats_problems_like_the_kubelet() {
        assert!(problems(&status(&["ContainerdHasNoDeprecationWarnings"], "")).is_empty());
        assert_eq!(
            problems(&status(&[NETWORK_READY], "")),
            [
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                 message:cni plugin not initialized"
            ]
        );
    }

    #[test]
    fn reads_containerd_configuration() {
        let response = status(
            &[],
            r#"{"cni":{"binDir":"/a/bin","confDir":"/a/net.d"},
                "containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}"#,
        );
        let found = directories(&response);
        assert_eq!(found.configuration, Some(PathBuf::from("/a/net.d")));
        assert_eq!(found.plugins, [PathBuf::from("/a/bin")]);
        assert!(systemd_by_info(&response));
    }

    #[test]
    fn ignores_other_configuration_formats() {
        for config in ["", "[]", r#"{"sandboxImage":"pause","crio":{}}"#] {
            let response = status(&[], config);
            assert_eq!(directories(&response).configuration, None);
            assert!(directories(&response).plugins.is_empty());
            assert!(!systemd_by_info(&response));
        }
    }
}
