//! What the runtime tells of itself, and the network that it is given where it has none.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use tokio::time::sleep;

use crate::runtime::{Readiness, RuntimeError, Version, network::Directories};

use super::{
    Cri,
    messages::{self, method},
};

/// How often a runtime is asked whether it found the network that was written for it.
const LOOK: Duration = Duration::from_millis(100);

/// How many times.
const LOOKS: u32 = 20;

const NETWORK_READY: &str = "NetworkReady";

impl Cri {
    pub(super) async fn tell_version(&self) -> Result<Version, RuntimeError> {
        let request = messages::VersionRequest {
            version: "v1".to_owned(),
        };
        let told: messages::VersionResponse = self
            .query(method::VERSION, request, "the runtime's version")
            .await?;
        Ok(Version {
            name: told.runtime_name,
            version: told.runtime_version,
        })
    }

    pub(super) async fn tell_readiness(&self) -> Result<Readiness, RuntimeError> {
        let mut status = self.status().await?;
        let mut advice = None;
        if let Some(network) = &self.network
            && !is_network_ready(&status)
        {
            match network.provide(&directories(&status)).await {
                Ok(()) => status = self.wait_for_network(status).await?,
                Err(error) => advice = Some(error.to_string()),
            }
        }
        Ok(Readiness {
            problems: problems(&status).into_iter().chain(advice).collect(),
            systemd_cgroups: self.has_systemd_cgroups(&status).await?,
        })
    }

    /// With everything that the runtime tells only when it is asked for more.
    async fn status(&self) -> Result<messages::StatusResponse, RuntimeError> {
        let request = messages::StatusRequest { verbose: true };
        self.query(method::STATUS, request, "the runtime's status").await
    }

    /// Runtimes look for files of networks on their own, and soon.
    async fn wait_for_network(
        &self,
        mut status: messages::StatusResponse,
    ) -> Result<messages::StatusResponse, RuntimeError> {
        for _ in 0..LOOKS {
            if is_network_ready(&status) {
                break;
            }
            sleep(LOOK).await;
            status = self.status().await?;
        }
        Ok(status)
    }

    async fn has_systemd_cgroups(&self, status: &messages::StatusResponse) -> Result<bool, RuntimeError> {
        let limit = self.limits.query;
        let told: Result<messages::RuntimeConfigResponse, _> = self
            .connection
            .call(method::RUNTIME_CONFIG, messages::Nothing {}, limit)
            .await;
        match told {
            Ok(config) => Ok(config
                .linux
                .is_some_and(|linux| linux.cgroup_driver == i32::from(messages::CgroupDriver::Systemd))),
            Err(failure) if failure.is_unimplemented() => Ok(systemd_by_info(status)),
            Err(failure) => Err(self.explain(failure, "the runtime's configuration", limit)),
        }
    }
}

/// What keeps pods from being run, in the words of the node's Ready condition.
fn problems(status: &messages::StatusResponse) -> Vec<String> {
    let conditions = status.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| !condition.status)
        .filter_map(|condition| {
            let what = match condition.r#type.as_str() {
                NETWORK_READY => "container runtime network not ready",
                "RuntimeReady" => "container runtime not ready",
                // Others are for who looks, and keep nobody from running pods.
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

/// The document that containerd tells of its configuration; CRI-O has another under the same name.
fn info(status: &messages::StatusResponse) -> Option<Value> {
    serde_json::from_str(status.info.get("config")?).ok()
}

/// Where the runtime looks for networks; the usual places where it does not say.
fn directories(status: &messages::StatusResponse) -> Directories {
    let info = info(status).unwrap_or_default();
    let path = |pointer: &str| {
        let text = info.pointer(pointer).and_then(Value::as_str)?;
        (!text.is_empty()).then(|| PathBuf::from(text))
    };
    Directories {
        configuration: path("/cni/confDir"),
        plugins: path("/cni/binDir")
            .into_iter()
            // containerd 2.1 has several.
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

    fn status(network: bool, config: &str) -> messages::StatusResponse {
        let condition = |name: &str, status| messages::RuntimeCondition {
            r#type: name.to_owned(),
            status,
            reason: "NetworkPluginNotReady".to_owned(),
            message: "cni plugin not initialized".to_owned(),
        };
        messages::StatusResponse {
            status: Some(messages::RuntimeStatus {
                conditions: vec![
                    condition("RuntimeReady", true),
                    condition(NETWORK_READY, network),
                    condition("ContainerdHasNoDeprecationWarnings", false),
                ],
            }),
            info: BTreeMap::from([("config".to_owned(), config.to_owned())]),
        }
    }

    #[test]
    fn problems_are_told_as_the_node_tells_them() {
        assert!(problems(&status(true, "")).is_empty());
        assert_eq!(
            problems(&status(false, "")),
            [
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                 message:cni plugin not initialized"
            ]
        );
    }

    #[test]
    fn what_containerd_tells_of_itself_is_understood() {
        let told = status(
            true,
            r#"{"cni":{"binDir":"/a/bin","confDir":"/a/net.d"},
                "containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}"#,
        );
        let found = directories(&told);
        assert_eq!(found.configuration, Some(PathBuf::from("/a/net.d")));
        assert_eq!(found.plugins, [PathBuf::from("/a/bin")]);
        assert!(systemd_by_info(&told));
    }

    #[test]
    fn what_others_tell_of_themselves_does_no_harm() {
        for config in ["", "[]", r#"{"sandboxImage":"pause","crio":{}}"#] {
            let told = status(true, config);
            assert_eq!(directories(&told).configuration, None);
            assert!(directories(&told).plugins.is_empty());
            assert!(!systemd_by_info(&told));
        }
    }
}
