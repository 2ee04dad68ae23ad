//! Flags that select a store.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};
use k3_storage::{
    StorageConfig,
    etcd::{ClientCertificate, EtcdOptions, Login, Pem, Tls},
    file::{Durability, FileOptions},
    mysql::{MysqlOptions, TlsMode},
};

use super::{limits::duration, mysql_url};
use crate::{command_error::CommandError, secret::SecretString};

#[derive(Debug, Args)]
#[command(next_help_heading = "Storage")]
pub(crate) struct StorageFlags {
    /// Storage backend
    #[arg(long, visible_alias = "backend", value_enum, default_value_t = StorageBackend::File, value_name = "STORE")]
    storage: StorageBackend,

    /// With `etcd` and `mysql`: how long a start waits for an unavailable store; 0s tries once
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = k3_apiserver::parse_duration)]
    storage_wait: Duration,

    /// With `file`: directory of the objects [default: `objects` in the data directory]
    #[arg(long, value_name = "DIR", value_parser = some_path)]
    file_rootpath: Option<PathBuf>,

    /// With `file`: when a write is acknowledged
    #[arg(long, value_enum, value_name = "WHEN")]
    file_durability: Option<FileDurability>,

    /// With `etcd`: URLs of the members, comma-separated, such as `http://127.0.0.1:2379`
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd_servers: Vec<String>,

    /// With `etcd`: dial timeout, such as 5s or 1m30s
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    etcd_dial_timeout: Duration,

    /// With `etcd`: key prefix; each cluster in an etcd needs its own [default: /k3/]
    #[arg(long, value_name = "PREFIX")]
    etcd_prefix: Option<String>,

    /// With `etcd` over https: certificate authority of the members, in PEM
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,

    /// With `etcd` over https: client certificate, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"])]
    etcd_certfile: Option<PathBuf>,

    /// With `etcd` over https: the key of --etcd-certfile, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,

    /// With `etcd`: user name [default: none]
    #[arg(long, value_name = "NAME")]
    etcd_username: Option<String>,

    /// With `etcd`: password of --etcd-username. Every user of the machine can read command lines: use the variable or
    /// the configuration file
    #[arg(long, value_name = "PASSWORD")]
    etcd_password: Option<SecretString>,

    /// With `etcd`: file with the password of --etcd-username
    #[arg(long, value_name = "FILE")]
    etcd_password_file: Option<PathBuf>,

    /// With `mysql`: URL of the database, such as `mysql://user@host:3306/k3`. Every user of the machine can read command
    /// lines: pass a password in the variable, in --mysql-password-file or in the configuration file
    #[arg(long, value_name = "URL")]
    mysql_url: Option<SecretString>,

    /// With `mysql`: host name or address of the server [default: 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    mysql_host: Option<String>,

    /// With `mysql`: the port of the server [default: 3306]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    mysql_port: Option<u16>,

    /// With `mysql`: user name [default: k3]
    #[arg(long, value_name = "NAME")]
    mysql_user: Option<String>,

    /// With `mysql`: password. Every user of the machine can read command lines
    #[arg(long, value_name = "PASSWORD")]
    mysql_password: Option<SecretString>,

    /// With `mysql`: file with the password
    #[arg(long, value_name = "FILE")]
    mysql_password_file: Option<PathBuf>,

    /// With `mysql`: database name, created if missing [default: k3]
    #[arg(long, value_name = "NAME")]
    mysql_database: Option<String>,

    /// With `mysql`: maximum number of open connections: one for writes, one for events, the others for reads
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(3..))]
    mysql_max_open_conns: u16,

    /// With `mysql`: maximum number of idle connections
    #[arg(long, value_name = "N", default_value_t = 5)]
    mysql_max_idle_conns: u16,

    /// With `mysql`: TLS mode [default: preferred]
    #[arg(long, value_enum, value_name = "MODE")]
    mysql_tls: Option<MysqlTls>,

    /// With `--mysql-tls verified`: certificate authority of the server, in PEM [default: public authorities]
    #[arg(long, value_name = "FILE")]
    mysql_cafile: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageBackend {
    /// In memory: lost when the server stops
    Memory,
    /// In the data directory; one server
    File,
    /// In an etcd 3.4 or newer; several servers may share it
    Etcd,
    /// In MySQL 8, or MariaDB 10.11 and newer; several servers may share it
    Mysql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileDurability {
    /// After it is on disk: survives a power loss (the default)
    Synced,
    /// After the operating system has it: faster, but a power loss may destroy the store
    Relaxed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MysqlTls {
    /// No TLS
    Off,
    /// TLS if the server supports it, without verification
    Preferred,
    /// TLS without verification
    Required,
    /// TLS with verification
    Verified,
}

// --- StorageFlags ---

impl StorageFlags {
    /// Whether the store is one that several servers may use at the same time.
    pub(in crate::commands) fn is_shared(&self) -> bool {
        matches!(self.storage, StorageBackend::Etcd | StorageBackend::Mysql)
    }

    pub(in crate::commands) fn wait(&self) -> Duration {
        self.storage_wait
    }

    pub(in crate::commands) fn config(&self, data_dir: &Path) -> Result<StorageConfig, CommandError> {
        Ok(match self.storage {
            StorageBackend::Memory => StorageConfig::Memory,
            StorageBackend::File => {
                let own = || data_dir.join("objects");
                let mut options = FileOptions::new(self.file_rootpath.clone().unwrap_or_else(own));
                if self.file_durability == Some(FileDurability::Relaxed) {
                    options.durability = Durability::Relaxed;
                }
                StorageConfig::File(options)
            }
            StorageBackend::Etcd => StorageConfig::Etcd(self.etcd()?),
            StorageBackend::Mysql => StorageConfig::Mysql(self.mysql()?),
        })
    }

    fn etcd(&self) -> Result<EtcdOptions, CommandError> {
        if self.etcd_servers.iter().all(String::is_empty) {
            return Err(CommandError::usage(
                "--storage etcd needs --etcd-servers",
                "add --etcd-servers http://127.0.0.1:2379, or storage.etcd.endpoints to the configuration file",
            ));
        }
        let mut options = EtcdOptions::at(&self.etcd_servers);
        options.dial_timeout = self.etcd_dial_timeout;
        if let Some(prefix) = &self.etcd_prefix {
            options.prefix.clone_from(prefix);
        }
        options.tls =
            self.etcd_cafile.as_ref().map(|ca| Tls {
                ca: Pem::File(ca.clone()),
                client: self.etcd_certfile.as_ref().zip(self.etcd_keyfile.as_ref()).map(
                    |(certificate, key)| ClientCertificate {
                        certificate: Pem::File(certificate.clone()),
                        key: Pem::File(key.clone()),
                    },
                ),
            });
        let password = secret_or_file(self.etcd_password.as_ref(), self.etcd_password_file.as_deref())?;
        options.login = match (&self.etcd_username, password) {
            (Some(username), Some(password)) => Some(Login {
                username: username.clone(),
                password,
            }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(CommandError::usage(
                    "--etcd-username needs a password",
                    "add --etcd-password-file, or set K3_STORAGE_ETCD_PASSWORD",
                ));
            }
            (None, Some(_)) => {
                return Err(CommandError::usage(
                    "--etcd-password needs --etcd-username",
                    "add --etcd-username",
                ));
            }
        };
        Ok(options)
    }

    fn mysql(&self) -> Result<MysqlOptions, CommandError> {
        let mut options = match &self.mysql_url {
            Some(url) => mysql_url::parse(url.text()).map_err(|problem| {
                CommandError::usage(
                    format!("invalid --mysql-url: {problem}"),
                    "write it as mysql://user@host:3306/k3",
                )
            })?,
            None => MysqlOptions::default(),
        };
        let parts = [
            (&mut options.host, &self.mysql_host),
            (&mut options.user, &self.mysql_user),
            (&mut options.database, &self.mysql_database),
        ];
        for (part, said) in parts {
            if let Some(said) = said {
                part.clone_from(said);
            }
        }
        options.port = self.mysql_port.unwrap_or(options.port);
        let password = secret_or_file(self.mysql_password.as_ref(), self.mysql_password_file.as_deref())?;
        options.password = password.unwrap_or(options.password);
        if self.mysql_max_idle_conns > self.mysql_max_open_conns {
            return Err(CommandError::usage(
                format!(
                    "--mysql-max-idle-conns {} is more than --mysql-max-open-conns {}",
                    self.mysql_max_idle_conns, self.mysql_max_open_conns
                ),
                "idle connections count as open connections",
            ));
        }
        options.max_open_conns = self.mysql_max_open_conns.into();
        options.max_idle_conns = self.mysql_max_idle_conns.into();
        options.tls = match (self.mysql_tls, &self.mysql_cafile) {
            (Some(MysqlTls::Verified), ca_file) => TlsMode::Verified {
                ca_file: ca_file.clone(),
            },
            (_, Some(_)) => {
                return Err(CommandError::usage(
                    "--mysql-cafile needs --mysql-tls verified",
                    "add --mysql-tls verified",
                ));
            }
            (Some(MysqlTls::Off), None) => TlsMode::Off,
            (Some(MysqlTls::Required), None) => TlsMode::Required,
            (Some(MysqlTls::Preferred) | None, None) => TlsMode::Preferred,
        };
        Ok(options)
    }
}

/// The password, from the flag or from a file.
fn secret_or_file(
    secret: Option<&SecretString>,
    file: Option<&Path>,
) -> Result<Option<String>, CommandError> {
    match (secret, file) {
        (Some(secret), _) => Ok(Some(secret.text().to_owned())),
        (None, Some(file)) => password(file).map(Some),
        (None, None) => Ok(None),
    }
}

fn some_path(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() {
        return Err("must not be empty: it is the path of a directory");
    }
    Ok(text.into())
}

/// Reads a password file, without a trailing line end.
fn password(file: &Path) -> Result<String, CommandError> {
    let text = fs::read_to_string(file).map_err(|error| {
        CommandError::new(
            format!("cannot read the password file {}", file.display()),
            "name a file that this user may read, with the password and nothing else",
        )
        .caused_by(error)
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestCommandLine {
        #[command(flatten)]
        storage: StorageFlags,
    }

    fn flags(line: &str) -> StorageFlags {
        TestCommandLine::try_parse_from(["k3"].into_iter().chain(line.split_whitespace()))
            .unwrap()
            .storage
    }

    fn config(line: &str) -> Result<StorageConfig, String> {
        flags(line)
            .config(Path::new("/data"))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn stores_objects_in_the_data_directory_by_default() {
        let Ok(StorageConfig::File(options)) = config("") else {
            panic!()
        };
        assert_eq!(options.directory, Path::new("/data/objects"));
        assert_eq!(options.durability, Durability::Synced);
        assert!(matches!(config("--storage memory"), Ok(StorageConfig::Memory)));
    }

    #[test]
    fn builds_etcd_options_from_flags() {
        let line = "--storage etcd --etcd-servers https://a:1,https://b:2 --etcd-prefix /x/ --etcd-cafile ca";
        let Ok(StorageConfig::Etcd(options)) = config(line) else {
            panic!()
        };
        assert_eq!(options.endpoints, ["https://a:1", "https://b:2"]);
        assert_eq!(options.prefix, "/x/");
        assert!(options.tls.is_some_and(|tls| tls.client.is_none()));
    }

    #[test]
    fn trims_the_line_end_of_password_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        fs::write(&file, "s3cret\n").unwrap();
        let line = format!(
            "--storage mysql --mysql-url mysql://u@h --mysql-password-file {}",
            file.display()
        );
        let Ok(StorageConfig::Mysql(options)) = config(&line) else {
            panic!()
        };
        assert_eq!(options.password, "s3cret");
    }

    #[test]
    fn rejects_etcd_without_members_and_file_without_path() {
        let message = config("--backend etcd").unwrap_err();
        assert!(message.contains("--etcd-servers"), "{message}");
        assert!(TestCommandLine::try_parse_from(["k3", "--backend=file", "--file-rootpath="]).is_err());
        let Ok(StorageConfig::File(options)) = config("--backend=file --file-rootpath=/objects") else {
            panic!()
        };
        assert_eq!(options.directory, Path::new("/objects"));
    }

    #[test]
    fn separate_flags_override_parts_of_the_url() {
        let options = |line: &str| match config(&format!("--storage mysql {line}")) {
            Ok(StorageConfig::Mysql(options)) => (format!("{options:?}"), options.password),
            other => panic!("{other:?}"),
        };
        let separate = "--mysql-host h --mysql-port 1 --mysql-user u --mysql-password p --mysql-database d";
        assert_eq!(options(separate), options("--mysql-url mysql://u:p@h:1/d"));
        assert_eq!(
            options(separate),
            options(&format!("--mysql-url mysql://a:b@c:2/e {separate}"))
        );
        assert_eq!(options(""), options("--mysql-url mysql://k3@127.0.0.1"));
        let (pool, _) = options("--mysql-max-open-conns 20 --mysql-max-idle-conns 7");
        assert!(pool.contains("max_open_conns: 20, max_idle_conns: 7"), "{pool}");
        assert!(config("--storage mysql --mysql-max-open-conns 3").is_err());
    }

    #[test]
    fn etcd_login_needs_user_name_and_password() {
        let etcd = "--storage etcd --etcd-servers http://a:1";
        let Ok(StorageConfig::Etcd(options)) = config(&format!(
            "{etcd} --etcd-username u --etcd-password p --etcd-dial-timeout 1m30s"
        )) else {
            panic!()
        };
        assert!(
            options
                .login
                .is_some_and(|login| login.username == "u" && login.password == "p")
        );
        assert_eq!(options.dial_timeout, Duration::from_secs(90));
        for half in ["--etcd-username u", "--etcd-password p"] {
            assert!(config(&format!("{etcd} {half}")).is_err(), "{half}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", flags("--storage mysql --mysql-url mysql://u:s3cret@h"));
        assert!(!shown.contains("s3cret"), "{shown}");
        let message = config("--storage mysql --mysql-url mysql://u:s3cret").unwrap_err();
        assert!(!message.contains("s3cret"), "{message}");
    }
}
