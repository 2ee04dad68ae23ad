//! The wish that a pod goes, if its budget allows.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree},
};

/// The rules of evictions.
pub(super) struct Eviction;

const IGNORE_READ_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl RestStrategy for Eviction {
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
