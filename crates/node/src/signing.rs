//! Certificates that a node has signed by its cluster.
//!
//! Promise: the key never leaves the machine.

use std::time::Duration;

use k3_pki::{IssueError, KeyError, KeyPair, Subject, new_request};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

/// How long it is waited for an answer.
const PATIENCE: Duration = Duration::from_mins(15);
/// How often it is looked for the answer: often at first, for a cluster that approves by itself.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A certificate and its key, in PEM form.
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SigningError {
    /// A key cannot be made.
    #[error("cannot make a key: {0}")]
    Key(#[from] KeyError),
    /// A request cannot be made.
    #[error("cannot make a request: {0}")]
    Make(#[from] IssueError),
    /// The cluster cannot be asked.
    #[error("cannot ask the cluster: {0}")]
    Api(#[from] kube::Error),
    /// Somebody said no.
    #[error("the request {0} was denied: {1}")]
    Denied(String, String),
    /// The signer cannot do it.
    #[error("the request {0} cannot be signed: {1}")]
    Failed(String, String),
    /// Nobody said anything.
    #[error("the request {0} was not answered within {PATIENCE:?}")]
    Unanswered(String),
}

/// A certificate with which its bearer is the user `system:node:NAME`. The client must be allowed to ask for it.
pub async fn client_certificate(client: &Client, node: &str) -> Result<Signed, SigningError> {
    let key = KeyPair::generate()?;
    let subject = Subject::new(&["system:nodes"], &format!("system:node:{node}"));
    let request = new_request(&subject, &[], &key)?;
    let usages = ["digital signature", "client auth"];
    let certificate = signed(client, CLIENT_SIGNER, &usages, &request).await?;
    Ok(Signed {
        certificate,
        key: key.to_pem(),
    })
}

/// Files a request, and waits for its certificate.
pub(crate) async fn signed(
    client: &Client,
    signer: &str,
    usages: &[&str],
    request: &str,
) -> Result<String, SigningError> {
    let requests = Api::<CertificateSigningRequest>::all(client.clone());
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": ByteString(request.as_bytes().to_vec()),
            "signerName": signer,
            "usages": usages,
        },
    });
    let request = serde_json::from_value(request).map_err(kube::Error::SerdeError)?;
    let made = requests.create(&PostParams::default(), &request).await?;
    let name = made.metadata.name.unwrap_or_default();
    let answer = timeout(PATIENCE, answer(&requests, &name)).await;
    answer.map_err(|_| SigningError::Unanswered(name))?
}

/// Waits until a request was answered.
async fn answer(requests: &Api<CertificateSigningRequest>, name: &str) -> Result<String, SigningError> {
    let mut pause = LOOK.0;
    loop {
        let request = requests.get(name).await?;
        let status = request.status.unwrap_or_default();
        for condition in status.conditions.into_iter().flatten() {
            let message = condition.message.unwrap_or_default();
            match condition.type_.as_str() {
                "Denied" => return Err(SigningError::Denied(name.to_owned(), message)),
                "Failed" => return Err(SigningError::Failed(name.to_owned(), message)),
                _ => {}
            }
        }
        let certificate = status
            .certificate
            .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        if let Some(certificate) = certificate.filter(|certificate| !certificate.is_empty()) {
            return Ok(certificate);
        }
        sleep(pause).await;
        pause = (2 * pause).min(LOOK.1);
    }
}
