//! Leases: who leads, and until when.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::counts::NOT_NEGATIVE,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

/// The rules of leases.
pub(super) struct Lease;

/// Fields of coordinated leader election, which is off.
const COORDINATED: [&str; 2] = ["strategy", "preferredHolder"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Holder", "spec.holderIdentity"),
    Column::age(),
];

impl Rules for Lease {
    fn prepare_create(&self, object: &mut Value, _: &Circumstances<'_>) {
        for name in COORDINATED {
            object.make("spec").remove(name);
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        for name in COORDINATED {
            if !old.at("spec").has(name) {
                new.make("spec").remove(name);
            }
        }
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = object.at("spec");
        let at = Path::new("spec");
        for (name, least, detail) in [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, NOT_NEGATIVE),
        ] {
            if let Some(number) = spec.int(name).filter(|number| *number < least) {
                errors.push(Error::invalid(&at.child(name), number, detail));
            }
        }
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.at("spec").text("holderIdentity"))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_shown() {
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
