//! Database servers, which can be started in a container.

use super::Setting;

/// A backend whose stores are in a database server.
pub trait DatabaseBackend: Send + Sync {
    /// The setting of the server's image.
    fn image(&self) -> &'static Setting;

    /// The port of a server without another one.
    fn default_port(&self) -> u16;

    /// Settings of a store that is separate from those of other clusters on this machine: keys without section, and YAML
    /// values. `id` has digits and lower case letters only.
    fn cluster_settings(&self, id: &str, port: u16) -> Vec<(&'static str, String)>;
}

/// A configured store in a database server.
pub trait DatabaseConfig {
    /// The addresses of the server. `None` if one is invalid, which opening the store reports.
    fn endpoints(&self) -> Option<Vec<DatabaseEndpoint>>;

    /// A container that serves the store at the port of its first endpoint.
    fn container(&self, port: u16) -> DatabaseContainer;

    /// What such a container lacks for the store, such as `an etcd with authentication or TLS`.
    fn unsupported(&self) -> Option<&'static str> {
        None
    }

    /// Whether a server that is started for the store needs a password that is not configured.
    fn lacks_password(&self) -> bool {
        false
    }

    /// Sets the password if none is configured.
    fn fill_password(&mut self, _password: String) {}
}

/// An address of a database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseEndpoint {
    /// Name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How a database server runs in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseContainer {
    /// The program; that of the image if empty.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Published ports: of the machine, and of the container.
    pub ports: Vec<(u16, u16)>,
    /// The path of the data in the container.
    pub data_path: &'static str,
}
