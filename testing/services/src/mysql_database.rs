//! A database of a test on a MySQL server that tests share.

use std::process::{Command, Stdio};

use crate::{mariadb::CLIENT, port::random, shared::mysql};

/// Where a MySQL server is, and an account on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MysqlServer {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Name of the account.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// A database on the shared server ([`mysql`]) that no other test uses. It does not exist yet: stores create it. It is
/// dropped with this, because the server may be one that stays.
#[derive(Debug)]
pub struct MysqlDatabase {
    /// The server.
    pub server: MysqlServer,
    /// Name of the database.
    pub name: String,
}

// --- MysqlServer ---

impl MysqlServer {
    /// The server at a URL like `mysql://user:password@host:port`.
    ///
    /// # Panics
    /// The URL has another form.
    pub fn from_url(url: &str) -> Self {
        Self::parse(url).unwrap_or_else(|| panic!("{url} is not like mysql://user:password@host:port"))
    }

    fn parse(url: &str) -> Option<Self> {
        let (account, address) = url.strip_prefix("mysql://")?.split_once('@')?;
        let (user, password) = account.split_once(':')?;
        let (host, port) = address.trim_end_matches('/').split_once(':')?;
        Some(MysqlServer {
            host: host.to_owned(),
            port: port.parse().ok()?,
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// `mysql://user:password@host:port`.
    pub fn url(&self) -> String {
        format!(
            "mysql://{}:{}@{}:{}",
            self.user, self.password, self.host, self.port
        )
    }

    /// The command-line client, with this server and account.
    fn client(&self) -> Option<Command> {
        let mut client = Command::new(CLIENT.find().ok()?);
        client
            .args(["--no-defaults", "--protocol=tcp", "--connect-timeout=5"])
            .arg(format!("--host={}", self.host))
            .arg(format!("--port={}", self.port))
            .arg(format!("--user={}", self.user))
            .env("MYSQL_PWD", &self.password)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Some(client)
    }
}

// --- MysqlDatabase ---

impl MysqlDatabase {
    /// A database whose name begins with `prefix`.
    ///
    /// # Panics
    /// The server cannot be started.
    pub fn new(prefix: &str) -> Self {
        MysqlDatabase {
            server: MysqlServer::from_url(mysql()),
            name: format!("{prefix}_{:016x}", random()),
        }
    }
}

impl Drop for MysqlDatabase {
    fn drop(&mut self) {
        let statement = format!("--execute=DROP DATABASE IF EXISTS `{}`", self.name);
        let client = self.server.client();
        let dropped = client.and_then(|mut client| client.arg(statement).status().ok());
        if !dropped.is_some_and(|status| status.success()) {
            eprintln!("failed to drop the database {}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_url() {
        let server = MysqlServer::from_url("mysql://k3:secret@127.0.0.1:3307/");
        assert_eq!(server.host, "127.0.0.1");
        assert_eq!(server.url(), "mysql://k3:secret@127.0.0.1:3307");
        assert_eq!(server.port, 3307);
        assert_eq!((&*server.user, &*server.password), ("k3", "secret"));
        assert_eq!(MysqlServer::parse("mysql://127.0.0.1:3307"), None);
    }
}
