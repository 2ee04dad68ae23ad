//! Resources: what their names and amounts look like, in containers, pods, quotas, limit ranges and nodes.
//!
//! Names without a slash, or below `kubernetes.io/`, are the project's own; others are extended resources, which come in
//! whole pieces and cannot be promised twice.

mod amount;
mod name;
mod requirements;
pub mod total;

pub(super) use self::{
    amount::default_requirements,
    name::{is_hugepages, suits_pod},
    requirements::{Holder, Pages, validate_requirements},
    total::totals,
};
pub use self::{name::is_extended, total::requests};
pub(crate) use crate::kinds::field_checks::quantity_or_zero;

pub(crate) use self::{
    amount::{default_list, page_divides, validate_amount},
    name::{is_standard_quota, overcommits, validate_container_name, validate_name, validate_quota_name},
    requirements::validate_overhead,
};
