//! ResourceClaim: a request for devices, and their allocation (dynamic resource allocation, KEP-4381).

use serde_json::{Value, json};

use super::{allocation, claim, taint};
use crate::{
    field::Path,
    kinds::{field_checks, status_meta},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ResourceClaim;

// upstream: pkg/registry/resource/resourceclaim/strategy.go resourceclaimStrategy
impl RestStrategy for ResourceClaim {
    fn set_defaults(&self, object: &mut Value) {
        if let Some(spec) = object.at_mut("spec") {
            claim::set_defaults_claim_spec(spec);
        }
        let results = object
            .at_mut("status")
            .and_then(|status| status.at_mut("allocation"))
            .and_then(|allocation| allocation.at_mut("devices"));
        if let Some(devices) = results {
            for result in devices.items_mut("results") {
                taint::set_defaults_tolerations(result);
            }
        }
    }

    // upstream: pkg/registry/resource/resourceclaim/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        object.set("status", json!({}));
        claim::drop_disabled_fields(object.ensure_object("spec"), &Value::Null);
    }

    // upstream: pkg/registry/resource/resourceclaim/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("status", old);
        claim::drop_disabled_fields(new.ensure_object("spec"), old.at("spec"));
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
        allocation::prepare_status(new.ensure_object("status"), old.at("status"));
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaim
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        claim::validate_claim_spec(object.at("spec"), &Path::new("spec"), errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        field_checks::validate_immutable_hiding_value(
            new.at("spec"),
            old.at("spec"),
            &Path::new("spec"),
            errors,
        );
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        allocation::validate_status_update(new, old.at("status"), errors);
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
        let mut errors = ErrorList::new();
        claim::validate_claim_spec(spec, &Path::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_allocation_mode_and_count() {
        let mut object = json!({"spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [{}]}},
        ]}}});
        ResourceClaim.set_defaults(&mut object);
        let exactly = &object.at("spec").at("devices").items("requests")[0];
        assert_eq!(
            exactly.at("exactly"),
            &json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1, "tolerations": [{"operator": "Equal"}]})
        );
        assert!(errors(object.at("spec")).is_empty());
    }

    #[test]
    fn rejects_duplicate_and_unknown_request_names() {
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
    fn row_shows_the_state() {
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
