//! `metadata.managedFields`: which field manager owns which field, and the writes that change it.
//!
//! Promises: every write, by whatever verb, leaves a record that states for each field who set it last, or who
//! applied it; a write that changes nothing leaves the record as it was, times included. An apply removes
//! what its manager applied before and now left out, unless another manager owns it too. A conflict names
//! every field and every owner.

mod apply;
mod cap;
mod conflict;
mod entry;
mod field_manager;
mod last_applied;
#[cfg(test)]
mod laws;
mod prune;
mod record;
mod reset_fields;
mod scale;
#[cfg(test)]
mod tests;
mod timestamps;
mod update;

pub use self::{
    apply::{ApplyConflictPolicy, ApplyError},
    conflict::{ConflictCause, Conflicts},
    entry::{ManagedFieldsError, Operation},
    field_manager::{ConversionError, FieldManager, SingleVersion, VersionConverter},
    record::check,
    reset_fields::{PathElementMatcher, ResetFields},
    scale::{ReplicasPaths, ScaleHandlerError, scale_to_parent, scale_to_subresource},
    timestamps::ignore_managed_fields_timestamps,
};
