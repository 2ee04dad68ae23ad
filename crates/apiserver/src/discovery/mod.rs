//! Discovery: served groups, versions and resources.
//!
//! Promises: the documents are upstream's in content and order, as JSON, YAML and protobuf, in the old form (a
//! document per group and version) and in the aggregated one (all of them in two documents, with an `ETag` that
//! changes when the content does). Everything comes from the list of groups that a [`Discovery`] is made of; it
//! knows nothing of where the groups come from.

mod accept;
mod aggregated;
mod group;
mod handler;
mod index;
mod legacy;
mod version;

pub use self::version::version;
pub(crate) use self::{accept::ranges, group::DiscoveryGroup, handler::Discovery};
