//! ControllerRevisions: a record of each template of a DaemonSet or StatefulSet.
//!
//! ```text
//! revision_list   which revision has the current template, next number, revisions beyond the limit
//! revision_store  creates, renumbers, adopts and deletes revisions
//! ```

mod revision_list;
mod revision_store;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    revision_list::{LatestRevision, RevisionList, beyond_limit},
    revision_store::{NewRevision, RevisionStore, sets_to_sync},
};
