//! IPAddress: a cluster IP in use, named by the address, and the object that uses it (KEP-1880).

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{self, NameFormat},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

pub(super) struct IpAddress;

/// Rows end with the age, although there is no column for it.
// upstream: pkg/printers/internalversion/printers.go printIPAddress; the column definitions lack the age cell
const COLUMNS: &[Column] = &[Column::name(), Column::field("ParentRef", "spec.parentRef")];

// upstream: pkg/registry/networking/ipaddress/strategy.go ipAddressStrategy
impl RestStrategy for IpAddress {
    fn name_format(&self) -> NameFormat {
        NameFormat::Address
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateIPAddress
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = Path::new("spec");
        let parent = object.at("spec").at("parentRef");
        let at = spec.child("parentRef");
        if parent.is_null() {
            errors.push(Error::required(&at, ""));
            return;
        }
        validate_parent_reference(parent, &at, errors);
        field_checks::require_fields(parent, &["resource", "name"], &at, errors);
    }

    // upstream: pkg/apis/networking/validation/validation.go ValidateIPAddressUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate(new, at, errors);
        let spec = Path::new("spec");
        let after = new.at_path("spec.parentRef");
        let before = old.at_path("spec.parentRef");
        field_checks::validate_immutable_hiding_value(after, before, &spec.child("parentRef"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printIPAddress
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(
            object,
            now,
            [json!(format_parent_ref(object.at("spec").at("parentRef")))],
        )
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateIPAddressParentReference
fn validate_parent_reference(parent: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let group = parent.text("group");
    if !group.is_empty() {
        field_checks::push_invalid(
            group,
            name::validate_dns1123_subdomain(group),
            &at.child("group"),
            errors,
        );
    }
    for field in ["resource", "name", "namespace"] {
        field_checks::validate_path_segment_name(parent, field, at, errors);
    }
}

/// `<resource>[.<group>]/<namespace>/<name>` of the parent reference.
fn format_parent_ref(parent: &Value) -> String {
    if parent.is_null() {
        return "<none>".to_owned();
    }
    let mut owner = parent.text("resource").to_lowercase();
    for (mark, field) in [('.', "group"), ('/', "namespace")] {
        let value = parent.text(field);
        if !value.is_empty() {
            owner.push(mark);
            owner.push_str(&if field == "group" {
                value.to_lowercase()
            } else {
                value.to_owned()
            });
        }
    }
    format!("{owner}/{}", parent.text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_shows_the_parent_reference() {
        assert_eq!(format_parent_ref(&Value::Null), "<none>");
        let parent = json!({"group": "G.io", "resource": "Services", "namespace": "n", "name": "x"});
        assert_eq!(format_parent_ref(&parent), "services.g.io/n/x");
        assert_eq!(
            format_parent_ref(&json!({"resource": "nodes", "name": "x"})),
            "nodes/x"
        );
    }

    #[test]
    fn reports_missing_fields_after_malformed_ones() {
        let mut errors = ErrorList::new();
        let parent = json!({"group": "-", "namespace": "a/b"});
        validate_parent_reference(&parent, &Path::new("p"), &mut errors);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["p.group", "p.namespace"]);
    }
}
