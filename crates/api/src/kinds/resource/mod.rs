//! The kinds of the `resource.k8s.io` group, one file per kind.
//!
//! Upstream validates many rules twice: by hand in `validation.go` and declaratively by `+k8s:` tags of the types. Where both
//! report the same error, the declarative one remains, and comes last. Here functions `validate_*` are the hand-written rules and
//! `validate_declaratively_*` those of the tags.

mod allocation;
mod capacity;
mod claim;
mod configuration;
mod declarative;
mod device;
mod device_class;
mod device_taint_rule;
mod names;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;
mod selector;
mod taint;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "DeviceClass" => &device_class::DeviceClass,
        "DeviceTaintRule" => &device_taint_rule::DeviceTaintRule,
        "ResourceClaim" => &resource_claim::ResourceClaim,
        "ResourceClaimTemplate" => &resource_claim_template::ResourceClaimTemplate,
        "ResourceSlice" => &resource_slice::ResourceSlice,
        _ => return None,
    })
}
