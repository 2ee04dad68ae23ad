//! Asks for certificates, keeps them, and has them used.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k3_pki::{Certificate, KeyPair};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kubecontroller::{Clock, manager::Stop};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::sleep};

use super::{
    pair::{Names, PairError, Resolver, certified},
    request::{Held, is_good},
};
use crate::{
    agent::{Config, node::addresses},
    signing::{self, SigningError},
};

/// How often it is looked whether the certificate is still good.
const PERIOD: Duration = Duration::from_mins(1);
const SIGNER: &str = "kubernetes.io/kubelet-serving";
const USAGES: [&str; 2] = ["digital signature", "server auth"];
const FILE: &str = "serving.json";

/// What a keeper needs.
pub(in crate::agent) struct Parts {
    pub(in crate::agent) config: Arc<Config>,
    pub(in crate::agent) client: Client,
    pub(in crate::agent) clock: Clock,
    /// The uid of the Node: before that there is none whose addresses the certificate could name.
    pub(in crate::agent) registered: watch::Receiver<Option<String>>,
}

/// Keeps the certificate that the node's own API is served with.
pub(in crate::agent) struct CertificateKeeper {
    parts: Parts,
    resolver: Resolver,
    held: Option<Held>,
    folder: PathBuf,
    random: u8,
}

/// What is kept in the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The authorities of the cluster when it was signed: those of another time may not vouch for it.
    #[serde(default)]
    authority: String,
    names: Vec<String>,
    from: Timestamp,
    to: Timestamp,
    certificate: String,
    key: String,
}

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Pair(#[from] PairError),
    #[error(transparent)]
    Signing(#[from] SigningError),
    #[error("the certificate says not when it ends")]
    Endless,
    #[error("cannot keep it in {0}: {1}")]
    File(PathBuf, io::Error),
}

impl CertificateKeeper {
    /// With the certificate that was kept, or one that we sign ourselves.
    pub(in crate::agent) fn new(parts: Parts) -> Result<Self, PairError> {
        let names = names(&parts.config);
        let folder = parts.config.data_dir.join("pki");
        let mut random = [0; 16];
        // Whatever it is, it only spreads renewals, and numbers what nobody verifies.
        let _ = SystemRandom::new().fill(&mut random);
        let stored = read(&folder.join(FILE), &parts.config);
        let (pair, held) = match stored {
            Some((pair, held)) => (pair, held),
            None => (names.self_signed(random)?, None),
        };
        let held = held.filter(|held| held.to > parts.clock.now());
        Ok(CertificateKeeper {
            resolver: Resolver::new(pair),
            parts,
            held,
            folder,
            random: random[0],
        })
    }

    /// Gives the certificate of the moment.
    pub(in crate::agent) fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        stop.unless_stopped(self.keep()).await;
    }

    async fn keep(&mut self) {
        let mut wait = Duration::from_secs(1);
        loop {
            if self.parts.registered.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let names = names(&self.parts.config);
            let now = self.parts.clock.now();
            let is_good = self
                .held
                .as_ref()
                .is_some_and(|held| is_good(held, &names, now, self.random));
            if is_good {
                sleep(PERIOD).await;
                continue;
            }
            match self.renew(&names).await {
                Ok(()) => {
                    wait = Duration::from_secs(1);
                    tracing::info!(names = ?names.names, "the node's API has a new certificate");
                }
                Err(error) => {
                    tracing::warn!(%error, "the node's API has no new certificate yet");
                    sleep(wait).await;
                    wait = (wait * 2).min(PERIOD);
                }
            }
        }
    }

    async fn renew(&mut self, names: &Names) -> Result<(), KeepError> {
        let key = KeyPair::generate().map_err(PairError::from)?;
        let request = names.request(&key)?;
        let certificate = signing::signed(&self.parts.client, SIGNER, &USAGES, &request).await?;
        let key = key.to_pem();
        let pair = certified(certificate.as_bytes(), key.as_bytes())?;
        let (from, to) = validity(&certificate, self.parts.clock.now()).ok_or(KeepError::Endless)?;
        let stored = Stored {
            authority: self.parts.config.authority.clone(),
            names: names.names.clone(),
            from,
            to,
            certificate,
            key,
        };
        write(&self.folder, &stored).map_err(|error| KeepError::File(self.folder.clone(), error))?;
        self.held = Some(Held {
            names: names.clone(),
            from,
            to,
        });
        self.resolver.set(pair);
        Ok(())
    }
}

/// What the certificate is to name: the node, and its addresses.
fn names(config: &Config) -> Names {
    let addresses = addresses(config).into_iter().map(|address| address.to_string());
    Names {
        node: config.node_name.clone(),
        names: [config.node_name.clone()].into_iter().chain(addresses).collect(),
    }
}

/// From now until the certificate ends: what it says of its beginning is before now, for clocks that are behind.
fn validity(certificate: &str, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let end = Certificate::from_pem(certificate.as_bytes()).ok()?.not_after;
    Some((now, Timestamp::from_second(end).ok()?))
}

/// What is kept, and what is known of it; nothing is known of what the authorities of the moment may not have signed.
fn read(path: &Path, config: &Config) -> Option<(rustls::sign::CertifiedKey, Option<Held>)> {
    let file = std::fs::File::open(path).ok()?;
    k3_files::protect_file(path, &file).ok()?;
    let stored: Stored = serde_json::from_reader(io::BufReader::new(file)).ok()?;
    let pair = certified(stored.certificate.as_bytes(), stored.key.as_bytes()).ok()?;
    let names = Names {
        node: config.node_name.clone(),
        names: stored.names,
    };
    let from = stored.from;
    let to = stored.to;
    let is_same = stored.authority == config.authority;
    Some((pair, is_same.then_some(Held { names, from, to })))
}

/// Writes the file whole or not at all, for its owner only.
fn write(folder: &Path, stored: &Stored) -> io::Result<()> {
    use std::{fs::OpenOptions, io::Write};

    k3_files::create_directory(folder)?;
    let temporary = folder.join(format!("{FILE}.new"));
    // One that a crash left behind may be readable by others.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = k3_files::open(&temporary, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(&serde_json::to_vec(stored)?)?;
    file.sync_all()?;
    std::fs::rename(temporary, folder.join(FILE))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use k3_pki::{AlternativeName, Authority, CertificateRequest, Subject, Template};
    use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
    use kubecontroller::testing::{FakeApi, eventually};

    use super::*;

    fn keeper(api: &FakeApi, folder: &Path) -> CertificateKeeper {
        keeper_of("authority", api, folder)
    }

    fn keeper_of(authority: &str, api: &FakeApi, folder: &Path) -> CertificateKeeper {
        let mut config = Config::new("n", folder);
        authority.clone_into(&mut config.authority);
        config.addresses = vec![[10, 0, 0, 1].into()];
        let (_, registered) = watch::channel(Some("u".to_owned()));
        let config = Arc::new(config);
        let client = api.client();
        let clock = Clock::system();
        CertificateKeeper::new(Parts {
            config,
            client,
            clock,
            registered,
        })
        .unwrap()
    }

    /// Signs whatever is asked for.
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
    async fn a_certificate_is_asked_for_kept_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let api = FakeApi::new();
        let keeper = keeper(&api, folder.path());
        let resolver = keeper.resolver();
        let own = resolver.current();
        let stop = Stop::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(keeper.run(stop.clone()));
        eventually(async || !api.list::<CertificateSigningRequest>().is_empty()).await;
        let request = &api.list::<CertificateSigningRequest>()[0].spec;
        assert_eq!(request.signer_name, "kubernetes.io/kubelet-serving");
        let asked = CertificateRequest::from_pem(&request.request.0).unwrap();
        assert_eq!(asked.identity().common_name, "system:node:n");
        assert_eq!(asked.identity().organizations, ["system:nodes"]);
        assert_eq!(asked.names(), ["n", "10.0.0.1"].map(AlternativeName::from_host));
        sign(&api);
        let signed = eventually(async || Some(resolver.current()).filter(|now| now.cert != own.cert)).await;
        stop.stop(Duration::ZERO);
        tasks.join_next().await;
        let file = folder.path().join("pki").join(FILE);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = super::tests::keeper(&api, folder.path());
        assert_eq!(again.resolver().current().cert, signed.cert);
        assert!(again.held.is_some());
        // Of other authorities it is served until there is a new one, which is asked for.
        let other = keeper_of("other", &api, folder.path());
        assert_eq!(other.resolver().current().cert, signed.cert);
        assert!(other.held.is_none());
    }
}
