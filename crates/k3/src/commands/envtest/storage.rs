//! Where an API server in a test environment keeps its objects.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use http::{Request, Uri};
use k3_storage::{
    StorageConfig,
    etcd::{ClientCertificate, EtcdOptions, Pem, Tls},
    file::{Durability, FileOptions},
};
use kube::{Client, Config};

use super::etcd::DATA_DIR_PATH;
use crate::failure::Failure;

/// How long a server may take to say whether it is k3.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(next_help_heading = "Storage")]
#[expect(clippy::struct_field_names, reason = "the names are those of the flags")]
pub(super) struct EtcdStorageFlags {
    /// The etcd, a list of URLs with commas: one that is k3 too, or a real one, 3.4 or newer
    #[arg(long, value_name = "URLS", value_delimiter = ',', required = true)]
    etcd_servers: Vec<String>,

    /// With a real etcd: all keys begin with this [default: /k3/]
    #[arg(long, value_name = "PREFIX")]
    etcd_prefix: Option<String>,

    /// With a real etcd over https: the authority of its certificate, in PEM
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,

    /// With a real etcd over https: the certificate to show, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"])]
    etcd_certfile: Option<PathBuf>,

    /// With a real etcd over https: the key of --etcd-certfile, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
}

// --- EtcdStorageFlags ---

impl EtcdStorageFlags {
    /// The store: in the directory of what stands in for an etcd, where a server that is started again finds it; else the real etcd.
    pub(super) async fn config(&self) -> Result<StorageConfig, Failure> {
        if let [server] = self.etcd_servers.as_slice()
            && let Some(directory) = directory_of(server).await?
        {
            return Ok(StorageConfig::File(FileOptions {
                // It is thrown away after the tests.
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
        Ok(StorageConfig::Etcd(options))
    }
}

/// The directory of a server that stands in for an etcd; `None` if it is anything else.
async fn directory_of(server: &str) -> Result<Option<PathBuf>, Failure> {
    if !server.starts_with("http://") {
        return Ok(None);
    }
    let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
        let advice = "it is to be a URL such as http://127.0.0.1:2379";
        Failure::usage(format!("--etcd-servers {server}"), advice).caused_by(error)
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
        .expect("a path of ours makes a request");
    // A real etcd knows no such path; whether there is one at all is found out when it is opened.
    Ok(client.request_text(request).await.ok().map(PathBuf::from))
}
