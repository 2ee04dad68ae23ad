//! Objects of the server's own making that need nobody's judgement.

use bytes::Bytes;
use k3_api::{
    encode,
    status::Status,
    strategy::{Tree, TreeMut, User},
    time::Time,
};
use serde_json::Value;

use super::{
    Ask, Registry, Resource, answer, ask::Warnings, change::Source, create::random_uid, manage, version,
};
use crate::request::{FieldValidation, WriteOptions};

/// An object as it is stored, complete with what every new object has.
pub(crate) fn own_object(resource: &Resource, object: &Value, manager: &str, now: Time) -> Bytes {
    let kind = &resource.kind;
    let mut object = answer::normal(object, &kind.ty);
    resource.strategy().set_defaults(&mut object);
    manage::with_subject(kind, resource.strategy(), "", None, |subject| {
        subject.track(None, &mut object, manager, now);
    });
    let metadata = object.ensure_object("metadata");
    metadata.set("uid", random_uid());
    metadata.set("creationTimestamp", now.truncated().to_string());
    let stored = version::convert(object, kind, &resource.stored);
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
    manage::with_subject(&resource.kind, resource.strategy(), part, None, |subject| {
        subject.track(Some(old), &mut new, manager, now);
    });
    version::stored_bytes(&new, &resource.kind, &resource.stored)
}

/// Who the server is when it does something by itself.
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
        let mut ask = Ask::own(
            resource.kind.clone(),
            metadata.text("namespace"),
            own_user(),
            self.now(),
        );
        metadata.text("name").clone_into(&mut ask.target.name);
        ask.target.subresource = part;
        let options = WriteOptions {
            dry_run: false,
            manager: manager.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
        };
        let source = Source::Put(object);
        self.change(&ask, resource, &source, &options, &mut Warnings::default())
            .await?;
        Ok(())
    }
}
