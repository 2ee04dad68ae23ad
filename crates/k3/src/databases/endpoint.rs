//! The address of a database.

use std::{net::IpAddr, time::Duration};

use k3_storage::backend::{DatabaseConfig, DatabaseEndpoint};
use tokio::{net::TcpStream, time::timeout};

/// Timeout of a connection on this machine.
const LIMIT: Duration = Duration::from_secs(2);

/// An endpoint on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalEndpoint {
    host: String,
    pub(super) port: u16,
    pub(super) loopback: IpAddr,
}

/// Returns the first endpoint of a database if all are on this machine.
pub(super) fn local_endpoint(database: &dyn DatabaseConfig) -> Option<LocalEndpoint> {
    let endpoints = database.endpoints()?;
    let local: Option<Vec<_>> = endpoints.into_iter().map(LocalEndpoint::from_endpoint).collect();
    local?.into_iter().next()
}

// --- LocalEndpoint ---

impl LocalEndpoint {
    /// `None` if it is on another machine.
    fn from_endpoint(endpoint: DatabaseEndpoint) -> Option<Self> {
        let loopback = if endpoint.host.eq_ignore_ascii_case("localhost") {
            IpAddr::from([127, 0, 0, 1])
        } else {
            let address: IpAddr = endpoint.host.parse().ok()?;
            address.to_canonical().is_loopback().then_some(address)?
        };
        Some(Self {
            host: endpoint.host,
            port: endpoint.port,
            loopback,
        })
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
        local_endpoint(&options).map(|endpoint| endpoint.to_string())
    }

    fn of_etcd(endpoints: &[&str]) -> Option<String> {
        let options = EtcdOptions::at(endpoints.iter().copied());
        local_endpoint(&options).map(|endpoint| endpoint.to_string())
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
