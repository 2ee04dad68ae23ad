//! The stores under test, and the servers behind them.

use std::{path::Path, sync::Arc};

use k3_storage::{
    Store, backend::StorageConfig, etcd::EtcdOptions, file::FileOptions, memory::MemoryOptions,
    mysql::MysqlOptions,
};
use k3_test_services::{self as services, Etcd, MariaDb};

use crate::{BenchError, choices::Backend};

/// A store, with whatever must live as long as it.
pub(crate) struct Service {
    config: Box<dyn StorageConfig>,
    server: Server,
}

enum Server {
    None,
    Etcd(Etcd),
    MariaDb(MariaDb, Box<MysqlOptions>),
}

// --- Service ---

impl Service {
    /// Makes ready for a fresh store, with its data in this directory.
    pub(crate) fn start(backend: Backend, directory: &Path) -> Result<Self, BenchError> {
        std::fs::create_dir_all(directory)?;
        let parent = Some(directory.to_owned());
        let (config, server): (Box<dyn StorageConfig>, _) = match backend {
            Backend::Memory => (Box::new(MemoryOptions), Server::None),
            Backend::File => (Box::new(FileOptions::new(directory)), Server::None),
            Backend::Etcd => {
                let etcd = Etcd::start_with(&services::EtcdOptions {
                    parent,
                    ..services::EtcdOptions::default()
                })?;
                let options = EtcdOptions::at([etcd.endpoint()]);
                (Box::new(options), Server::Etcd(etcd))
            }
            Backend::Mysql => {
                let database = MariaDb::start_with(&services::MariaDbOptions {
                    parent,
                    ..services::MariaDbOptions::default()
                })?;
                let options =
                    mysql_options(&database.url()).ok_or("the URL of the database has another form")?;
                (
                    Box::new(options.clone()),
                    Server::MariaDb(database, Box::new(options)),
                )
            }
        };
        Ok(Self { config, server })
    }

    /// Opens the store. More than once means several clients of one server.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, BenchError> {
        Ok(self.config.open().await?)
    }

    /// Where etcd listens, if this is one.
    pub(crate) fn etcd_endpoint(&self) -> Option<String> {
        match &self.server {
            Server::Etcd(etcd) => Some(etcd.endpoint()),
            Server::None | Server::MariaDb(..) => None,
        }
    }

    /// The URL of a database for `k3 migrate`; its password is written into a file in the directory.
    pub(crate) fn address(&self, directory: &Path) -> Result<Option<String>, BenchError> {
        Ok(match &self.server {
            Server::MariaDb(_, options) => {
                let options = options.as_ref();
                let file = directory.canonicalize()?.join("password");
                std::fs::write(&file, &options.password)?;
                let MysqlOptions { host, port, user, .. } = options;
                let file = file.display();
                Some(format!("mysql://{user}@{host}:{port}/k3?password-file={file}"))
            }
            _ => self
                .etcd_endpoint()
                .map(|endpoint| endpoint.replace("http://", "etcd://")),
        })
    }

    /// The server's process, if there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        match &self.server {
            Server::None => None,
            Server::Etcd(etcd) => etcd.pid(),
            Server::MariaDb(database, _) => database.pid(),
        }
    }
}

/// The options for a server at `mysql://user:password@host:port`.
fn mysql_options(url: &str) -> Option<MysqlOptions> {
    let (account, address) = url.strip_prefix("mysql://")?.split_once('@')?;
    let (user, password) = account.split_once(':')?;
    let (host, port) = address.split_once(':')?;
    Some(MysqlOptions {
        host: host.to_owned(),
        port: port.parse().ok()?,
        user: user.to_owned(),
        password: password.to_owned(),
        ..MysqlOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_server_becomes_options() {
        let options = mysql_options("mysql://k3:secret@127.0.0.1:4242").unwrap();
        let MysqlOptions {
            host,
            port,
            user,
            password,
            ..
        } = options;
        assert_eq!(
            (host.as_str(), port, user.as_str(), password.as_str()),
            ("127.0.0.1", 4242, "k3", "secret")
        );
    }
}
