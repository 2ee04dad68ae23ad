//! Who a node is: its certificate, and where it shows it.

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
    failure::Failure,
    file_format::FileFormat,
    secret_file::{self, FileError},
};

const FILE: &str = "identity.json";
/// The format that this version reads and writes. Format 1 has no format field.
const FORMAT: u32 = 1;

/// Who a node is. It is kept in one file, so that it is there whole or not at all.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NodeIdentity {
    /// The name of the node.
    pub(crate) name: String,
    /// Where the server is: a URL.
    pub(crate) server: String,
    /// Where other servers of the cluster are, as far as it is known: URLs.
    #[serde(default)]
    pub(super) others: Vec<String>,
    /// The certificates of the cluster's authorities, in PEM: one, or two while one takes the place of the other.
    pub(crate) authority: String,
    /// Its own certificate, in PEM.
    certificate: String,
    key: String,
}

// --- NodeIdentity ---

impl NodeIdentity {
    /// Has the first certificate signed through `client`, who may ask for it.
    pub(super) async fn request(
        client: &Client,
        name: &str,
        server: &Uri,
        authority: &str,
    ) -> Result<Self, SigningError> {
        let IssuedCertificate { certificate, key } = signing::request_client_certificate(client, name).await?;
        Ok(NodeIdentity {
            name: name.to_owned(),
            server: server.to_string(),
            others: Vec::new(),
            authority: authority.to_owned(),
            certificate,
            key,
        })
    }

    /// Has another certificate signed through `client`, who is this node.
    pub(super) async fn renew(&mut self, client: &Client) -> Result<(), SigningError> {
        let IssuedCertificate { certificate, key } = signing::request_client_certificate(client, &self.name).await?;
        (self.certificate, self.key) = (certificate, key);
        Ok(())
    }

    /// The one that is kept in a node's directory.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, Failure> {
        let path = path(directory);
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            let advice = "remove it, and join the cluster again with a new token";
            Failure::new(format!("cannot use {}", path.display()), advice).caused_by(error)
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

    /// Keeps it there.
    pub(super) fn write(&self, directory: &Path) -> Result<(), FileError> {
        let path = path(directory);
        secret_file::create_directory(path.parent().unwrap_or(directory))?;
        let text = serde_json::to_string(self).expect("texts can be written");
        secret_file::write(&path, &text)
    }

    /// From when to when its certificate holds, in seconds since 1970; nothing for one that cannot be read.
    pub(super) fn period(&self) -> Option<(i64, i64)> {
        let read = Certificate::from_pem(self.certificate.as_bytes()).ok()?;
        Some((read.not_before, read.not_after))
    }

    /// The certificates of the cluster's authorities.
    pub(super) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        find_certificates(self.authority.as_bytes())
    }

    /// Where the servers are, in the order in which they are asked.
    pub(super) fn servers(&self) -> impl Iterator<Item = &String> {
        let others = self.others.iter().filter(|other| **other != self.server);
        std::iter::once(&self.server).chain(others)
    }

    /// Clients that are this node, one for each server.
    pub(super) fn clients(&self) -> Result<Vec<Client>, Failure> {
        self.servers().map(|server| self.client(server)).collect()
    }

    fn client(&self, server: &str) -> Result<Client, Failure> {
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            let advice = "join the cluster again with a new token";
            Failure::new("cannot use the certificate of this node", advice).caused_by(error)
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
