//! Subresources with behavior of their own, and virtual kinds (reviews, ComponentStatus); a file each.

mod binding;
mod component_status;
mod connect;
mod connect_options;
mod eviction;
mod kubelet;
mod proxy;
mod review;
mod scale;
mod token;
mod token_review;

pub(super) use self::scale::NewScale;
pub(crate) use self::{
    component_status::ComponentStatusStorage, connect::ConnectStorage, review::ReviewStorage,
    token::TokenRequestStorage,
};

use k3_api::{
    status::{GroupResource, Status, StatusDetails},
    strategy::RestStrategy,
};
use serde_json::Value;

use super::{
    Registry, RequestContext, Resource,
    commit::{ReadyObject, WriteError},
    decryption::readable,
    freshness::read_index,
    outcome::Outcome,
    request_context::Warnings,
    response, storage_version,
    update::read_entry,
};
use crate::{
    allocation::Reservation,
    http::{self as web, HttpResponse},
    request::CommitMode,
};

const TRIES: usize = 10;

// --- Registry ---

impl Registry {
    /// Changes a stored object on behalf of the server: no admission, no validation, no field manager.
    async fn modify(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        mode: CommitMode,
        mut change: impl FnMut(&mut Value) -> Result<(), Status>,
    ) -> Result<Outcome, Status> {
        read_index(&self.caches).await?;
        let key = resource.key(namespace, name)?;
        let current = resource.cache.get(&key).ok_or_else(|| resource.not_found(name))?;
        let mut current = readable(&self.caches, resource, current).await?;
        for _ in 0..TRIES {
            let mut tree = current.tree();
            change(&mut tree)?;
            if mode == CommitMode::DryRun {
                return Ok(Outcome::DryRun(tree));
            }
            let bytes = storage_version::stored_bytes(&tree, &resource.stored, &resource.stored);
            if *current.stored() == bytes {
                let served = None;
                return Ok(Outcome::Unchanged { current, served });
            }
            let ready = ReadyObject {
                key: key.clone(),
                replaces: Some(current.revision),
                bytes,
                object: tree,
                time_to_live: None,
            };
            match self.store_object(ready, resource, Reservation::default()).await {
                Ok(stored) => return Ok(stored),
                Err(WriteError::Failed(status)) => return Err(status),
                Err(WriteError::Conflict(None)) => return Err(resource.not_found(name)),
                Err(WriteError::Conflict(Some(entry))) => current = read_entry(entry),
            }
        }
        let why = "the object has been modified concurrently too often; please try again";
        Err(Status::conflict(resource.grouped(), name, why))
    }
}

/// A `Status` of success for a created object.
fn created_status(ctx: &RequestContext, warnings: &Warnings) -> HttpResponse {
    let status = Status {
        code: 201,
        details: None,
        ..Status::success(StatusDetails::default())
    };
    let mut created_status = web::status(&status, ctx.accepted.format, ctx.accepted.layout);
    response::warn(&mut created_status, &warnings.0);
    created_status
}

/// Validates an object that is not stored; errors name it.
fn validate_rules(
    rules: &dyn RestStrategy,
    object: &Value,
    at: &k3_api::strategy::StrategyContext<'_>,
    (kind, name): (GroupResource<'_>, &str),
) -> Result<(), Status> {
    let mut errors = k3_api::strategy::ErrorList::new();
    rules.validate(object, at, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_with_omitted(
        kind,
        name,
        &errors,
        errors.omitted(),
    ))
}
