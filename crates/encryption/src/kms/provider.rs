//! The current DEK of a plugin, when it is replaced, and DEKs of the past.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{task::JoinHandle, time::Instant};

use super::{
    client::{CallError, KmsClient},
    dek::Dek,
    object::{DekSource, EncryptedObject, HKDF_SEED, ObjectError, validate_key_id},
};
use crate::{
    config::KmsConfiguration,
    provider::{Decrypted, EncryptError, random},
};

const PREFIX: &str = "k8s:enc:kms:v2:";
/// Interval of status requests to a healthy plugin.
const HEALTHY_INTERVAL: Duration = Duration::from_mins(1);
/// How often one that is not.
const UNHEALTHY_INTERVAL: Duration = Duration::from_secs(10);
/// For how long values are encrypted with the current DEK without a good status.
const DEK_LIFETIME: Duration = Duration::from_mins(3);
/// How many DEKs of the past are remembered.
const MAX_DEKS: usize = 1000;

/// Why a plugin cannot be used for new values.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("got unexpected healthz status: {0}")]
    Unhealthy(String),
    #[error("expected KMSv2 API version v2, got {0}")]
    UnknownVersion(String),
    #[error(transparent)]
    InvalidAnswer(#[from] ObjectError),
    #[error(transparent)]
    NewDek(#[from] EncryptError),
    #[error("the plugin encrypts with another key than its status names")]
    OtherKey,
    #[error("it has no key")]
    NoKey,
}

/// What the last status request found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PluginHealth {
    Healthy,
    Unhealthy,
}

/// A plugin, and the keys that it has encrypted.
pub(crate) struct KmsProvider {
    name: String,
    prefix: Vec<u8>,
    socket: PathBuf,
    client: KmsClient,
    current: RwLock<Option<CurrentDek>>,
    /// Decrypted DEKs by their encrypted form.
    known: Mutex<HashMap<DekSource, Arc<Dek>>>,
    /// Ends with this.
    probe: Mutex<Option<JoinHandle<()>>>,
}

/// What values are encrypted with.
#[derive(Clone)]
struct CurrentDek {
    dek: Arc<Dek>,
    source: Arc<DekSource>,
    expires: Instant,
}

// --- KmsProvider ---

impl KmsProvider {
    /// Starts periodic status requests. An unavailable plugin is not an error, because it may become available later.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go primeAndProbeKMSv2
    pub(crate) async fn start(configuration: &KmsConfiguration) -> Arc<Self> {
        let provider = Arc::new(Self {
            name: configuration.name.clone(),
            prefix: format!("{PREFIX}{}:", configuration.name).into_bytes(),
            socket: configuration.socket.clone(),
            client: KmsClient::new(&configuration.socket, configuration.timeout),
            current: RwLock::new(None),
            known: Mutex::default(),
            probe: Mutex::new(None),
        });
        let health = provider.probe_and_log().await;
        let weak = Arc::downgrade(&provider);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let probe = tokio::spawn(probe_periodically(weak, health));
        *provider.probe.lock() = Some(probe);
        provider
    }

    async fn probe_and_log(&self) -> PluginHealth {
        match self.probe_once().await {
            Ok(()) => PluginHealth::Healthy,
            Err(error) => {
                tracing::error!(
                    provider = %self.name,
                    socket = %self.socket.display(),
                    %error,
                    "the KMS plugin is not healthy"
                );
                PluginHealth::Unhealthy
            }
        }
    }

    /// Requests the status, and creates a new DEK if the key ID of the plugin has changed.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go rotateDEKOnKeyIDChange
    async fn probe_once(&self) -> Result<(), ProbeError> {
        let expires = Instant::now() + DEK_LIFETIME;
        let status = self.client.status().await?;
        if status.healthz != "ok" {
            return Err(ProbeError::Unhealthy(status.healthz));
        }
        if !["v2", "v2beta1"].contains(&status.version.as_str()) {
            return Err(ProbeError::UnknownVersion(status.version));
        }
        validate_key_id(&status.key_id)?;
        if let Some(current) = &mut *self.current.write()
            && current.source.key_id == status.key_id
        {
            current.expires = expires;
            return Ok(());
        }
        let (dek, seed) = Dek::generate()?;
        let encrypted = self.client.encrypt(new_uid()?, &seed).await?;
        if encrypted.key_id != status.key_id {
            return Err(ProbeError::OtherKey);
        }
        let source = Arc::new(DekSource {
            key_id: encrypted.key_id,
            encrypted: encrypted.ciphertext,
            annotations: encrypted.annotations,
            source_type: HKDF_SEED,
        });
        source.validate()?;
        let dek = Arc::new(dek);
        self.remember((*source).clone(), Arc::clone(&dek));
        tracing::info!(provider = %self.name, "using a new data encryption key of the KMS plugin");
        *self.current.write() = Some(CurrentDek { dek, source, expires });
        Ok(())
    }

    fn current(&self) -> Option<CurrentDek> {
        let current = self.current.read();
        current.clone()
    }

    fn remember(&self, source: DekSource, dek: Arc<Dek>) {
        let mut known = self.known.lock();
        if known.len() >= MAX_DEKS {
            known.clear();
        }
        known.insert(source, dek);
    }

    fn known(&self, source: &DekSource) -> Option<Arc<Dek>> {
        let known = self.known.lock();
        known.get(source).cloned()
    }

    fn unusable(&self, why: &ProbeError) -> EncryptError {
        let socket = self.socket.display();
        EncryptError::Kms(format!(
            "the KMS plugin {} ({socket}) cannot be used: {why}",
            self.name
        ))
    }

    pub(crate) async fn encrypt(&self, value: &[u8], path: &str) -> Result<Vec<u8>, EncryptError> {
        let is_usable = |current: &CurrentDek| Instant::now() < current.expires;
        let mut current = self.current().filter(is_usable);
        if current.is_none() {
            self.probe_once().await.map_err(|why| self.unusable(&why))?;
            current = self.current().filter(is_usable);
        }
        let current = current.ok_or_else(|| self.unusable(&ProbeError::NoKey))?;
        let data = current.dek.encrypt(value, path.as_bytes())?;
        Ok([&self.prefix[..], &current.source.wrap(data)].concat())
    }

    pub(crate) async fn decrypt(&self, stored: &[u8], path: &str) -> Decrypted {
        let Some(rest) = stored.strip_prefix(&self.prefix[..]) else {
            return Decrypted::Foreign;
        };
        let failed = |why: String| Decrypted::Failed(format!("provider kms, plugin {}: {why}", self.name));
        let object = match EncryptedObject::read(rest) {
            Ok(object) => object,
            Err(error) => return failed(error.to_string()),
        };
        let source = object.source();
        let dek = match self.known(&source) {
            Some(dek) => dek,
            None => match self.decrypt_dek(&source).await {
                Ok(dek) => dek,
                Err(CallError::Refused(why)) => return failed(format!("failed to decrypt DEK: {why}")),
                Err(CallError::Unavailable(why)) => {
                    let socket = self.socket.display();
                    return Decrypted::Unavailable(format!(
                        "the KMS plugin {} ({socket}) does not answer: {why}",
                        self.name
                    ));
                }
            },
        };
        match dek.decrypt(&object.encrypted_data, path.as_bytes()) {
            Ok(value) => Decrypted::Value {
                value,
                is_stale: self.is_stale(&source),
            },
            Err(error) => failed(error.to_string()),
        }
    }

    async fn decrypt_dek(&self, source: &DekSource) -> Result<Arc<Dek>, CallError> {
        let uid = new_uid().map_err(|error| CallError::Refused(error.to_string()))?;
        let plaintext = self.client.decrypt(uid, source).await?;
        let dek = if source.source_type == HKDF_SEED {
            Dek::from_seed(plaintext)
        } else {
            Dek::from_key(&plaintext)
        };
        let dek = dek
            .ok_or_else(|| CallError::Refused("the plugin returned a key of the wrong length".to_owned()))?;
        let dek = Arc::new(dek);
        self.remember(source.clone(), Arc::clone(&dek));
        Ok(dek)
    }

    /// Whether a value with this DEK would be encrypted with another key today.
    fn is_stale(&self, source: &DekSource) -> bool {
        self.current().is_some_and(|current| {
            source.key_id != current.source.key_id || source.source_type != current.source.source_type
        })
    }

    /// Whether a stored value of this provider would be encrypted with another key today; `None` for one of others.
    pub(crate) fn is_stored_stale(&self, stored: &[u8]) -> Option<bool> {
        let rest = stored.strip_prefix(&self.prefix[..])?;
        Some(EncryptedObject::read(rest).map_or(true, |object| self.is_stale(&object.source())))
    }

    pub(crate) fn label(&self) -> String {
        format!("kms:{}", self.name)
    }
}

impl Drop for KmsProvider {
    fn drop(&mut self) {
        let mut probe = self.probe.lock();
        if let Some(probe) = probe.take() {
            probe.abort();
        }
    }
}

async fn probe_periodically(provider: Weak<KmsProvider>, mut health: PluginHealth) {
    loop {
        let pause = match health {
            PluginHealth::Healthy => HEALTHY_INTERVAL,
            PluginHealth::Unhealthy => UNHEALTHY_INTERVAL,
        };
        tokio::time::sleep(pause).await;
        let Some(provider) = provider.upgrade() else {
            return;
        };
        health = provider.probe_and_log().await;
    }
}

/// A name for a call, for the plugin's log.
fn new_uid() -> Result<String, EncryptError> {
    use std::fmt::Write;

    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
