//! A resource in the request's version: its cache, storage kind and REST strategy.

use std::sync::Arc;

use bytes::Bytes;
use k3_api::{
    kinds::{Kind, KindRef, builtin},
    status::{GroupResource, Status},
    strategy::{self, RestStrategy, SelectableField},
};
use k3_storage::Key;
use serde_json::Value;

use super::storage_version;
use crate::{
    cache::{CachedObject, ExpectedCommit, WatchCache, WatchCaches},
    custom::ServedDefinition,
};

/// A resource in the version a request names.
#[derive(Clone)]
pub(crate) struct Resource {
    /// The kind of the request.
    pub kind: KindRef,
    /// The kind that is stored.
    pub stored: KindRef,
    /// The definition, of a custom kind.
    pub custom: Option<Arc<ServedDefinition>>,
    /// Its objects.
    pub cache: Arc<WatchCache>,
    prefix: String,
}

/// The beginning of the keys of a kind that is stored.
fn prefix(stored: &Kind) -> String {
    let group = if stored.group.is_empty() {
        "core"
    } else {
        &stored.group
    };
    format!("/registry/{group}/{}/", stored.plural)
}

/// The fields that objects under a beginning of keys can be selected by.
pub(crate) fn selectable(of: &str) -> Arc<[SelectableField]> {
    let mut kinds = builtin().all().iter();
    kinds
        .find(|kind| !storage_version::is_stored_otherwise(kind) && prefix(kind) == of)
        .map_or(&[][..], |kind| strategy::for_kind(kind).selectable_fields())
        .into()
}

// --- Resource ---

impl Resource {
    /// The resource of a kind.
    pub(crate) fn of(kind: impl Into<KindRef>, caches: &WatchCaches) -> Self {
        let kind = kind.into();
        let custom = match &kind {
            KindRef::Builtin(_) => None,
            KindRef::Custom(kind) => caches.definitions().find(&kind.group, &kind.plural),
        };
        let stored = match &custom {
            Some(served) => served.stored(),
            None => storage_version::stored(&kind),
        };
        let prefix = prefix(&stored);
        Resource {
            kind,
            stored,
            custom,
            cache: caches.resource(&prefix),
            prefix,
        }
    }

    /// The rules of the kind of the request.
    pub(crate) fn strategy(&self) -> &dyn RestStrategy {
        strategy::for_kind(&self.kind)
    }

    /// The key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Result<Key, Status> {
        // Names were checked by the rules; here once more, for a key must never reach into a neighbour.
        let is_plain =
            |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '%']);
        let mut text = self.under(namespace);
        if !is_plain(name) || (self.kind.is_namespaced() && !is_plain(namespace)) {
            return Err(self.not_found(name));
        }
        text.push_str(name);
        Key::try_new(&text).map_err(|_| self.not_found(name))
    }

    /// The beginning of the keys of a namespace; of all objects if it is empty.
    pub(crate) fn under(&self, namespace: &str) -> String {
        if namespace.is_empty() {
            self.prefix.clone()
        } else {
            format!("{}{namespace}/", self.prefix)
        }
    }

    /// Announces what a commit will store: an object that was validated as a kind. To be held until the commit is applied.
    pub(super) fn expect(
        &self,
        key: &Key,
        bytes: &Bytes,
        tree: &Value,
        validation_kind: &Kind,
    ) -> Option<ExpectedCommit<'_>> {
        if !storage_version::is_same(validation_kind, &self.stored) {
            return None;
        }
        self.cache.expect(key, bytes, tree)
    }

    /// Whether objects must be changed on their way to the client.
    pub(crate) fn converts(&self) -> bool {
        !storage_version::is_same(&self.kind, &self.stored)
    }

    /// Whether an object is served as stored. One stored under an earlier version of its definition may have to be changed.
    pub(crate) fn serves_as_stored(&self, object: &CachedObject) -> bool {
        match &self.custom {
            None => !self.converts(),
            Some(served) => {
                !self.converts() && object.revision > served.since && object.begins_as(&self.stored)
            }
        }
    }

    /// Whether the version of the request selects by a field. Other versions of a custom resource may know other fields.
    pub(super) fn selects_by(&self, field: &str) -> bool {
        let mut fields = self.strategy().selectable_fields().iter();
        self.custom.is_none() || fields.any(|known| known.field == field)
    }

    /// Its name with its group, as messages have it.
    pub(crate) fn grouped(&self) -> GroupResource<'_> {
        GroupResource::new(&self.kind.group, &self.kind.plural)
    }

    /// The NotFound error of an object.
    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.grouped(), name)
    }
}
