//! The service account tokens controller: fills service account token Secrets, and deletes them with their ServiceAccount.
//!
//! It uses the controller manager's own identity, as upstream does: no service account may write all Secrets.

mod references;
mod secret;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::{Delta, InformerScope},
    store::Store,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use self::{
    references::{DeletedSecrets, SecretReferenceRemover},
    secret::{ACCOUNT, ACCOUNT_UID, KIND, MissingTokenData, TokenSecret},
};

use crate::{
    context::{ClusterConfig, ControllerContext, Task, TokenSigner},
    objects::Projection,
    resource::{SECRETS, SERVICE_ACCOUNTS},
    writer::{ApiWriter, ObjectRef, delete_options_for_uid, has_status_code},
};

type ServiceAccount = Projection<IgnoredAny>;

// upstream: pkg/controller/serviceaccount/tokens_controller.go TokensController, syncSecret
struct TokensController {
    writer: ApiWriter,
    signer: TokenSigner,
    cluster: Arc<ClusterConfig>,
    secrets: Store<TokenSecret>,
    accounts: Store<ServiceAccount>,
}

/// No controller without a token signing key.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    match &context.cluster.tokens {
        Some(signer) => make_with(context, signer.clone()),
        None => Vec::new(),
    }
}

fn make_with(context: &ControllerContext, signer: TokenSigner) -> Vec<Task> {
    let scope = InformerScope::default().fields(format!("type={KIND}"));
    let secrets = context
        .informers
        .projected::<TokenSecret>(&SECRETS.api_resource(), scope);
    let accounts = context.informer::<ServiceAccount>(&SERVICE_ACCOUNTS);
    let by_account = secrets.store().index(|secret| {
        let meta = &secret.metadata;
        let account = meta.annotation(ACCOUNT);
        let account = account.map(|account| Key::new(&meta.namespace, account));
        account.map(|key| key.as_str().to_owned()).into_iter().collect()
    });
    let reconciler = TokensController {
        writer: ApiWriter::new(context.informers.client().clone()),
        signer,
        cluster: context.cluster.clone(),
        secrets: secrets.store().clone(),
        accounts: accounts.store().clone(),
    };
    // A new ServiceAccount may replace one of the same name: tokens of the old one are deleted.
    let is_added_or_removed = |delta: &Delta<ServiceAccount>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.metadata.uid != new.metadata.uid,
        _ => true,
    };
    let runner = context
        .controller("serviceaccount-token-controller")
        .for_(&secrets)
        .watches_where(&accounts, Predicate::new(is_added_or_removed), move |delta| {
            let meta = &delta.object().metadata;
            by_account.keys(Key::new(&meta.namespace, &meta.name).as_str())
        })
        .reconciler(reconciler);
    let deleted_secrets = DeletedSecrets::default();
    let remover = SecretReferenceRemover {
        writer: ApiWriter::new(context.informers.client().clone()),
        deleted_secrets: deleted_secrets.clone(),
    };
    let forgetting = context
        .controller("serviceaccount-token-controller-accounts")
        .watches(&secrets, move |delta| deleted_secrets.record_deletion(delta))
        .reconciler(remover);
    vec![Box::new(runner), Box::new(forgetting)]
}

// --- TokensController ---

impl Reconciler for TokensController {
    // upstream: pkg/controller/serviceaccount/tokens_controller.go generateTokenIfNeeded
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(secret) = self.secrets.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let Some(name) = secret
            .metadata
            .annotation(ACCOUNT)
            .filter(|name| !name.is_empty())
        else {
            return Ok(Outcome::Done);
        };
        let object_ref = ObjectRef::new(&SECRETS, request.key.namespace(), request.key.name());
        let Some(account) = self.account(&secret, name).await? else {
            return match self
                .writer
                .delete(object_ref, &delete_options_for_uid(&secret.metadata.uid))
                .await
            {
                Err(error) if has_status_code(&error, 409) => Ok(Outcome::Done),
                other => Ok(other.map(|()| Outcome::Done)?),
            };
        };
        let authority = self.cluster.authority.get();
        let wanting = secret.missing_data(&authority);
        if wanting == MissingTokenData::default() {
            return Ok(Outcome::Done);
        }
        let meta = &secret.metadata;
        let mut data = serde_json::Map::new();
        let mut put = |name: &str, text: &str| {
            data.insert(name.to_owned(), k3_api::base64::encode(text.as_bytes()).into());
        };
        if wanting.authority {
            put("ca.crt", &authority);
        }
        if wanting.namespace {
            put("namespace", &meta.namespace);
        }
        if wanting.token {
            put(
                "token",
                &self.signer.sign(&secret::claims(&account.metadata, &meta.name)),
            );
        }
        let marks = json!({ACCOUNT: account.metadata.name, ACCOUNT_UID: account.metadata.uid});
        let patch = json!({
            "metadata": {"resourceVersion": meta.resource_version, "annotations": marks},
            "data": data,
        });
        match self.writer.update_with_merge::<Value>(object_ref, &patch).await {
            // A conflict: the informer delivers the new version.
            Err(error) if has_status_code(&error, 404) || has_status_code(&error, 409) => Ok(Outcome::Done),
            other => Ok(other.map(|_| Outcome::Done)?),
        }
    }
}

impl TokensController {
    /// The ServiceAccount of a Secret. If it is not in the informer's cache, the server is asked.
    // upstream: pkg/controller/serviceaccount/tokens_controller.go getServiceAccount
    async fn account(&self, secret: &TokenSecret, name: &str) -> kube::Result<Option<Arc<ServiceAccount>>> {
        let namespace = &secret.metadata.namespace;
        let uid = secret.metadata.annotation(ACCOUNT_UID).unwrap_or_default();
        let is_meant = |account: &Arc<ServiceAccount>| uid.is_empty() || *account.metadata.uid == *uid;
        if let Some(account) = self.accounts.get(&Key::new(namespace, name)).filter(is_meant) {
            return Ok(Some(account));
        }
        match self
            .writer
            .get(ObjectRef::new(&SERVICE_ACCOUNTS, namespace, name))
            .await
        {
            Ok(account) => Ok(Some(Arc::new(account)).filter(is_meant)),
            Err(error) if has_status_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
