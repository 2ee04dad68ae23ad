//! The address of a database.

use std::{net::IpAddr, time::Duration};

use http::Uri;
use k3_storage::StorageConfig;
use tokio::{net::TcpStream, time::timeout};

/// Timeout of a connection on this machine.
const LIMIT: Duration = Duration::from_secs(2);
/// The default port of etcd endpoints, as in the store.
const ETCD_PORT: u16 = 2379;

/// An endpoint on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalEndpoint {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Returns the endpoint of a database if all of it is on this machine.
pub(super) fn local_endpoint(storage: &StorageConfig) -> Option<LocalEndpoint> {
    let endpoints: Vec<LocalEndpoint> = match storage {
        StorageConfig::Memory | StorageConfig::File(_) => return None,
        StorageConfig::Mysql(options) => vec![LocalEndpoint {
            host: options.host.clone(),
            port: options.port,
        }],
        // The store reports an invalid endpoint.
        StorageConfig::Etcd(options) => options
            .endpoints
            .iter()
            .map(|endpoint| parse_endpoint(endpoint))
            .collect::<Option<_>>()?,
    };
    let is_local = endpoints.iter().all(|endpoint| endpoint.loopback().is_some());
    endpoints.into_iter().next().filter(|_| is_local)
}

fn parse_endpoint(endpoint: &str) -> Option<LocalEndpoint> {
    let uri: Uri = endpoint.parse().ok()?;
    Some(LocalEndpoint {
        host: uri.host()?.trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().unwrap_or(ETCD_PORT),
    })
}

// --- LocalEndpoint ---

impl LocalEndpoint {
    /// The loopback address of the endpoint; `None` if it is on another machine.
    pub(super) fn loopback(&self) -> Option<IpAddr> {
        if self.host.eq_ignore_ascii_case("localhost") {
            return Some(IpAddr::from([127, 0, 0, 1]));
        }
        let address: IpAddr = self.host.parse().ok()?;
        address.to_canonical().is_loopback().then_some(address)
    }

    /// Whether a process listens there.
    pub(super) async fn is_in_use(&self) -> bool {
        let connected = timeout(LIMIT, TcpStream::connect((self.host.as_str(), self.port))).await;
        matches!(connected, Ok(Ok(_)))
    }
}

impl std::fmt::Display for LocalEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use k3_storage::{etcd::EtcdOptions, mysql::MysqlOptions};

    use super::*;

    fn of_mysql(host: &str) -> Option<String> {
        let options = MysqlOptions {
            host: host.to_owned(),
            ..MysqlOptions::default()
        };
        local_endpoint(&StorageConfig::Mysql(options)).map(|endpoint| endpoint.to_string())
    }

    fn of_etcd(endpoints: &[&str]) -> Option<String> {
        let options = EtcdOptions::at(endpoints.iter().copied());
        local_endpoint(&StorageConfig::Etcd(options)).map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn only_loopback_addresses_are_local() {
        for local in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1"] {
            assert_eq!(of_mysql(local), Some(format!("{local}:3306")));
        }
        assert_eq!(of_mysql("::1").as_deref(), Some("[::1]:3306"));
        for other in [
            "10.0.0.1",
            "db",
            "localhost.example.com",
            "0.0.0.0",
            "::",
            "192.0.2.1",
        ] {
            assert_eq!(of_mysql(other), None, "{other}");
        }
        assert_eq!(local_endpoint(&StorageConfig::Memory), None);
    }

    #[test]
    fn an_etcd_is_local_if_all_members_are() {
        assert_eq!(of_etcd(&["http://localhost"]).as_deref(), Some("localhost:2379"));
        assert_eq!(of_etcd(&["http://[::1]:3379"]).as_deref(), Some("[::1]:3379"));
        let two = ["http://127.0.0.1:3379", "http://127.0.0.1:4379"];
        assert_eq!(of_etcd(&two).as_deref(), Some("127.0.0.1:3379"));
        assert_eq!(of_etcd(&["http://127.0.0.1:3379", "http://10.0.0.1:2379"]), None);
        assert_eq!(of_etcd(&["not a url"]), None);
    }
}
