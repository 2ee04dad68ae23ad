//! What the engine tells, as far as we read it. Everything may be missing or `null`; words that we do not know are words.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer};

/// `null` is the same as nothing.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// An entry of the list of containers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Listed {
    pub(super) id: String,
    /// In a word: `running`, `exited`.
    #[serde(deserialize_with = "or_default")]
    pub(super) state: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: HashMap<String, String>,
    /// The image as it was asked for.
    #[serde(deserialize_with = "or_default")]
    pub(super) image: String,
    #[serde(rename = "ImageID", deserialize_with = "or_default")]
    pub(super) image_id: String,
}

/// A container that was looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Inspected {
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) created: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) image: String,
    /// How often the engine has started it again.
    pub(super) restart_count: u32,
    pub(super) state: State,
    #[serde(deserialize_with = "or_default")]
    pub(super) config: Config,
    #[serde(deserialize_with = "or_default")]
    pub(super) host_config: HostAnswer,
    #[serde(deserialize_with = "or_default")]
    pub(super) network_settings: NetworkSettings,
    #[serde(deserialize_with = "or_default")]
    pub(super) graph_driver: GraphDriver,
}

/// How it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct State {
    #[serde(deserialize_with = "or_default")]
    pub(super) status: String,
    pub(super) running: bool,
    #[serde(rename = "OOMKilled")]
    pub(super) oom_killed: bool,
    pub(super) pid: i32,
    pub(super) exit_code: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) error: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) started_at: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) finished_at: String,
}

/// How it was made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Config {
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: HashMap<String, String>,
    pub(super) tty: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) user: String,
}

/// What it has of the machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct HostAnswer {
    /// By port of the container.
    #[serde(deserialize_with = "or_default")]
    pub(super) port_bindings: HashMap<String, Option<Vec<BindingAnswer>>>,
}

/// A port of the machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BindingAnswer {
    #[serde(deserialize_with = "or_default")]
    pub(super) host_port: String,
}

/// Volumes with names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VolumeList {
    #[serde(deserialize_with = "or_default")]
    pub(super) volumes: Vec<VolumeAnswer>,
}

/// A volume with a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VolumeAnswer {
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: HashMap<String, String>,
}

/// Where it is reached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NetworkSettings {
    #[serde(deserialize_with = "or_default")]
    pub(super) networks: HashMap<String, Endpoint>,
}

/// Its place in a network.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Endpoint {
    #[serde(rename = "IPAddress", deserialize_with = "or_default")]
    pub(super) address: String,
    #[serde(rename = "GlobalIPv6Address", deserialize_with = "or_default")]
    pub(super) address_v6: String,
}

/// Where its files are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct GraphDriver {
    #[serde(deserialize_with = "or_default")]
    pub(super) data: HashMap<String, String>,
}

/// What was made.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Made {
    pub(super) id: String,
}

/// A command that runs in a container, or has ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Exec {
    pub(super) running: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) pid: i32,
}

/// An image: an entry of the list, or one that was looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ImageAnswer {
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) repo_tags: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) repo_digests: Vec<String>,
    pub(super) size: u64,
    #[serde(deserialize_with = "or_default")]
    pub(super) config: Config,
}

/// A line of what happens while an image is brought or loaded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Progress {
    pub(super) error_detail: Option<ErrorDetail>,
    pub(super) error: Option<String>,
}

/// Why an image was not brought.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorDetail {
    /// As in HTTP; of some failures only.
    pub(super) code: u16,
    pub(super) message: String,
}

/// Something that happened.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Happened {
    pub(super) action: String,
    pub(super) actor: Actor,
}

/// To what it happened.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Actor {
    #[serde(rename = "ID")]
    pub(super) id: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) attributes: HashMap<String, String>,
}

/// Who the engine is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VersionAnswer {
    pub(super) version: String,
    pub(super) api_version: String,
    #[serde(rename = "MinAPIVersion")]
    pub(super) min_api_version: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) components: Vec<Component>,
}

/// A part of the engine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Component {
    pub(super) name: String,
}

/// What the engine says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Info {
    #[serde(deserialize_with = "or_default")]
    pub(super) cgroup_driver: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) docker_root_dir: String,
}
