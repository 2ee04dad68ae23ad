//! Removes references to deleted token Secrets from ServiceAccounts.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Delta,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::secret::{ACCOUNT, TokenSecret};
use crate::{resource::SERVICE_ACCOUNTS, update::UpdateWithPatch};

/// Deleted Secrets by ServiceAccount. Other entries in `secrets` of a ServiceAccount are not touched, whether they exist or
/// not.
#[derive(Clone, Default)]
pub(super) struct DeletedSecrets {
    names: Arc<Mutex<HashMap<Key, BTreeSet<String>>>>,
}

pub(super) struct SecretReferenceRemover {
    pub(super) writer: ApiWriter,
    pub(super) deleted_secrets: DeletedSecrets,
}

// --- DeletedSecrets ---

impl DeletedSecrets {
    /// The ServiceAccount to update after a Secret event.
    pub(super) fn record_deletion(&self, delta: &Delta<TokenSecret>) -> Vec<Key> {
        let meta = &delta.object().metadata;
        let account = meta.annotation(ACCOUNT).filter(|_| delta.new().is_none());
        let Some(account) = account.filter(|account| !account.is_empty()) else {
            return Vec::new();
        };
        let key = Key::new(&meta.namespace, account);
        self.add(&key, [meta.name.to_string()]);
        vec![key]
    }

    fn add(&self, key: &Key, names: impl IntoIterator<Item = String>) {
        self.names().entry(key.clone()).or_default().extend(names);
    }

    fn take(&self, key: &Key) -> BTreeSet<String> {
        self.names().remove(key).unwrap_or_default()
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<String>>> {
        self.names.lock()
    }
}

// --- SecretReferenceRemover ---

impl Reconciler for SecretReferenceRemover {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let names = self.deleted_secrets.take(&request.key);
        if names.is_empty() {
            return Ok(Outcome::Done);
        }
        match self.remove_references(&request.key, &names).await {
            Err(error) if has_status_code(&error, 404) => Ok(Outcome::Done),
            Err(error) => {
                self.deleted_secrets.add(&request.key, names);
                Err(error.into())
            }
            Ok(()) => Ok(Outcome::Done),
        }
    }
}

impl SecretReferenceRemover {
    // upstream: pkg/controller/serviceaccount/tokens_controller.go removeSecretReference
    async fn remove_references(&self, key: &Key, names: &BTreeSet<String>) -> kube::Result<()> {
        let object_ref = ObjectRef::new(&SERVICE_ACCOUNTS, key.namespace(), key.name());
        let account: Value = self.writer.get(object_ref).await?;
        let named = account["secrets"].as_array().into_iter().flatten();
        let is_kept = |named: &&Value| !named["name"].as_str().is_some_and(|name| names.contains(name));
        let before = named.clone().count();
        let kept = named.filter(is_kept).collect::<Vec<_>>();
        if kept.len() == before {
            return Ok(());
        }
        let version = &account["metadata"]["resourceVersion"];
        let patch =
            json!({"metadata": {"resourceVersion": version}, "secrets": crate::patch_values::list(&kept)});
        self.writer.update_with_merge::<Value>(object_ref, &patch).await?;
        Ok(())
    }
}
