//! Where a child finds the store.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use k3_storage::{
    OpenError, Store,
    etcd::{EtcdOptions, EtcdStore},
    file::{FileOptions, FileStore},
    mysql::MysqlStore,
};
use k3_test_services::MysqlServer;

use crate::backend::mysql::server_options;

/// A store, as text that fits in an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    File { directory: PathBuf },
    Etcd { endpoint: String, prefix: String },
    Mysql { server: String, database: String },
}

/// How long a request may take while servers restart: hardly longer than their absence, so that clients
/// see failures, and not only delays; but a busy machine must open a store in it.
const REQUEST: Duration = Duration::from_secs(3);

// --- Address ---

impl Address {
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, OpenError> {
        match self {
            Self::File { directory } => {
                let mut options = FileOptions::new(directory);
                // Also a process that is killed soon has a journal.
                options.journal_after = 0;
                Ok(FileStore::open(options).await?)
            }
            Self::Etcd { endpoint, prefix } => {
                let options = EtcdOptions {
                    prefix: prefix.clone(),
                    request_timeout: REQUEST,
                    ..EtcdOptions::at([endpoint])
                };
                Ok(EtcdStore::open(options).await?)
            }
            Self::Mysql { server, database } => {
                let mut options = server_options(&MysqlServer::from_url(server));
                options.database.clone_from(database);
                options.request_timeout = REQUEST;
                Ok(MysqlStore::open(options).await?)
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { directory } => write!(f, "file {}", directory.display()),
            Self::Etcd { endpoint, prefix } => write!(f, "etcd {endpoint} {prefix}"),
            Self::Mysql { server, database } => write!(f, "mysql {server} {database}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(' ').collect();
        match parts[..] {
            ["file", directory] => Ok(Self::File {
                directory: directory.into(),
            }),
            ["etcd", endpoint, prefix] => Ok(Self::Etcd {
                endpoint: endpoint.into(),
                prefix: prefix.into(),
            }),
            ["mysql", server, database] => Ok(Self::Mysql {
                server: server.into(),
                database: database.into(),
            }),
            _ => Err(format!("not an address: {text:?}")),
        }
    }
}
