//! Resource claims: devices that somebody asked for, and got.

use serde_json::{Value, json};

use super::{allocation, claim, taint};
use crate::{
    field::Path,
    kinds::{field_checks, status_meta},
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ResourceClaim;

// upstream: pkg/registry/resource/resourceclaim/strategy.go resourceclaimStrategy
impl Rules for ResourceClaim {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.at_mut("spec") {
            claim::default(spec);
        }
        let results = object
            .at_mut("status")
            .and_then(|status| status.at_mut("allocation"))
            .and_then(|allocation| allocation.at_mut("devices"));
        if let Some(devices) = results {
            for result in devices.items_mut("results") {
                taint::default_tolerations(result);
            }
        }
    }

    // upstream: pkg/registry/resource/resourceclaim/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, _: &Circumstances<'_>) {
        object.set("status", json!({}));
        claim::drop_disabled(object.make("spec"), &Value::Null);
    }

    // upstream: pkg/registry/resource/resourceclaim/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        new.copy_from("status", old);
        claim::drop_disabled(new.make("spec"), old.at("spec"));
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
        allocation::prepare(new.make("status"), old.at("status"));
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaim
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        claim::validate(object.at("spec"), &Path::new("spec"), errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        field_checks::validate_immutable_hiding_value(
            new.at("spec"),
            old.at("spec"),
            &Path::new("spec"),
            errors,
        );
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimStatusUpdate
    fn validate_status(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        allocation::validate(new, old.at("status"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::text(
                "State",
                "A summary of the current state (allocated, pending, reserved, etc.).",
            ),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printResourceClaim
    fn row(&self, object: &Value, now: Time) -> Row {
        let status = object.at("status");
        let deleted = object.at("metadata").has("deletionTimestamp");
        let allocated = status.has("allocation");
        let reserved = allocated && !status.items("reservedFor").is_empty();
        let states: Vec<_> = [
            ("deleted", deleted),
            ("pending", !allocated && !deleted),
            ("allocated", allocated),
            ("reserved", reserved),
        ]
        .into_iter()
        .filter_map(|(state, is)| is.then_some(state))
        .collect();
        named_row(object, now, [json!(states.join(","))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        claim::validate(spec, &Path::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_wants_one_device_unless_it_says_otherwise() {
        let mut object = json!({"spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [{}]}},
        ]}}});
        ResourceClaim.default(&mut object);
        let exactly = &object.at("spec").at("devices").items("requests")[0];
        assert_eq!(
            exactly.at("exactly"),
            &json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1, "tolerations": [{"operator": "Equal"}]})
        );
        assert!(errors(object.at("spec")).is_empty());
    }

    #[test]
    fn requests_are_told_apart_and_referred_to_by_name() {
        let request = json!({"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}});
        let spec = json!({"devices": {
            "requests": [request, request],
            "constraints": [{"requests": ["q"], "matchAttribute": "a"}],
        }});
        assert_eq!(
            errors(&spec),
            [
                "spec.devices.constraints[0].requests[0]: Invalid value: \"q\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                "spec.devices.requests[1]: Duplicate value: {\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\",\"allocationMode\":\"All\"}}",
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"a\": a fully qualified name must be a domain and a name separated by a slash",
            ]
        );
    }

    #[test]
    fn a_row_shows_the_state() {
        let now = Time::parse("2026-01-01T00:00:30Z").unwrap();
        let of = |status: Value| {
            let claim = json!({"metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status});
            ResourceClaim.row(&claim, now).cells[1].clone()
        };
        assert_eq!(of(json!({})), "pending");
        assert_eq!(
            of(json!({"allocation": {}, "reservedFor": [{}]})),
            "allocated,reserved"
        );
    }
}
