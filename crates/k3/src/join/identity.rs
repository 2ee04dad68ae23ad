//! The identity of a node: its certificate and its servers.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, header};
use k3_node::signing::{self, IssuedCertificate, SigningError};
use k3_pki::{Certificate, find_certificates};
use kube::{Client, Config, config::AuthInfo};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::{
    client_factory::KUBELET,
    command_error::CommandError,
    file_format::FileFormat,
    secret_file::{self, FileError},
};

const FILE: &str = "identity.json";
/// The format version of the file. Format 1 has no format field.
const FORMAT: u32 = 1;

/// The identity of a node, in one file, so that it is complete or absent.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NodeIdentity {
    /// The name of the node.
    pub(crate) name: String,
    /// URL of the server.
    pub(crate) server: String,
    /// URLs of the other known servers of the cluster.
    #[serde(default)]
    pub(super) others: Vec<String>,
    /// Certificate authorities of the cluster in PEM: one, or two during a rotation.
    pub(crate) authority: String,
    /// The certificate of the node, in PEM.
    certificate: String,
    key: String,
}

// --- NodeIdentity ---

impl NodeIdentity {
    /// Requests the first certificate through `client`, which must be allowed to create certificate requests for nodes.
    pub(super) async fn request(
        client: &Client,
        name: &str,
        server: &Uri,
        authority: &str,
    ) -> Result<Self, SigningError> {
        let IssuedCertificate { certificate, key } =
            signing::request_client_certificate(client, name).await?;
        Ok(NodeIdentity {
            name: name.to_owned(),
            server: server.to_string(),
            others: Vec::new(),
            authority: authority.to_owned(),
            certificate,
            key,
        })
    }

    /// Requests a new certificate through `client`, which is the node.
    pub(super) async fn renew(&mut self, client: &Client) -> Result<(), SigningError> {
        let IssuedCertificate { certificate, key } =
            signing::request_client_certificate(client, &self.name).await?;
        (self.certificate, self.key) = (certificate, key);
        Ok(())
    }

    /// Reads the identity from the directory of a node.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, CommandError> {
        let path = path(directory);
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            let advice = "remove it, and join the cluster again with a new token";
            CommandError::new(format!("cannot use {}", path.display()), advice).caused_by(error)
        };
        match secret_file::read(&path).map_err(|error| unusable(error.into()))? {
            None => Ok(None),
            Some(text) => {
                FileFormat::of_json(text.as_bytes())
                    .check(&format!("the identity of the node in {}", path.display()), FORMAT)?;
                serde_json::from_str(&text).map_err(|error| unusable(error.into()))
            }
        }
    }

    /// Writes the identity to the directory.
    pub(super) fn write(&self, directory: &Path) -> Result<(), FileError> {
        let path = path(directory);
        secret_file::create_directory(path.parent().unwrap_or(directory))?;
        let text = serde_json::to_string(self).expect("strings serialize");
        secret_file::write(&path, &text)
    }

    /// The validity of the certificate in seconds since 1970; `None` if it is malformed.
    pub(super) fn period(&self) -> Option<(i64, i64)> {
        let read = Certificate::from_pem(self.certificate.as_bytes()).ok()?;
        Some((read.not_before, read.not_after))
    }

    /// The certificate authorities of the cluster.
    pub(super) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        find_certificates(self.authority.as_bytes())
    }

    /// The servers, in order of preference.
    pub(super) fn servers(&self) -> impl Iterator<Item = &String> {
        let others = self.others.iter().filter(|other| **other != self.server);
        std::iter::once(&self.server).chain(others)
    }

    /// Clients with the identity of the node, one per server.
    pub(super) fn clients(&self) -> Result<Vec<Client>, CommandError> {
        self.servers().map(|server| self.client(server)).collect()
    }

    fn client(&self, server: &str) -> Result<Client, CommandError> {
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            let advice = "join the cluster again with a new token";
            CommandError::new("cannot use the certificate of this node", advice).caused_by(error)
        };
        let server: Uri = server
            .parse()
            .map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
        let mut config = Config::new(server);
        config.root_cert = Some(self.authorities().iter().map(|der| der.to_vec()).collect());
        let agent = (header::USER_AGENT, HeaderValue::from_static(KUBELET));
        config.headers.push(agent);
        config.auth_info = AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&self.certificate)),
            client_key_data: Some(STANDARD.encode(&self.key).into()),
            ..AuthInfo::default()
        };
        Client::try_from(config).map_err(|error| unusable(error.into()))
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("pki").join(FILE)
}
