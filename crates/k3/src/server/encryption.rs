//! The store of a server, with encryption at rest.

use std::{path::PathBuf, sync::Arc};

use k3_apiserver::Server;
use k3_encryption::{EncryptedStore, EncryptionConfiguration, Reloader, Transformers};
use k3_storage::Store;
use serde_json::{Value, json};

/// Path that reports which keys stored objects are encrypted with.
pub(crate) const STATUS_PATH: &str = "/debug/encryption";

/// Encryption at rest: the parsed configuration and its file.
pub(crate) struct EncryptionSettings {
    pub(crate) configuration: EncryptionConfiguration,
    pub(crate) file: PathBuf,
    /// Whether the file is read again when it changes.
    pub(crate) is_reloaded: bool,
}

/// The store of a server.
pub(super) struct ServerStore {
    pub(super) store: Arc<dyn Store>,
    /// The store below the encryption layer.
    pub(super) raw: Arc<dyn Store>,
    encrypted: Option<Arc<EncryptedStore>>,
    reloader: Option<Reloader>,
}

// --- ServerStore ---

impl ServerStore {
    /// Wraps a store in encryption if it is configured.
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

    /// Publishes the encryption status on the server, and returns the configuration reloader.
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
