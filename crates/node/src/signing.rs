//! Client for certificate signing requests: creates a `CertificateSigningRequest` and waits for its certificate.
//!
//! Promise: the private key never leaves this machine.

use std::time::Duration;

use k3_pki::{IssueError, KeyError, KeyPair, Subject, new_request};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

/// Time limit for approval and signing. Upstream uses the same 15 minutes for rotation.
const SIGNING_TIMEOUT: Duration = Duration::from_mins(15);
/// First and longest poll interval. The first is short for clusters that approve automatically.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A signed certificate and its private key, in PEM.
pub struct IssuedCertificate {
    /// Certificate chain.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

/// A certificate was not issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SigningError {
    /// No key could be generated.
    #[error("failed to generate a private key: {0}")]
    Key(#[from] KeyError),
    /// No PKCS #10 request could be generated.
    #[error("failed to generate a certificate request: {0}")]
    Request(#[from] IssueError),
    /// A request to the API server failed.
    #[error("API request failed: {0}")]
    Api(#[from] kube::Error),
    /// The API server did not name the request, so that its certificate cannot be read.
    #[error("the API server created a CertificateSigningRequest without name")]
    Unnamed,
    /// The `CertificateSigningRequest` was denied.
    #[error("CertificateSigningRequest {0} was denied: {1}")]
    Denied(String, String),
    /// The signer failed.
    #[error("CertificateSigningRequest {0} failed: {1}")]
    Failed(String, String),
    /// The `CertificateSigningRequest` was neither signed nor denied in time.
    #[error("CertificateSigningRequest {0} was not signed within {SIGNING_TIMEOUT:?}; approve it")]
    Timeout(String),
}

/// Requests a client certificate of the user `system:node:NAME`. `client` must be permitted to create `CertificateSigningRequests`.
// upstream: pkg/kubelet/certificate/bootstrap/bootstrap.go requestNodeCertificate
pub async fn request_client_certificate(
    client: &Client,
    node: &str,
) -> Result<IssuedCertificate, SigningError> {
    let key = KeyPair::generate()?;
    let subject = Subject::new(&["system:nodes"], &format!("system:node:{node}"));
    let request = new_request(&subject, &[], &key)?;
    let usages = ["digital signature", "client auth"];
    let certificate = request_certificate(client, CLIENT_SIGNER, &usages, &request).await?;
    Ok(IssuedCertificate {
        certificate,
        key: key.to_pem(),
    })
}

/// Creates a `CertificateSigningRequest` and waits for its certificate.
// upstream: staging/src/k8s.io/client-go/util/certificate/csr/csr.go RequestCertificate
pub(crate) async fn request_certificate(
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
    let created = requests.create(&PostParams::default(), &request).await?;
    let name = created.metadata.name.ok_or(SigningError::Unnamed)?;
    let signed = timeout(SIGNING_TIMEOUT, wait_for_certificate(&requests, &name)).await;
    signed.map_err(|_| SigningError::Timeout(name))?
}

/// Polls a `CertificateSigningRequest` until it is signed, denied or failed.
// upstream: staging/src/k8s.io/client-go/util/certificate/csr/csr.go WaitForCertificate
async fn wait_for_certificate(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
) -> Result<String, SigningError> {
    let (mut interval, longest_interval) = POLL_INTERVALS;
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
        sleep(interval).await;
        interval = (2 * interval).min(longest_interval);
    }
}
