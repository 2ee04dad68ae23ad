//! Lease: the holder and the expiry of a lock.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::counts::NOT_NEGATIVE,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct Lease;

/// Fields of coordinated leader election (KEP-4355), whose feature gate is off.
const COORDINATED_LEADER_ELECTION_FIELDS: [&str; 2] = ["strategy", "preferredHolder"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Holder", "spec.holderIdentity"),
    Column::age(),
];

// upstream: pkg/registry/coordination/lease/strategy.go leaseStrategy
impl RestStrategy for Lease {
    // upstream: pkg/registry/coordination/lease/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        for name in COORDINATED_LEADER_ELECTION_FIELDS {
            object.ensure_object("spec").remove(name);
        }
    }

    // upstream: pkg/registry/coordination/lease/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        for name in COORDINATED_LEADER_ELECTION_FIELDS {
            if !old.at("spec").has(name) {
                new.ensure_object("spec").remove(name);
            }
        }
    }

    // upstream: pkg/apis/coordination/validation/validation.go ValidateLease
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        // upstream: pkg/apis/coordination/validation/validation.go ValidateLeaseSpec
        let spec = object.at("spec");
        let at = Path::new("spec");
        for (name, min, detail) in [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, NOT_NEGATIVE),
        ] {
            if let Some(number) = spec.int(name).filter(|number| *number < min) {
                errors.push(Error::invalid(&at.child(name), number, detail));
            }
        }
    }

    // upstream: pkg/registry/coordination/lease/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }

    // upstream: pkg/registry/coordination/lease/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printLease
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.at("spec").text("holderIdentity"))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_shows_the_holder() {
        let now = Time::parse("2026-01-02T03:04:05Z").unwrap();
        let lease = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:00Z"},
            "spec": {"holderIdentity": "me"},
        });
        assert_eq!(
            Lease.row(&lease, now).cells,
            [json!("a"), json!("me"), json!("5s")]
        );
    }
}
