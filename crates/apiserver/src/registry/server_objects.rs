//! Objects that the server itself creates, without admission or validation.

use bytes::Bytes;
use k3_api::{
    encode,
    status::Status,
    strategy::{Tree, TreeMut, User},
    time::Time,
};
use serde_json::Value;

use super::{
    Registry, RequestContext, Resource,
    create::random_uid,
    managed_fields,
    pending_write::PendingWrite,
    response, storage_version,
    update::{SubmittedObject, UpdateSource},
};
use crate::request::{CommitMode, FieldValidation, WriteOptions};

/// Encodes an object that the server creates, with the metadata of every new object.
pub(crate) fn own_object(resource: &Resource, object: &Value, manager: &str, now: Time) -> Bytes {
    let kind = &resource.kind;
    let mut object = response::normal(object, &kind.ty);
    resource.strategy().set_defaults(&mut object);
    managed_fields::with_subject(kind, resource.strategy(), "", None, |subject| {
        subject.track(None, &mut object, manager, now);
    });
    let metadata = object.ensure_object("metadata");
    metadata.set("uid", random_uid());
    metadata.set("creationTimestamp", now.truncated().to_string());
    let stored = storage_version::convert(object, kind, &resource.stored);
    Bytes::from(encode::encode_stored(
        stored.as_object().expect("an object is one"),
    ))
}

/// An object of which the server changes a part by itself, as it is stored.
pub(crate) fn own_change(
    resource: &Resource,
    old: &Value,
    mut new: Value,
    part: &str,
    manager: &str,
    now: Time,
) -> Bytes {
    managed_fields::with_subject(&resource.kind, resource.strategy(), part, None, |subject| {
        subject.track(Some(old), &mut new, manager, now);
    });
    storage_version::stored_bytes(&new, &resource.kind, &resource.stored)
}

/// The user of the server's own writes.
pub(crate) fn own_user() -> User {
    User {
        name: "system:apiserver".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    }
}

// --- Registry ---

impl Registry {
    /// Replaces the status of an object by the server's own doing.
    pub(crate) async fn update_own_status(
        &self,
        resource: &Resource,
        object: Value,
        manager: &str,
    ) -> Result<(), Status> {
        let parts = &resource.kind.subresources;
        let status = parts.iter().position(|part| part.name == "status");
        self.update_own(resource, object, manager, status).await
    }

    /// Replaces an object, or the part of it at this place among the parts of its kind.
    pub(crate) async fn update_own(
        &self,
        resource: &Resource,
        object: Value,
        manager: &str,
        part: Option<usize>,
    ) -> Result<(), Status> {
        let metadata = object.at("metadata");
        let mut ctx = RequestContext::own(
            resource.kind.clone(),
            metadata.text("namespace"),
            own_user(),
            self.now(),
        );
        metadata.text("name").clone_into(&mut ctx.target.name);
        ctx.target.subresource = part;
        let options = WriteOptions {
            mode: CommitMode::Commit,
            manager: manager.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
        };
        let mut write = PendingWrite::new(&ctx, resource, &options);
        let source = UpdateSource::Put(SubmittedObject::new(object));
        self.change(&mut write, &source).await?;
        Ok(())
    }
}
