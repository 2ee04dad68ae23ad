//! Eviction: the `eviction` subresource of pods, subject to disruption budgets.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree},
};

pub(super) struct Eviction;

const IGNORE_READ_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl RestStrategy for Eviction {
    // upstream: pkg/registry/core/pod/storage/eviction.go Create
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        if object.at("deleteOptions").flag(IGNORE_READ_ERRORS) {
            let root = Path::new("deleteOptions");
            let detail = "can not be set for pod eviction, try after removing the option";
            errors.push(Error::invalid(
                &root.child(IGNORE_READ_ERRORS),
                Value::Bool(true),
                detail,
            ));
        }
    }
}
