//! Names and quantities of resources, in containers, pods, quotas, limit ranges and nodes.
//!
//! Names without a slash or with the domain `kubernetes.io` are native resources. Others are extended resources, which are integers
//! and cannot be overcommitted.

mod amount;
mod name;
mod requirements;
pub mod total;

pub(super) use self::{
    amount::set_defaults_resource_requirements,
    name::{is_hugepages, is_supported_pod_level_resource},
    requirements::{HugePages, ResourceOwner, validate_requirements},
    total::totals,
};
pub use self::{name::is_extended, total::requests};
pub(crate) use crate::kinds::field_checks::quantity_or_zero;

pub(crate) use self::{
    amount::{is_huge_page_value_divisible, set_defaults_resource_list, validate_resource_quantity_value},
    name::{
        is_overcommit_allowed, is_standard_quota, validate_container_resource_name,
        validate_quota_resource_name, validate_resource_name,
    },
    requirements::validate_overhead,
};
