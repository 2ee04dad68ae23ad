//! Which store, from the flags.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use k3_storage::{
    StorageConfig,
    etcd::{ClientCertificate, EtcdOptions, Login, Pem, Tls},
    file::{Durability, FileOptions},
    mysql::{MysqlOptions, TlsMode},
};

use super::mysql_url;
use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(next_help_heading = "Where objects are kept")]
pub(crate) struct StorageFlags {
    /// The store
    #[arg(long, value_enum, default_value_t = Backend::File, value_name = "STORE")]
    pub(super) storage: Backend,

    /// With `file`: when a write is acknowledged
    #[arg(long, value_enum, value_name = "WHEN")]
    file_durability: Option<FileDurability>,

    /// With `etcd`: the members, a list of URLs with commas [default: `http://127.0.0.1:2379`]
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd_servers: Vec<String>,

    /// With `etcd`: all keys begin with this; two clusters in one etcd need two [default: /k3/]
    #[arg(long, value_name = "PREFIX")]
    etcd_prefix: Option<String>,

    /// With `etcd` over https: the authority of the members' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,

    /// With `etcd` over https: the certificate to show to the members, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"])]
    etcd_certfile: Option<PathBuf>,

    /// With `etcd` over https: the key of --etcd-certfile, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,

    /// With `etcd`: who to log in as [default: nobody]
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_username: Option<String>,

    /// With `etcd`: file with the password of --etcd-username
    #[arg(long, value_name = "FILE", requires = "etcd_username")]
    etcd_password_file: Option<PathBuf>,

    /// With `mysql`: the database, as `mysql://user@host:3306/k3`. Everybody on the machine can read a
    /// command line: give a password in the variable or in --mysql-password-file
    #[arg(long, value_name = "URL", env = "K3_MYSQL_URL", hide_env_values = true)]
    mysql_url: Option<Secret>,

    /// With `mysql`: file with the password
    #[arg(long, value_name = "FILE")]
    mysql_password_file: Option<PathBuf>,

    /// With `mysql`: whether to encrypt [default: preferred]
    #[arg(long, value_enum, value_name = "MODE")]
    mysql_tls: Option<MysqlTls>,

    /// With `--mysql-tls verified`: the authority of the server's certificate, in PEM [default: the public
    /// ones]
    #[arg(long, value_name = "FILE")]
    mysql_cafile: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// In memory: gone when the server ends
    Memory,
    /// In the data folder; one server
    File,
    /// In an etcd 3.4 or newer; several servers may share it
    Etcd,
    /// In MySQL 8, or MariaDB 10.11 and newer; several servers may share it
    Mysql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileDurability {
    /// Once it is on the disk: it survives a power loss (the default)
    Synced,
    /// Once the operating system has it: faster, but a power loss may take the store
    Relaxed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MysqlTls {
    /// Never
    Off,
    /// When the server can, without checking who it is
    Preferred,
    /// Always, without checking who the server is
    Required,
    /// Always, and the server must prove who it is
    Verified,
}

/// A text that is not shown.
#[derive(Clone)]
struct Secret(String);

// --- StorageFlags ---

impl StorageFlags {
    /// The store that the flags ask for.
    pub(super) fn config(&self, data_dir: &Path) -> Result<StorageConfig, Failure> {
        self.refuse_flags_of_other_stores()?;
        Ok(match self.storage {
            Backend::Memory => StorageConfig::Memory,
            Backend::File => {
                let mut options = FileOptions::new(data_dir.join("objects"));
                if self.file_durability == Some(FileDurability::Relaxed) {
                    options.durability = Durability::Relaxed;
                }
                StorageConfig::File(options)
            }
            Backend::Etcd => StorageConfig::Etcd(self.etcd()?),
            Backend::Mysql => StorageConfig::Mysql(self.mysql()?),
        })
    }

    /// A flag that does nothing is a mistake: whoever sets `--etcd-servers` does not want a file.
    fn refuse_flags_of_other_stores(&self) -> Result<(), Failure> {
        let set = [
            (Backend::File, "--file-durability", self.file_durability.is_some()),
            (Backend::Etcd, "--etcd-servers", !self.etcd_servers.is_empty()),
            (Backend::Etcd, "--etcd-prefix", self.etcd_prefix.is_some()),
            (Backend::Etcd, "--etcd-cafile", self.etcd_cafile.is_some()),
            (Backend::Etcd, "--etcd-username", self.etcd_username.is_some()),
            (Backend::Mysql, "--mysql-url", self.mysql_url.is_some()),
            (
                Backend::Mysql,
                "--mysql-password-file",
                self.mysql_password_file.is_some(),
            ),
            (Backend::Mysql, "--mysql-tls", self.mysql_tls.is_some()),
            (Backend::Mysql, "--mysql-cafile", self.mysql_cafile.is_some()),
        ];
        let stray = set
            .iter()
            .find(|(backend, _, is_set)| *is_set && *backend != self.storage);
        match stray {
            Some((backend, flag, _)) => Err(Failure::usage(
                format!(
                    "{flag} is for --storage {}, but the store is {}",
                    backend.name(),
                    self.storage.name()
                ),
                format!("add --storage {}, or leave out {flag}", backend.name()),
            )),
            None => Ok(()),
        }
    }

    fn etcd(&self) -> Result<EtcdOptions, Failure> {
        let mut options = EtcdOptions::default();
        if !self.etcd_servers.is_empty() {
            options.endpoints.clone_from(&self.etcd_servers);
        }
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
        if let Some((username, file)) = self.etcd_username.as_ref().zip(self.etcd_password_file.as_ref()) {
            options.login = Some(Login {
                username: username.clone(),
                password: password(file)?,
            });
        }
        Ok(options)
    }

    fn mysql(&self) -> Result<MysqlOptions, Failure> {
        let Some(url) = &self.mysql_url else {
            return Err(Failure::usage(
                "--storage mysql needs to know the database",
                "add --mysql-url mysql://user@host:3306/k3, or set K3_MYSQL_URL",
            ));
        };
        let mut options = mysql_url::parse(&url.0).map_err(|problem| {
            Failure::usage(
                format!("--mysql-url makes no sense: {problem}"),
                "write it as mysql://user@host:3306/k3",
            )
        })?;
        if let Some(file) = &self.mysql_password_file {
            options.password = password(file)?;
        }
        options.tls = match (self.mysql_tls, &self.mysql_cafile) {
            (Some(MysqlTls::Verified), ca_file) => TlsMode::Verified {
                ca_file: ca_file.clone(),
            },
            (_, Some(_)) => {
                return Err(Failure::usage(
                    "--mysql-cafile only counts where the server is verified",
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

/// A password from a file; the line end that editors add does not belong to it.
fn password(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::new(
            format!("cannot read the password file {}", file.display()),
            "name a file that this user may read, with the password and nothing else",
        )
        .because(error)
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

// --- Backend ---

impl Backend {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Etcd => "etcd",
            Self::Mysql => "mysql",
        }
    }
}

// --- Secret ---

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        storage: StorageFlags,
    }

    fn flags(line: &str) -> StorageFlags {
        Line::try_parse_from(["k3"].into_iter().chain(line.split_whitespace()))
            .unwrap()
            .storage
    }

    fn config(line: &str) -> Result<StorageConfig, String> {
        flags(line)
            .config(Path::new("/data"))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn objects_are_kept_in_the_data_folder_unless_said_otherwise() {
        let Ok(StorageConfig::File(options)) = config("") else {
            panic!()
        };
        assert_eq!(options.folder, Path::new("/data/objects"));
        assert_eq!(options.durability, Durability::Synced);
        assert!(matches!(config("--storage memory"), Ok(StorageConfig::Memory)));
    }

    #[test]
    fn etcd_is_found_by_its_flags() {
        let line = "--storage etcd --etcd-servers https://a:1,https://b:2 --etcd-prefix /x/ --etcd-cafile ca";
        let Ok(StorageConfig::Etcd(options)) = config(line) else {
            panic!()
        };
        assert_eq!(options.endpoints, ["https://a:1", "https://b:2"]);
        assert_eq!(options.prefix, "/x/");
        assert!(options.tls.is_some_and(|tls| tls.client.is_none()));
    }

    #[test]
    fn a_password_comes_from_its_file_without_the_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
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
    fn a_flag_of_another_store_is_a_mistake() {
        let message = config("--etcd-servers http://a:1").unwrap_err();
        assert!(
            message.contains("--etcd-servers") && message.contains("--storage etcd"),
            "{message}"
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", flags("--storage mysql --mysql-url mysql://u:s3cret@h"));
        assert!(!shown.contains("s3cret"), "{shown}");
        let message = config("--storage mysql --mysql-url mysql://u:s3cret").unwrap_err();
        assert!(!message.contains("s3cret"), "{message}");
    }
}
