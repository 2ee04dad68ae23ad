//! The options of a MySQL store.

use std::{fmt, path::PathBuf, time::Duration};

use sqlx::{
    ConnectOptions as _,
    mysql::{MySqlConnectOptions, MySqlSslMode},
};

use crate::OpenError;

/// Prepared statements kept per connection: more than this backend has, so that none is prepared twice.
const STATEMENTS: usize = 100;
/// The longest name MySQL takes for a database.
const MAX_DATABASE_NAME: usize = 64;
/// Connections that are taken before the first read: the writer's and the follower's.
pub(super) const OWN_CONNECTIONS: usize = 2;

/// The options of a MySQL store.
#[derive(Clone)]
pub struct MysqlOptions {
    /// The server's name or address. Default: `127.0.0.1`.
    pub host: String,
    /// Its port. Default: 3306.
    pub port: u16,
    /// The account. Default: `k3`. It needs SELECT, INSERT, UPDATE and DELETE on the database, and
    /// CREATE when the tables or the database are not there yet.
    pub user: String,
    /// Its password. Default: empty. Never logged or shown.
    pub password: String,
    /// The database, created if it is missing. Default: `k3`. Letters, digits, `_`, `-` and `$`. Two
    /// clusters in one database would be one cluster.
    pub database: String,
    /// Connections of this process at most, at least three: one belongs to the writer and one to the
    /// follower of events, the rest serve reads. Default: 10.
    pub max_open_conns: usize,
    /// Connections for reads that are kept open when idle. Default: 5.
    pub max_idle_conns: usize,
    /// How long to wait for a connection. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long a read, or a write once its turn has arrived, may take, lost connections and second
    /// attempts included. Default: 10 s. Shorter than a restart of the server takes means that
    /// requests fail during one.
    pub request_timeout: Duration,
    /// Whether to encrypt. Default: [`TlsMode::Preferred`].
    pub tls: TlsMode,
}

/// Whether and how a connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never. Accounts with `caching_sha2_password`, the default of MySQL 8, cannot log in.
    Off,
    /// If the server supports it, without verification.
    #[default]
    Preferred,
    /// Always, without verification.
    Required,
    /// Always, and the server's certificate must be valid for its host name.
    Verified {
        /// Authorities to trust, in PEM; `None` for the public ones.
        ca_file: Option<PathBuf>,
    },
}

// --- MysqlOptions ---

impl Default for MysqlOptions {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 3306,
            user: "k3".to_owned(),
            password: String::new(),
            database: "k3".to_owned(),
            max_open_conns: 10,
            max_idle_conns: 5,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            tls: TlsMode::default(),
        }
    }
}

impl MysqlOptions {
    /// Validates the options.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let refuse = |setting, reason: String| Err(OpenError::InvalidSetting { setting, reason });
        if self.host.is_empty() {
            return refuse("host", "it is empty".to_owned());
        }
        if self.port == 0 {
            return refuse("port", "zero is not a port".to_owned());
        }
        if self.user.is_empty() {
            return refuse("user", "it is empty".to_owned());
        }
        if self.database.is_empty() || self.database.len() > MAX_DATABASE_NAME {
            return refuse(
                "database",
                format!("it must have 1 to {MAX_DATABASE_NAME} characters"),
            );
        }
        if let Some(odd) = self.database.chars().find(|&c| !in_database_name(c)) {
            return refuse(
                "database",
                format!("{odd:?} is not a letter, digit, '_', '-' or '$'"),
            );
        }
        if self.max_open_conns <= OWN_CONNECTIONS {
            let reason = format!(
                "{} are too few: one writes, one follows events, and at least one must be left for reads",
                self.max_open_conns
            );
            return refuse("max_open_conns", reason);
        }
        if self.max_idle_conns > self.max_open_conns {
            return refuse("max_idle_conns", "it is above max_open_conns".to_owned());
        }
        for (setting, time) in [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
        ] {
            if time < Duration::from_millis(100) || time > Duration::from_hours(1) {
                return refuse(setting, format!("{time:?} is not between 100 ms and one hour"));
            }
        }
        if let TlsMode::Verified { ca_file: Some(file) } = &self.tls
            && let Err(error) = std::fs::metadata(file)
        {
            return refuse("tls.ca_file", format!("{}: {error}", file.display()));
        }
        Ok(())
    }

    /// The driver's form of these options, without the database.
    pub(super) fn server(&self) -> MySqlConnectOptions {
        let options = MySqlConnectOptions::new()
            .host(&self.host)
            .port(self.port)
            .username(&self.user)
            .password(&self.password)
            .statement_cache_capacity(STATEMENTS)
            .pipes_as_concat(false)
            // The driver sets the session's time zone to UTC. `UNIX_TIMESTAMP` depends on that: in a
            // zone with summer time, one hour of the year occurs twice.
            .timezone("+00:00".to_owned())
            .disable_statement_logging();
        match &self.tls {
            TlsMode::Off => options.ssl_mode(MySqlSslMode::Disabled),
            TlsMode::Preferred => options.ssl_mode(MySqlSslMode::Preferred),
            TlsMode::Required => options.ssl_mode(MySqlSslMode::Required),
            TlsMode::Verified { ca_file: None } => options.ssl_mode(MySqlSslMode::VerifyIdentity),
            TlsMode::Verified { ca_file: Some(file) } => {
                options.ssl_mode(MySqlSslMode::VerifyIdentity).ssl_ca(file)
            }
        }
    }

    /// What to call the store in messages.
    pub(super) fn location(&self) -> String {
        format!("{}:{}/{}", self.host, self.port, self.database)
    }
}

impl fmt::Debug for MysqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("max_open_conns", &self.max_open_conns)
            .field("max_idle_conns", &self.max_idle_conns)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

fn in_database_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_an_invalid_setting() {
        let good = MysqlOptions::default();
        assert!(good.check().is_ok());
        for (bad, named) in [
            (
                MysqlOptions {
                    host: String::new(),
                    ..good.clone()
                },
                "host",
            ),
            (
                MysqlOptions {
                    port: 0,
                    ..good.clone()
                },
                "port",
            ),
            (
                MysqlOptions {
                    user: String::new(),
                    ..good.clone()
                },
                "user",
            ),
            (
                MysqlOptions {
                    database: String::new(),
                    ..good.clone()
                },
                "database",
            ),
            (
                MysqlOptions {
                    database: "k3`; DROP".to_owned(),
                    ..good.clone()
                },
                "database",
            ),
            (
                MysqlOptions {
                    database: "x".repeat(65),
                    ..good.clone()
                },
                "database",
            ),
            (
                MysqlOptions {
                    max_open_conns: 2,
                    ..good.clone()
                },
                "max_open_conns",
            ),
            (
                MysqlOptions {
                    max_idle_conns: 11,
                    ..good.clone()
                },
                "max_idle_conns",
            ),
            (
                MysqlOptions {
                    connect_timeout: Duration::ZERO,
                    ..good.clone()
                },
                "connect_timeout",
            ),
            (
                MysqlOptions {
                    request_timeout: Duration::ZERO,
                    ..good.clone()
                },
                "request_timeout",
            ),
            (
                MysqlOptions {
                    tls: TlsMode::Verified {
                        ca_file: Some("/no/such/file".into()),
                    },
                    ..good.clone()
                },
                "tls.ca_file",
            ),
        ] {
            match bad.check() {
                Err(OpenError::InvalidSetting { setting, .. }) => assert_eq!(setting, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }

    #[test]
    fn debug_output_hides_the_password() {
        let options = MysqlOptions {
            password: "hunter2".to_owned(),
            ..MysqlOptions::default()
        };
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
