//! The store of an API server in a test environment.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use http::{Request, Uri};
use k3_storage::{
    backend::StorageConfig,
    etcd::{ClientCertificate, EtcdOptions, Pem, Tls},
    file::{Durability, FileOptions},
};
use kube::{Client, Config};

use super::etcd::DATA_DIR_PATH;
use crate::command_error::CommandError;

/// Timeout of the request that detects whether the etcd is k3.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(next_help_heading = "Storage")]
#[expect(clippy::struct_field_names, reason = "the names are those of the flags")]
pub(super) struct EtcdStorageFlags {
    /// URLs of the etcd members, comma-separated: an etcd that is k3, or a real one from 3.4
    #[arg(long, value_name = "URLS", value_delimiter = ',', required = true)]
    etcd_servers: Vec<String>,

    /// With a real etcd: key prefix [default: /k3/]
    #[arg(long, value_name = "PREFIX")]
    etcd_prefix: Option<String>,

    /// With a real etcd over https: certificate authority of the members, in PEM
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,

    /// With a real etcd over https: client certificate, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"])]
    etcd_certfile: Option<PathBuf>,

    /// With a real etcd over https: the key of --etcd-certfile, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
}

// --- EtcdStorageFlags ---

impl EtcdStorageFlags {
    /// Returns the data directory of the etcd substitute as the store, or the real etcd.
    pub(super) async fn config(&self) -> Result<Box<dyn StorageConfig>, CommandError> {
        if let [server] = self.etcd_servers.as_slice()
            && let Some(directory) = directory_of(server).await?
        {
            return Ok(Box::new(FileOptions {
                // The objects are discarded after the tests.
                durability: Durability::Relaxed,
                ..FileOptions::new(directory.join("k3"))
            }));
        }
        let mut options = EtcdOptions {
            endpoints: self.etcd_servers.clone(),
            ..EtcdOptions::default()
        };
        if let Some(prefix) = &self.etcd_prefix {
            options.prefix.clone_from(prefix);
        }
        let pem = |file: &PathBuf| Pem::File(file.clone());
        options.tls =
            self.etcd_cafile.as_ref().map(|ca| Tls {
                ca: pem(ca),
                client: self.etcd_certfile.as_ref().zip(self.etcd_keyfile.as_ref()).map(
                    |(certificate, key)| ClientCertificate {
                        certificate: pem(certificate),
                        key: pem(key),
                    },
                ),
            });
        Ok(Box::new(options))
    }
}

/// Returns the data directory of an etcd substitute, or `None` for any other server.
async fn directory_of(server: &str) -> Result<Option<PathBuf>, CommandError> {
    if !server.starts_with("http://") {
        return Ok(None);
    }
    let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
        let advice = "use a URL such as http://127.0.0.1:2379";
        CommandError::usage(format!("--etcd-servers {server}"), advice).caused_by(error)
    };
    let uri: Uri = server
        .parse()
        .map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
    let mut config = Config::new(uri);
    config.connect_timeout = Some(TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    let client = Client::try_from(config).map_err(|error| unusable(error.into()))?;
    let request = Request::get(DATA_DIR_PATH)
        .body(Vec::new())
        .expect("the path is valid");
    // A real etcd returns 404. An unreachable server is reported when the store is opened.
    Ok(client.request_text(request).await.ok().map(PathBuf::from))
}
