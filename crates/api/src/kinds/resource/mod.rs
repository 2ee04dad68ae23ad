//! The kinds of the `resource.k8s.io` group, one file per kind.
//!
//! Many of their rules are told twice upstream, by hand and in the types; where both speak, the second is heard,
//! and comes last. Here the first are called `judge`, the second `declared`. Expressions are not compiled.

mod allocation;
mod capacity;
mod claim;
mod configuration;
mod declared;
mod device;
mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;
mod selector;
mod taint;
mod word;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "DeviceClass" => &device_class::DeviceClass,
        "DeviceTaintRule" => &device_taint_rule::DeviceTaintRule,
        "ResourceClaim" => &resource_claim::ResourceClaim,
        "ResourceClaimTemplate" => &resource_claim_template::ResourceClaimTemplate,
        "ResourceSlice" => &resource_slice::ResourceSlice,
        _ => return None,
    })
}
