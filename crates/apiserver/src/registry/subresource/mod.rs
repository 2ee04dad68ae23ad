//! Subresources with behavior of their own, and virtual kinds (reviews, ComponentStatus); a file each.

mod binding;
mod component_status;
mod connect_options;
mod eviction;
mod kubelet;
mod proxy;
mod review;
mod scale;
mod token;
mod token_review;

pub(super) use self::scale::NewScale;

use k3_api::{
    status::{GroupResource, Status, StatusDetails},
    strategy::RestStrategy,
};
use serde_json::Value;

use super::{
    Registry, RequestContext, Resource,
    commit::{ReadyObject, WriteError},
    outcome::Outcome,
    request_context::Warnings,
    response, storage_version,
    update::read_entry,
};
use crate::{
    admission::{AdmissionAttributes, Operation},
    allocation::Reservation,
    http::{self as web, HttpResponse},
};

const TRIES: usize = 10;

/// The halves of admission.
#[derive(Clone, Copy)]
enum AdmissionPhase {
    /// What may still be changed, or refused as it was asked for.
    Change,
    /// Whether the outcome may be.
    Validate,
}

// --- Registry ---

impl Registry {
    /// Takes a request for a stream through admission. Its options stand for an object.
    async fn admit_connection(&self, ctx: &RequestContext, path: &str) -> Result<(), Status> {
        let mut options = connect_options::options(ctx, path)?;
        let mut warnings = Warnings::default();
        for phase in [AdmissionPhase::Change, AdmissionPhase::Validate] {
            self.admit_as(
                (Operation::Connect, phase),
                ctx,
                &mut options,
                false,
                &mut warnings,
            )
            .await?;
        }
        Ok(())
    }

    /// Takes what is made under an object, and not stored itself, through half of admission.
    async fn admit_as(
        &self,
        (operation, phase): (Operation, AdmissionPhase),
        ctx: &RequestContext,
        object: &mut Value,
        dry_run: bool,
        warnings: &mut Warnings,
    ) -> Result<(), Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let mut attributes = AdmissionAttributes {
            operation,
            resource: &resource,
            subresource: ctx.target.part(),
            namespace: &ctx.target.namespace,
            object,
            old: None,
            ctx,
            dry_run,
            warnings: &mut warnings.0,
        };
        match phase {
            AdmissionPhase::Change => self.admit_new(&mut attributes).await,
            AdmissionPhase::Validate => self.admission.validate(&mut attributes, &self.caches).await,
        }
    }

    /// Changes a stored object on behalf of the server: no admission, no validation, no field manager.
    async fn modify(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        dry_run: bool,
        mut change: impl FnMut(&mut Value) -> Result<(), Status>,
    ) -> Result<Outcome, Status> {
        self.read_index().await?;
        let key = resource.key(namespace, name)?;
        let current = resource.cache.get(&key).ok_or_else(|| resource.not_found(name))?;
        let mut current = self.readable(resource, current).await?;
        for _ in 0..TRIES {
            let mut tree = current.tree();
            change(&mut tree)?;
            if dry_run {
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
            match self.store_object(ready, Reservation::default()).await {
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
    let mut created_status = web::status(&status, ctx.accepted.format, ctx.accepted.pretty);
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
