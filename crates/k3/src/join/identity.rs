//! Who a node is: its certificate, and where it shows it.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, header};
use k3_apiserver::Certificate;
use k3_node::signing::{self, Signed, SigningError};
use kube::{Client, Config, config::AuthInfo};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde::{Deserialize, Serialize};

use crate::{
    door::KUBELET,
    failure::Failure,
    secret_file::{self, FileError},
};

const FILE: &str = "identity.json";

/// Who a node is. It is kept in one file, so that it is there whole or not at all.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NodeIdentity {
    /// The name of the node.
    pub(crate) name: String,
    /// Where the server is: a URL.
    pub(crate) server: String,
    /// The certificate of the cluster's authority, in PEM.
    pub(crate) authority: String,
    /// Its own certificate, in PEM.
    certificate: String,
    key: String,
}

// --- NodeIdentity ---

impl NodeIdentity {
    /// Has a new certificate signed through `client`, who may ask for it.
    pub(super) async fn ask(
        client: &Client,
        name: &str,
        server: &Uri,
        authority: &str,
    ) -> Result<Self, SigningError> {
        let Signed { certificate, key } = signing::client_certificate(client, name).await?;
        Ok(NodeIdentity {
            name: name.to_owned(),
            server: server.to_string(),
            authority: authority.to_owned(),
            certificate,
            key,
        })
    }

    /// The one that is kept in a node's folder.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = path(folder);
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            let advice = "remove it, and join the cluster again with a new token";
            Failure::new(format!("cannot use {}", path.display()), advice).because(error)
        };
        match secret_file::read(&path).map_err(|error| unusable(error.into()))? {
            None => Ok(None),
            Some(text) => serde_json::from_str(&text).map_err(|error| unusable(error.into())),
        }
    }

    /// Keeps it there.
    pub(super) fn write(&self, folder: &Path) -> Result<(), FileError> {
        let path = path(folder);
        secret_file::make_folder(path.parent().unwrap_or(folder))?;
        let text = serde_json::to_string(self).expect("texts can be written");
        secret_file::write(&path, &text)
    }

    /// From when to when its certificate holds, in seconds since 1970; nothing for one that cannot be read.
    pub(super) fn period(&self) -> Option<(i64, i64)> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?;
        let read = Certificate::read(&der).ok()?;
        Some((read.not_before, read.not_after))
    }

    /// The certificate of the cluster's authority.
    pub(super) fn authority_der(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.authority.as_bytes()).ok()
    }

    /// A client that is this node.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
            let advice = "join the cluster again with a new token";
            Failure::new("cannot use the certificate of this node", advice).because(error)
        };
        let server: Uri = self
            .server
            .parse()
            .map_err(|error: http::uri::InvalidUri| unusable(error.into()))?;
        let mut config = Config::new(server);
        config.root_cert = self.authority_der().map(|der| vec![der.to_vec()]);
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

fn path(folder: &Path) -> PathBuf {
    folder.join("pki").join(FILE)
}
