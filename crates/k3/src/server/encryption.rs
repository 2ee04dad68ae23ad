//! The store of a server, with encryption at rest.

use std::{path::PathBuf, sync::Arc};

use k3_apiserver::Server;
use k3_encryption::{EncryptedStore, EncryptionConfiguration, Reloader, Transformers};
use k3_storage::Store;
use serde_json::{Value, json};

/// Where a server shows which keys its stored objects are encrypted with.
pub(crate) const STATUS_PATH: &str = "/debug/encryption";

/// What is encrypted, and how.
pub(crate) struct EncryptionSettings {
    /// What the file says.
    pub(crate) configuration: EncryptionConfiguration,
    /// The file.
    pub(crate) file: PathBuf,
    /// Whether the file is read again when it changes.
    pub(crate) is_reloaded: bool,
}

/// The store of a server.
pub(super) struct ServerStore {
    /// What the server reads and writes.
    pub(super) store: Arc<dyn Store>,
    /// What is below the encryption.
    pub(super) raw: Arc<dyn Store>,
    encrypted: Option<Arc<EncryptedStore>>,
    /// Ends with this.
    reloader: Option<Reloader>,
}

// --- ServerStore ---

impl ServerStore {
    /// Puts encryption over a store, if there is any.
    pub(super) async fn new(store: Arc<dyn Store>, settings: Option<EncryptionSettings>) -> Self {
        let Some(settings) = settings else {
            return Self {
                raw: Arc::clone(&store),
                store,
                encrypted: None,
                reloader: None,
            };
        };
        let transformers = Transformers::new(&settings.configuration).await;
        tracing::info!(file = %settings.file.display(), "encrypting stored objects");
        let reloader = settings
            .is_reloaded
            .then(|| Reloader::start(settings.file, Arc::clone(&transformers)));
        let encrypted = EncryptedStore::new(Arc::clone(&store), transformers);
        Self {
            raw: store,
            store: Arc::<EncryptedStore>::clone(&encrypted),
            encrypted: Some(encrypted),
            reloader,
        }
    }

    /// Has a server show which keys are in use, and gives what reads the configuration again.
    pub(super) fn publish(self, server: &Server) -> Option<Reloader> {
        let encrypted = self.encrypted;
        server.add_async_document(STATUS_PATH, move || {
            let encrypted = encrypted.clone();
            Box::pin(async move { status(encrypted.as_deref()).await })
        });
        self.reloader
    }
}

async fn status(encrypted: Option<&EncryptedStore>) -> Value {
    let Some(encrypted) = encrypted else {
        return json!({"enabled": false, "resources": []});
    };
    match encrypted.status().await {
        Ok(status) => {
            let resources: Vec<_> = status
                .resources
                .iter()
                .map(|resource| {
                    json!({
                        "group": resource.group,
                        "resource": resource.resource,
                        "current": resource.current,
                        "counts": resource.counts,
                        "stale": resource.stale,
                    })
                })
                .collect();
            json!({"enabled": true, "resources": resources})
        }
        Err(error) => json!({"enabled": true, "error": error.to_string(), "resources": []}),
    }
}
