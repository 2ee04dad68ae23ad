//! Resources: what their names and amounts look like, in containers, pods, quotas, limit ranges and nodes.
//!
//! Names without a slash, or below `kubernetes.io/`, are the project's own; others are extended resources, which come in
//! whole pieces and cannot be promised twice.

mod amount;
mod name;
mod requirements;
mod total;

pub(super) use self::{
    amount::{amount, default_list, default_requirements, page_divides},
    name::{is_hugepages, overcommits, suits_pod},
    requirements::{Holder, Pages, validate_requirements},
    total::totals,
};
pub(crate) use self::{name::validate_container_name, requirements::validate_overhead};
