//! Accounts do not go on naming secrets with tokens that are gone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Delta,
};
use serde_json::{Value, json};

use super::secret::{ACCOUNT, Secret};
use crate::{
    resource::SERVICE_ACCOUNTS,
    writer::{ApiWriter, ObjectRef, has_status_code},
};

/// The secrets that were deleted, by the account that they were for. Other secrets that an account names are its own matter,
/// whether they are there or not.
#[derive(Clone, Default)]
pub(super) struct Gone {
    names: Arc<Mutex<HashMap<Key, BTreeSet<String>>>>,
}

/// Takes them out of their accounts.
pub(super) struct Forgetter {
    pub(super) writer: ApiWriter,
    pub(super) gone: Gone,
}

// --- Gone ---

impl Gone {
    /// The account that has to forget a secret after a change.
    pub(super) fn note(&self, delta: &Delta<Secret>) -> Vec<Key> {
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
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Forgetter ---

impl Reconciler for Forgetter {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let names = self.gone.take(&request.key);
        if names.is_empty() {
            return Ok(Outcome::Done);
        }
        match self.forget(&request.key, &names).await {
            Err(error) if has_status_code(&error, 404) => Ok(Outcome::Done),
            Err(error) => {
                self.gone.add(&request.key, names);
                Err(error.into())
            }
            Ok(()) => Ok(Outcome::Done),
        }
    }
}

impl Forgetter {
    async fn forget(&self, key: &Key, names: &BTreeSet<String>) -> kube::Result<()> {
        let object_ref = ObjectRef::new(&SERVICE_ACCOUNTS, key.namespace(), key.name());
        let account: Value = self.writer.get(object_ref).await?;
        let named = account["secrets"].as_array().into_iter().flatten();
        let is_kept = |named: &&Value| !named["name"].as_str().is_some_and(|name| names.contains(name));
        let (before, kept) = (named.clone().count(), named.filter(is_kept).collect::<Vec<_>>());
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
