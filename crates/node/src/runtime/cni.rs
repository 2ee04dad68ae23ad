//! CNI configuration of the pod network, for CRI runtimes without one.
//!
//! If a runtime has no network, the agent writes a CNI configuration with a bridge: pods of this node reach each other, the node, and,
//! masqueraded, the outside.
//!
//! Promises: a file is written only if no other CNI configuration exists; only the file of this node is changed or removed.

mod configuration_files;

use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tokio::fs;

use self::configuration_files::FoundPlugins;
use crate::blocking::run_blocking;

/// Default CNI configuration directory, if the runtime reports none.
const DEFAULT_CONFIGURATION: &str = "/etc/cni/net.d";

/// Optional plugin: accepts traffic that the host's firewall drops (Docker sets the FORWARD policy to DROP).
const FIREWALL_PLUGIN: &str = "firewall";

/// Field of the configuration with the cluster UID. Runtimes and plugins ignore unknown fields.
const CLUSTER_FIELD: &str = "k3.io/cluster";

/// Maximum length of an interface name: `IFNAMSIZ` without the terminating zero.
const MAX_INTERFACE_NAME: usize = 15;

/// CNI bridge network for the pods of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniBridge {
    node: String,
    /// Cluster UID.
    cluster: String,
    pod_cidrs: Vec<String>,
}

/// CNI directories, as far as the runtime reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CniDirectories {
    /// Configuration directory.
    pub configuration: Option<PathBuf>,
    /// Plugin directories, in search order.
    pub plugins: Vec<PathBuf>,
}

/// Error while configuring the pod network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Required plugins are missing.
    #[error(
        "no pod network: the CNI plugins {} are not in {}; install them (containernetworking-plugins){}",
        .missing.join(", "), .searched.join(", "), .elsewhere
    )]
    MissingPlugins {
        /// Names of the missing plugins.
        missing: Vec<String>,
        /// Directories that were searched.
        searched: Vec<String>,
        /// Advice, if another directory has the plugins.
        elsewhere: String,
    },
    /// Another CNI configuration exists, and the runtime does not accept it.
    #[error("no pod network: {} exists, does not belong to this node, and the container runtime does not accept it", .0.display())]
    ForeignConfiguration(PathBuf),
    /// The node has no pod CIDR yet.
    #[error("no pod network: the node has no pod CIDR yet")]
    NoPodCidr,
    /// A file cannot be read or written.
    #[error("no pod network: {}: {reason}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        reason: io::Error,
    },
}

// --- CniBridge ---

impl CniBridge {
    /// Creates the network of a node, with pod CIDRs such as `10.42.0.0/24`: at most one of each IP family.
    pub fn new(node: impl Into<String>, cluster: impl Into<String>, pod_cidrs: Vec<String>) -> Self {
        CniBridge {
            node: node.into(),
            cluster: cluster.into(),
            pod_cidrs,
        }
    }

    /// Writes the CNI configuration, unless it exists.
    pub async fn write_configuration(&self, directories: &CniDirectories) -> Result<(), NetworkError> {
        let network = self.clone();
        let directories = directories.clone();
        run_blocking(move || network.write_blocking(&directories)).await
    }

    /// Removes the CNI configuration. Running pods keep their network.
    pub async fn remove_configuration(&self, directories: &CniDirectories) -> Result<(), NetworkError> {
        let path = self.path(&configuration_directory(directories));
        match fs::read_to_string(&path).await {
            Ok(text) if self.is_own_configuration(&text) => fs::remove_file(&path).await,
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(|reason| NetworkError::Io { path, reason })
    }

    fn write_blocking(&self, directories: &CniDirectories) -> Result<(), NetworkError> {
        let directory = configuration_directory(directories);
        let plugins = configuration_files::find_plugins(&directories.plugins)?;
        let path = self.path(&directory);
        let failed = |reason| NetworkError::Io {
            path: path.clone(),
            reason,
        };
        if let Some(foreign) = configuration_files::find_foreign(&directory, &path).map_err(failed)? {
            return Err(NetworkError::ForeignConfiguration(foreign));
        }
        if self.pod_cidrs.is_empty() {
            return Err(NetworkError::NoPodCidr);
        }
        let text = format!("{:#}\n", self.configuration(&plugins));
        match configuration_files::read(&path) {
            Some(existing) if existing == text => return Ok(()),
            Some(existing) if !self.is_own_configuration(&existing) => {
                return Err(NetworkError::ForeignConfiguration(path));
            }
            _ => {}
        }
        configuration_files::replace(&path, &text).map_err(failed)
    }

    /// Prefix `10-`: runtimes use the first configuration in lexical order.
    fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("10-{}.conflist", self.name()))
    }

    fn name(&self) -> String {
        format!("k3-{}", self.node)
    }

    fn is_own_configuration(&self, text: &str) -> bool {
        let Ok(configuration) = serde_json::from_str::<Value>(text) else {
            return false;
        };
        let text = |name: &str| configuration.get(name).and_then(Value::as_str);
        // Older releases did not write the cluster.
        text("name") == Some(&self.name())
            && text(CLUSTER_FIELD).is_none_or(|cluster| cluster == self.cluster)
    }

    /// Name of the bridge: unique for the node, and short enough for the kernel.
    fn bridge(&self) -> String {
        let plain = self.name();
        if plain.len() <= MAX_INTERFACE_NAME
            && plain
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return plain;
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, self.node.as_bytes());
        let mut name = String::from("k3-");
        for byte in &digest.as_ref()[..6] {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    fn configuration(&self, installed: &FoundPlugins) -> Value {
        let pod_cidrs: Vec<Value> = self
            .pod_cidrs
            .iter()
            .map(|range| json!([{ "subnet": range }]))
            .collect();
        let routes: Vec<Value> = self
            .pod_cidrs
            .iter()
            .map(|range| {
                let default_route = if range.contains(':') { "::/0" } else { "0.0.0.0/0" };
                json!({ "dst": default_route })
            })
            .collect();
        let mut plugins = vec![
            json!({
                "type": "bridge",
                "bridge": self.bridge(),
                "isGateway": true,
                "ipMasq": true,
                "hairpinMode": true,
                "ipam": { "type": "host-local", "ranges": pod_cidrs, "routes": routes },
            }),
            json!({ "type": "portmap", "capabilities": { "portMappings": true } }),
        ];
        if installed.has_firewall {
            plugins.push(json!({ "type": FIREWALL_PLUGIN }));
        }
        // The oldest CNI version that all these plugins support in configuration lists.
        json!({ "cniVersion": "0.4.0", "name": self.name(), CLUSTER_FIELD: self.cluster, "plugins": plugins })
    }
}

fn configuration_directory(directories: &CniDirectories) -> PathBuf {
    directories
        .configuration
        .clone()
        .unwrap_or_else(|| PathBuf::from(DEFAULT_CONFIGURATION))
}

#[cfg(test)]
mod tests {
    use super::{configuration_files::REQUIRED_PLUGINS, *};

    struct TestHost {
        root: tempfile::TempDir,
    }

    impl TestHost {
        fn new(plugins: &[&str]) -> Self {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("bin")).unwrap();
            for plugin in plugins {
                std::fs::write(root.path().join("bin").join(plugin), "").unwrap();
            }
            TestHost { root }
        }

        fn directories(&self) -> CniDirectories {
            CniDirectories {
                configuration: Some(self.directory()),
                plugins: vec![self.root.path().join("bin")],
            }
        }

        fn directory(&self) -> PathBuf {
            self.root.path().join("net.d")
        }

        fn files(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.directory()).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        }
    }

    fn network() -> CniBridge {
        CniBridge::new("n1", "c", vec!["10.42.0.0/24".to_owned()])
    }

    #[tokio::test]
    async fn writes_and_removes_configuration() {
        let host = TestHost::new(&REQUIRED_PLUGINS);
        let directories = host.directories();
        network().write_configuration(&directories).await.unwrap();
        network().write_configuration(&directories).await.unwrap();
        assert_eq!(host.files(), ["10-k3-n1.conflist"]);
        let text = std::fs::read_to_string(host.directory().join("10-k3-n1.conflist")).unwrap();
        let configuration: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(configuration["plugins"][0]["bridge"], "k3-n1");
        assert_eq!(
            configuration["plugins"][0]["ipam"]["ranges"][0][0]["subnet"],
            "10.42.0.0/24"
        );
        assert_eq!(configuration["plugins"].as_array().unwrap().len(), 2);
        network().remove_configuration(&directories).await.unwrap();
        network().remove_configuration(&directories).await.unwrap();
        assert!(host.files().is_empty());
    }

    #[tokio::test]
    async fn updates_own_configuration_with_new_pod_cidrs() {
        let host = TestHost::new(&REQUIRED_PLUGINS);
        network().write_configuration(&host.directories()).await.unwrap();
        let other = CniBridge::new("n1", "c", vec!["10.43.0.0/24".to_owned(), "fd00::/64".to_owned()]);
        other.write_configuration(&host.directories()).await.unwrap();
        let text = std::fs::read_to_string(host.directory().join("10-k3-n1.conflist")).unwrap();
        assert!(text.contains("fd00::/64") && text.contains("::/0") && !text.contains("10.42"));
    }

    #[tokio::test]
    async fn keeps_foreign_configuration() {
        for name in ["87-podman-bridge.conflist", "10-k3-n1.conflist"] {
            let host = TestHost::new(&REQUIRED_PLUGINS);
            std::fs::create_dir(host.directory()).unwrap();
            let path = host.directory().join(name);
            std::fs::write(&path, "{\"name\":\"podman\"}").unwrap();
            let error = network()
                .write_configuration(&host.directories())
                .await
                .unwrap_err();
            assert!(matches!(error, NetworkError::ForeignConfiguration(found) if found == path));
            network().remove_configuration(&host.directories()).await.unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"name\":\"podman\"}");
            assert_eq!(host.files(), [name]);
        }
    }

    #[tokio::test]
    async fn names_missing_plugins() {
        let host = TestHost::new(&["bridge", "loopback"]);
        let error = network()
            .write_configuration(&host.directories())
            .await
            .unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("the CNI plugins host-local, portmap are not in"),
            "{message}"
        );
        assert!(message.contains("containernetworking-plugins"), "{message}");
        assert!(!host.directory().exists());
    }

    #[tokio::test]
    async fn requires_pod_cidr() {
        let host = TestHost::new(&REQUIRED_PLUGINS);
        let error = CniBridge::new("n1", "c", Vec::new())
            .write_configuration(&host.directories())
            .await;
        assert!(matches!(error, Err(NetworkError::NoPodCidr)));
    }

    #[test]
    fn bridge_names_fit_interface_names() {
        assert_eq!(network().bridge(), "k3-n1");
        for node in ["worker-12.example.com", "a-very-long-name-of-a-node", "a/b"] {
            let bridge = CniBridge::new(node, "c", Vec::new()).bridge();
            assert!(
                bridge.len() <= MAX_INTERFACE_NAME && bridge.starts_with("k3-"),
                "{bridge}"
            );
        }
    }

    #[test]
    fn adds_firewall_plugin_if_present() {
        assert_eq!(
            network().configuration(&FoundPlugins { has_firewall: true })["plugins"][2]["type"],
            "firewall"
        );
    }
}
