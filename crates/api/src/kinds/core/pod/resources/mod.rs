//! Resources: what their names and amounts look like, in containers, pods, quotas, limit ranges and nodes.
//!
//! Names without a slash, or below `kubernetes.io/`, are the project's own; others are extended resources, which come in
//! whole pieces and cannot be promised twice.

mod amount;
mod name;
mod requirements;
mod total;

pub(crate) use self::{
    amount::{amount, default_list, default_requirements, page_divides, validate_amount},
    name::{
        is_extended, is_hugepages, is_integer, is_native, is_standard, is_standard_container,
        is_standard_quota, overcommits, suits_pod, validate_container_name, validate_name,
        validate_quota_name,
    },
    requirements::{Holder, Pages, validate_requirements, validate_resource_requirements},
    total::{Totals, totals},
};
