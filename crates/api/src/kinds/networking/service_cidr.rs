//! ServiceCIDR: a network that cluster IPs of services are allocated from (KEP-1880).

use serde_json::{Value, json};

use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{BadValue, Error, Path},
    go,
    kinds::{field_checks, status_meta},
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ServiceCidr;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("CIDRs", "spec.cidrs"),
    Column::age(),
];

// upstream: pkg/registry/networking/servicecidr/strategy.go serviceCIDRStrategy
impl RestStrategy for ServiceCidr {
    // upstream: pkg/registry/networking/servicecidr/strategy.go serviceCIDRStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateServiceCIDR
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_service_cidr_spec(object.at("spec"), errors);
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateServiceCIDRUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = new.at("spec");
        let root = Path::new("spec");
        let at = root.child("cidrs");
        let after: Vec<_> = spec.texts("cidrs").collect();
        let before: Vec<_> = old.at("spec").texts("cidrs").collect();
        let grown = (before.len(), after.len()) == (1, 2);
        if before.len() != after.len() && !grown {
            let cidrs = BadValue::Json(spec.items("cidrs").into());
            errors.push(Error::invalid(&at, cidrs, field_checks::IMMUTABLE));
            return;
        }
        for (index, (after, before)) in after.iter().zip(&before).enumerate() {
            if after != before {
                errors.push(Error::invalid(&at.index(index), *after, field_checks::IMMUTABLE));
            }
        }
        if grown {
            validate_service_cidr_spec(spec, errors);
        }
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let fields: &[&[&str]] = if subresource.is_empty() {
            &[&["status"]]
        } else {
            &[&["metadata"], &["spec"]]
        };
        Some(ResetFields::Fields(FieldSet::of_fields(fields)))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printServiceCIDR
    fn row(&self, object: &Value, now: Time) -> Row {
        let cidrs: Vec<_> = object.at("spec").texts("cidrs").collect();
        named_row(object, now, [json!(cidrs.join(","))])
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateServiceCIDRSpec
fn validate_service_cidr_spec(spec: &Value, errors: &mut ErrorList) {
    let root = Path::new("spec");
    let at = root.child("cidrs");
    let cidrs: Vec<_> = spec.texts("cidrs").collect();
    if cidrs.is_empty() {
        errors.push(Error::required(&at, "at least one CIDR required"));
        return;
    }
    if cidrs.len() > 2 {
        let spec_value = BadValue::Printed(format!("{{\"CIDRs\":{}}}", go::json(spec.at("cidrs"))));
        errors.push(Error::invalid(&at, spec_value, "may only hold up to 2 values"));
        return;
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        errors.extend(name::validate_cidr(&at.index(index), cidr));
    }
    let family = |cidr: &&str| name::parse_cidr_sloppy(cidr).map(|subnet| subnet.network.is_ipv4());
    if let [first, second] = cidrs.as_slice()
        && family(first).is_some()
        && family(first) == family(second)
    {
        errors.push(Error::invalid(
            &at,
            spec.at("cidrs"),
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(cidrs: &[&str]) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_service_cidr_spec(&json!({"cidrs": cidrs}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_two_networks_of_one_family() {
        assert_eq!(errors(&["10.0.0.0/8", "2001:db8::/64"]), [""; 0]);
        assert_eq!(
            errors(&["10.0.0.0/8", "11.0.0.0/8"]),
            [
                "spec.cidrs: Invalid value: [\"10.0.0.0/8\",\"11.0.0.0/8\"]: may specify no more than one IP for each IP \
              family, i.e 192.168.0.0/24 and 2001:db8::/64"
            ]
        );
        assert_eq!(
            errors(&["a", "b", "c"]),
            ["spec.cidrs: Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values"]
        );
    }

    #[test]
    fn allows_adding_a_second_family_only() {
        let user = crate::strategy::User::default();
        let kind = crate::kinds::builtin()
            .kind("networking.k8s.io", "v1", "ServiceCIDR")
            .unwrap();
        let at = StrategyContext {
            kind,
            now: Time::from_unix(0, 0),
            user: &user,
        };
        let change = |before: &[&str], after: &[&str]| -> Vec<String> {
            let mut errors = ErrorList::new();
            let object = |cidrs: &[&str]| json!({"spec": {"cidrs": cidrs}});
            ServiceCidr.validate_update(&object(after), &object(before), &at, &mut errors);
            errors.iter().map(|error| error.field.clone()).collect()
        };
        assert_eq!(change(&["10.0.0.0/8"], &["10.0.0.0/8", "2001:db8::/64"]), [""; 0]);
        assert_eq!(change(&["10.0.0.0/8"], &["11.0.0.0/8"]), ["spec.cidrs[0]"]);
        assert_eq!(change(&["10.0.0.0/8"], &[]), ["spec.cidrs"]);
    }
}
