//! ControllerRevisions: a record of each template of a DaemonSet or StatefulSet.
//!
//! ```text
//! revision_list   which revision has the current template, next number, revisions beyond the limit
//! revision_store  creates, renumbers, adopts and deletes revisions
//! ```

mod revision_store;
mod revision_list;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    revision_store::{RevisionStore, NewRevision, sets_to_sync},
    revision_list::{RevisionList, LatestRevision, beyond_limit},
};
