//! The pods' network for runtimes that are told by files of CNI.
//!
//! Where a runtime has no network, a bridge is described for it: pods of this machine reach each other, the machine, and through it
//! the world.
//!
//! Promises: a file is written only where there is none of anybody's; only the one that was written here is changed or removed.

use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tokio::{fs, task::spawn_blocking};

/// Where configurations are looked for if the runtime does not say.
const CONFIGURATION: &str = "/etc/cni/net.d";

/// Where plugins are looked for if the runtime does not say.
const PLUGINS: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// Without these there is no network.
const NEEDED: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];

/// Lets traffic through where the machine's firewall would not (Docker sets it so). Used where it is there.
const FIREWALL: &str = "firewall";

/// The field of a description with the uid of the cluster. Runtimes and plugins leave fields alone that they do not know.
const CLUSTER: &str = "k3.io/cluster";

/// The longest name of an interface, less the end that the kernel wants.
const MOST_NAME: usize = 15;

/// A network for the pods of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeNetwork {
    node: String,
    /// The uid of the cluster of that node.
    cluster: String,
    ranges: Vec<String>,
}

/// Where a runtime looks for networks, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directories {
    /// Files of configuration.
    pub configuration: Option<PathBuf>,
    /// Plugins, in the order they are looked for.
    pub plugins: Vec<PathBuf>,
}

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Programs are missing.
    #[error(
        "no pod network: the CNI plugins {} are not in {}; install them (containernetworking-plugins){}",
        .missing.join(", "), .looked.join(", "), .elsewhere
    )]
    NoPlugins {
        /// Which.
        missing: Vec<String>,
        /// Where they were looked for.
        looked: Vec<String>,
        /// Where they are instead, if they are.
        elsewhere: String,
    },
    /// Somebody else's configuration is there, and the runtime is not content with it.
    #[error("no pod network: {} is there, and is not of this node; the runtime does not take it", .0.display())]
    Foreign(PathBuf),
    /// No range of addresses was given.
    #[error("no pod network: the node has no range of addresses for pods yet")]
    NoRange,
    /// A file cannot be read or written.
    #[error("no pod network: {}: {reason}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
}

// --- BridgeNetwork ---

impl BridgeNetwork {
    /// A network for the pods of `node` of a cluster, with addresses from these ranges (`10.42.0.0/24`): at most one of each
    /// family.
    pub fn new(node: impl Into<String>, cluster: impl Into<String>, ranges: Vec<String>) -> Self {
        BridgeNetwork {
            node: node.into(),
            cluster: cluster.into(),
            ranges,
        }
    }

    /// Describes it to the runtime, unless there is a description already.
    pub async fn provide(&self, directories: &Directories) -> Result<(), NetworkError> {
        let network = self.clone();
        let directories = directories.clone();
        spawn_blocking(move || network.write(&directories))
            .await
            .unwrap_or_else(|error| {
                Err(NetworkError::File {
                    path: PathBuf::from(CONFIGURATION),
                    reason: io::Error::other(error),
                })
            })
    }

    /// Takes the description back. Pods that run keep their network.
    pub async fn withdraw(&self, directories: &Directories) -> Result<(), NetworkError> {
        let path = self.path(&folder(directories));
        match fs::read_to_string(&path).await {
            Ok(text) if self.is_ours(&text) => fs::remove_file(&path).await,
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(|reason| NetworkError::File { path, reason })
    }

    fn write(&self, directories: &Directories) -> Result<(), NetworkError> {
        let folder = folder(directories);
        let plugins = find_plugins(&directories.plugins)?;
        let path = self.path(&folder);
        let failed = |reason| NetworkError::File {
            path: path.clone(),
            reason,
        };
        if let Some(foreign) = foreign(&folder, &path).map_err(failed)? {
            return Err(NetworkError::Foreign(foreign));
        }
        if self.ranges.is_empty() {
            return Err(NetworkError::NoRange);
        }
        let text = format!("{:#}\n", self.description(plugins.has_firewall));
        match std::fs::read_to_string(&path) {
            Ok(there) if there == text => return Ok(()),
            Ok(there) if !self.is_ours(&there) => return Err(NetworkError::Foreign(path)),
            _ => {}
        }
        std::fs::create_dir_all(&folder).map_err(failed)?;
        // Runtimes read whatever appears under a name that they know, so that it must be whole when it does.
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text).map_err(failed)?;
        std::fs::rename(&partial, &path).map_err(failed)
    }

    /// Before most others: runtimes take the first.
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("10-{}.conflist", self.name()))
    }

    fn name(&self) -> String {
        format!("k3-{}", self.node)
    }

    fn is_ours(&self, text: &str) -> bool {
        let description: Value = serde_json::from_str(text).unwrap_or_default();
        let text = |name: &str| description.get(name).and_then(Value::as_str);
        // Versions before this one did not write the cluster.
        text("name") == Some(&self.name()) && text(CLUSTER).is_none_or(|cluster| cluster == self.cluster)
    }

    /// The name of the bridge: of the node, and short enough for the kernel.
    fn bridge(&self) -> String {
        let plain = self.name();
        if plain.len() <= MOST_NAME
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

    fn description(&self, has_firewall: bool) -> Value {
        let ranges: Vec<Value> = self
            .ranges
            .iter()
            .map(|range| json!([{ "subnet": range }]))
            .collect();
        let routes: Vec<Value> = self
            .ranges
            .iter()
            .map(|range| {
                let all = if range.contains(':') { "::/0" } else { "0.0.0.0/0" };
                json!({ "dst": all })
            })
            .collect();
        let mut plugins = vec![
            json!({
                "type": "bridge",
                "bridge": self.bridge(),
                "isGateway": true,
                "ipMasq": true,
                "hairpinMode": true,
                "ipam": { "type": "host-local", "ranges": ranges, "routes": routes },
            }),
            json!({ "type": "portmap", "capabilities": { "portMappings": true } }),
        ];
        if has_firewall {
            plugins.push(json!({ "type": FIREWALL }));
        }
        // The oldest version that all of these speak in lists.
        json!({ "cniVersion": "0.4.0", "name": self.name(), CLUSTER: self.cluster, "plugins": plugins })
    }
}

struct Plugins {
    has_firewall: bool,
}

fn folder(directories: &Directories) -> PathBuf {
    directories
        .configuration
        .clone()
        .unwrap_or_else(|| PathBuf::from(CONFIGURATION))
}

/// Whether the runtime will find its plugins.
fn find_plugins(told: &[PathBuf]) -> Result<Plugins, NetworkError> {
    let usual: Vec<PathBuf> = PLUGINS.iter().map(PathBuf::from).collect();
    let looked = if told.is_empty() { &usual } else { told };
    let is_in =
        |folders: &[PathBuf], plugin: &str| folders.iter().any(|folder| folder.join(plugin).is_file());
    let missing: Vec<String> = NEEDED
        .iter()
        .filter(|plugin| !is_in(looked, plugin))
        .map(|plugin| (*plugin).to_owned())
        .collect();
    if missing.is_empty() {
        return Ok(Plugins {
            has_firewall: is_in(looked, FIREWALL),
        });
    }
    let elsewhere = usual
        .iter()
        .find(|folder| missing.iter().all(|plugin| folder.join(plugin).is_file()))
        .map(|folder| format!(", or tell the runtime that they are in {}", folder.display()));
    Err(NetworkError::NoPlugins {
        missing,
        looked: looked.iter().map(|folder| folder.display().to_string()).collect(),
        elsewhere: elsewhere.unwrap_or_default(),
    })
}

/// A configuration that is not the one at `own`.
fn foreign(folder: &Path, own: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let known = path
            .extension()
            .is_some_and(|end| end == "conf" || end == "conflist" || end == "json");
        if known && path != own {
            found.push(path);
        }
    }
    // The one that runtimes take.
    Ok(found.into_iter().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        root: tempfile::TempDir,
    }

    impl Machine {
        fn new(plugins: &[&str]) -> Self {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("bin")).unwrap();
            for plugin in plugins {
                std::fs::write(root.path().join("bin").join(plugin), "").unwrap();
            }
            Machine { root }
        }

        fn directories(&self) -> Directories {
            Directories {
                configuration: Some(self.folder()),
                plugins: vec![self.root.path().join("bin")],
            }
        }

        fn folder(&self) -> PathBuf {
            self.root.path().join("net.d")
        }

        fn files(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.folder()).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        }
    }

    fn network() -> BridgeNetwork {
        BridgeNetwork::new("n1", "c", vec!["10.42.0.0/24".to_owned()])
    }

    #[tokio::test]
    async fn a_network_is_described_where_there_is_none_and_taken_back() {
        let machine = Machine::new(&NEEDED);
        let directories = machine.directories();
        network().provide(&directories).await.unwrap();
        network().provide(&directories).await.unwrap();
        assert_eq!(machine.files(), ["10-k3-n1.conflist"]);
        let text = std::fs::read_to_string(machine.folder().join("10-k3-n1.conflist")).unwrap();
        let description: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(description["plugins"][0]["bridge"], "k3-n1");
        assert_eq!(
            description["plugins"][0]["ipam"]["ranges"][0][0]["subnet"],
            "10.42.0.0/24"
        );
        assert_eq!(description["plugins"].as_array().unwrap().len(), 2);
        network().withdraw(&directories).await.unwrap();
        network().withdraw(&directories).await.unwrap();
        assert!(machine.files().is_empty());
    }

    #[tokio::test]
    async fn a_new_range_is_written_over_ones_own() {
        let machine = Machine::new(&NEEDED);
        network().provide(&machine.directories()).await.unwrap();
        let other = BridgeNetwork::new("n1", "c", vec!["10.43.0.0/24".to_owned(), "fd00::/64".to_owned()]);
        other.provide(&machine.directories()).await.unwrap();
        let text = std::fs::read_to_string(machine.folder().join("10-k3-n1.conflist")).unwrap();
        assert!(text.contains("fd00::/64") && text.contains("::/0") && !text.contains("10.42"));
    }

    #[tokio::test]
    async fn what_others_wrote_is_left_alone() {
        for name in ["87-podman-bridge.conflist", "10-k3-n1.conflist"] {
            let machine = Machine::new(&NEEDED);
            std::fs::create_dir(machine.folder()).unwrap();
            let path = machine.folder().join(name);
            std::fs::write(&path, "{\"name\":\"podman\"}").unwrap();
            let error = network().provide(&machine.directories()).await.unwrap_err();
            assert!(matches!(error, NetworkError::Foreign(found) if found == path));
            network().withdraw(&machine.directories()).await.unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"name\":\"podman\"}");
            assert_eq!(machine.files(), [name]);
        }
    }

    #[tokio::test]
    async fn missing_plugins_are_named() {
        let machine = Machine::new(&["bridge", "loopback"]);
        let error = network().provide(&machine.directories()).await.unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("the CNI plugins host-local, portmap are not in"),
            "{words}"
        );
        assert!(words.contains("containernetworking-plugins"), "{words}");
        assert!(!machine.folder().exists());
    }

    #[tokio::test]
    async fn without_a_range_there_is_nothing_to_describe() {
        let machine = Machine::new(&NEEDED);
        let error = BridgeNetwork::new("n1", "c", Vec::new())
            .provide(&machine.directories())
            .await;
        assert!(matches!(error, Err(NetworkError::NoRange)));
    }

    #[test]
    fn bridges_have_names_that_the_kernel_takes() {
        assert_eq!(network().bridge(), "k3-n1");
        for node in ["worker-12.example.com", "a-very-long-name-of-a-node", "a/b"] {
            let bridge = BridgeNetwork::new(node, "c", Vec::new()).bridge();
            assert!(bridge.len() <= MOST_NAME && bridge.starts_with("k3-"), "{bridge}");
        }
    }

    #[test]
    fn a_firewall_is_passed_where_its_plugin_is_there() {
        assert_eq!(network().description(true)["plugins"][2]["type"], "firewall");
    }
}
