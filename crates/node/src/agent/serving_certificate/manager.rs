//! Requests, stores and rotates the serving certificate.
// upstream: pkg/kubelet/certificate/kubelet.go NewKubeletServerCertificateManager
// upstream: staging/src/k8s.io/client-go/util/certificate/certificate_manager.go manager

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use k3_pki::{Certificate, KeyPair};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kubecontroller::{Backoff, Clock, manager::Stop};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::{sync::watch, time::sleep};

use super::{
    key_pair::{CertificateNames, KeyPairError, ServingCertResolver, certified_key},
    rotation::{CertificateValidity, is_current},
    stored_certificate::{StoredCertificate, read_stored, write_stored},
};
use crate::{
    agent::{AgentConfig, node::node_addresses},
    blocking::run_blocking,
    signing::{self, SigningError},
};

/// Period of checking whether the certificate must be rotated.
const CHECK_PERIOD: Duration = Duration::from_mins(1);
const ROTATION_BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(1), CHECK_PERIOD);
const SIGNER: &str = "kubernetes.io/kubelet-serving";
const USAGES: [&str; 2] = ["digital signature", "server auth"];

/// Dependencies of [`ServingCertificateManager`].
pub(in crate::agent) struct ServingCertificateDependencies {
    pub(in crate::agent) config: Arc<AgentConfig>,
    pub(in crate::agent) client: Client,
    pub(in crate::agent) clock: Clock,
    /// UID of the Node. Approvers compare the names of a request with the addresses of the Node, so the Node must be registered first.
    pub(in crate::agent) registered: watch::Receiver<Option<String>>,
}

/// Requests, stores and rotates the serving certificate of the kubelet API.
pub(in crate::agent) struct ServingCertificateManager {
    deps: ServingCertificateDependencies,
    resolver: ServingCertResolver,
    validity: Option<CertificateValidity>,
    directory: PathBuf,
    /// Random jitter of the rotation deadline.
    jitter: u8,
}

/// A rotation failed.
#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error(transparent)]
    Pair(#[from] KeyPairError),
    #[error(transparent)]
    Signing(#[from] SigningError),
    #[error("the signed certificate has no valid expiry time")]
    InvalidExpiry,
    #[error("failed to write the certificate to {0}: {1}")]
    Store(PathBuf, io::Error),
}

impl ServingCertificateManager {
    /// Starts with the stored certificate, or with a self-signed one. Blocks on file I/O.
    pub(in crate::agent) fn new(deps: ServingCertificateDependencies) -> Result<Self, KeyPairError> {
        let names = names(&deps.config);
        let directory = deps.config.data_dir.join("pki");
        let mut random = [0; 16];
        // Failure is harmless: the bytes only spread rotations, and are the serial number of a self-signed certificate.
        let _ = SystemRandom::new().fill(&mut random);
        let stored = read_stored(&directory, &deps.config);
        let (pair, validity) = match stored {
            Some((pair, validity)) => (pair, validity),
            None => (names.self_signed(random)?, None),
        };
        let validity = validity.filter(|validity| validity.to > deps.clock.now());
        Ok(ServingCertificateManager {
            resolver: ServingCertResolver::new(pair),
            deps,
            validity,
            directory,
            jitter: random[0],
        })
    }

    /// Resolves to the current certificate.
    pub(in crate::agent) fn resolver(&self) -> ServingCertResolver {
        self.resolver.clone()
    }

    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        stop.unless_stopped(self.rotate_periodically()).await;
    }

    async fn rotate_periodically(&mut self) {
        let mut delays = ROTATION_BACKOFF.delays();
        loop {
            if self.deps.registered.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let config = Arc::clone(&self.deps.config);
            let names = run_blocking(move || names(&config)).await;
            let now = self.deps.clock.now();
            let is_current = self
                .validity
                .as_ref()
                .is_some_and(|validity| is_current(validity, &names, now, self.jitter));
            if is_current {
                sleep(CHECK_PERIOD).await;
                continue;
            }
            match self.rotate(&names).await {
                Ok(()) => {
                    delays.reset();
                    tracing::info!(names = ?names.names, "rotated serving certificate");
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to rotate serving certificate; retrying");
                    sleep(delays.next_delay()).await;
                }
            }
        }
    }

    // upstream: staging/src/k8s.io/client-go/util/certificate/certificate_manager.go rotateCerts
    async fn rotate(&mut self, names: &CertificateNames) -> Result<(), RotationError> {
        let key = KeyPair::generate().map_err(KeyPairError::from)?;
        let request = names.request(&key)?;
        let certificate = signing::request_certificate(&self.deps.client, SIGNER, &USAGES, &request).await?;
        let key = key.to_pem();
        let pair = certified_key(certificate.as_bytes(), key.as_bytes())?;
        let (from, to) = validity(&certificate, self.deps.clock.now()).ok_or(RotationError::InvalidExpiry)?;
        let stored = StoredCertificate {
            authority: self.deps.config.authority.clone(),
            names: names.names.clone(),
            from,
            to,
            certificate,
            key,
        };
        let directory = self.directory.clone();
        run_blocking(move || write_stored(&directory, &stored))
            .await
            .map_err(|error| RotationError::Store(self.directory.clone(), error))?;
        self.validity = Some(CertificateValidity {
            names: names.clone(),
            from,
            to,
        });
        self.resolver.set(pair);
        Ok(())
    }
}

/// Subject alternative names of the certificate: name and addresses of the node.
// upstream: pkg/kubelet/certificate/kubelet.go newGetTemplateFn
fn names(config: &AgentConfig) -> CertificateNames {
    let addresses = node_addresses(config)
        .into_iter()
        .map(|address| address.to_string());
    CertificateNames {
        node: config.node_name.clone(),
        names: [config.node_name.clone()].into_iter().chain(addresses).collect(),
    }
}

/// From now until the certificate expires. Its `notBefore` is not used: signers backdate it for clocks that are behind.
fn validity(certificate: &str, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let not_after = Certificate::from_pem(certificate.as_bytes()).ok()?.not_after;
    Some((now, Timestamp::from_second(not_after).ok()?))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, path::Path};

    use k3_pki::{AlternativeName, Authority, CertificateRequest, Subject, Template};
    use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
    use kubecontroller::testing::{FakeApi, eventually};

    use super::*;

    fn manager(api: &FakeApi, directory: &Path) -> ServingCertificateManager {
        manager_with_authority("authority", api, directory)
    }

    fn manager_with_authority(authority: &str, api: &FakeApi, directory: &Path) -> ServingCertificateManager {
        let mut config = AgentConfig::new("n", directory);
        authority.clone_into(&mut config.authority);
        config.addresses = vec![[10, 0, 0, 1].into()];
        let (_, registered) = watch::channel(Some("u".to_owned()));
        let config = Arc::new(config);
        let client = api.client();
        let clock = Clock::system();
        ServingCertificateManager::new(ServingCertificateDependencies {
            config,
            client,
            clock,
            registered,
        })
        .unwrap()
    }

    /// Signs the newest request.
    fn sign(api: &FakeApi) {
        let request = api.list::<CertificateSigningRequest>().pop().unwrap();
        let name = request.metadata.name.unwrap();
        let request = CertificateRequest::from_pem(&request.spec.request.0).unwrap();
        let template = |subject, usages| Template {
            subject,
            names: request.names(),
            usages,
            not_before: 1_767_225_600,
            not_after: 4_922_899_200,
            serial: [1; 16],
        };
        let subject = Subject::new(&[], "authority");
        let key = KeyPair::generate().unwrap();
        let authority = Authority::self_signed(key, &template(&subject, &["cert sign"])).unwrap();
        let template = template(request.subject(), &["server auth"]);
        let certificate = authority.issue(&template, request.public_key()).unwrap();
        api.edit::<CertificateSigningRequest>("", &name, |request| {
            request.status.get_or_insert_default().certificate = Some(ByteString(certificate.into_bytes()));
        });
    }

    #[tokio::test]
    async fn requests_stores_and_reloads_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let api = FakeApi::new();
        let manager = manager(&api, directory.path());
        let resolver = manager.resolver();
        let self_signed = resolver.current();
        let stop = Stop::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(manager.run(stop.clone()));
        eventually(async || !api.list::<CertificateSigningRequest>().is_empty()).await;
        let request = &api.list::<CertificateSigningRequest>()[0].spec;
        assert_eq!(request.signer_name, "kubernetes.io/kubelet-serving");
        let parsed = CertificateRequest::from_pem(&request.request.0).unwrap();
        assert_eq!(parsed.identity().common_name, "system:node:n");
        assert_eq!(parsed.identity().organizations, ["system:nodes"]);
        assert_eq!(parsed.names(), ["n", "10.0.0.1"].map(AlternativeName::from_host));
        sign(&api);
        let signed =
            eventually(async || Some(resolver.current()).filter(|now| now.cert != self_signed.cert)).await;
        stop.stop(Duration::ZERO);
        tasks.join_next().await;
        let file = directory.path().join("pki/serving.json");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let reloaded = super::tests::manager(&api, directory.path());
        assert_eq!(reloaded.resolver().current().cert, signed.cert);
        assert!(reloaded.validity.is_some());
        // After a change of CA the old certificate is served until a new one is signed.
        let other = manager_with_authority("other", &api, directory.path());
        assert_eq!(other.resolver().current().cert, signed.cert);
        assert!(other.validity.is_none());
    }
}
