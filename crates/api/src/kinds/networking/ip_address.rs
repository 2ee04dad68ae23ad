//! Addresses that are taken, each named like itself, and who has them.

use serde_json::{Value, json};

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{self, Rule},
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, named_row},
    time::Time,
};

/// The rules of addresses.
pub(super) struct IpAddress;

/// Rows end with the age, for which there is no column: clients are used to that.
const COLUMNS: &[Column] = &[Column::name(), Column::field("ParentRef", "spec.parentRef")];

impl Rules for IpAddress {
    fn names(&self) -> Rule {
        Rule::Address
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let parent = object.at("spec").at("parentRef");
        let at = spec.child("parentRef");
        if parent.is_null() {
            errors.push(Error::required(&at, ""));
            return;
        }
        validate_form(parent, &at, errors);
        field_checks::require_fields(parent, &["resource", "name"], &at, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, at: &Circumstances<'_>, errors: &mut Errors) {
        self.validate(new, at, errors);
        let spec = Path::new("spec");
        let after = new.way("spec.parentRef");
        let before = old.way("spec.parentRef");
        field_checks::validate_immutable_hiding_value(after, before, &spec.child("parentRef"), errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(owner(object.at("spec").at("parentRef")))])
    }
}

fn validate_form(parent: &Value, at: &Path<'_>, errors: &mut Errors) {
    let group = parent.text("group");
    if !group.is_empty() {
        field_checks::push_invalid(group, name::dns1123_subdomain(group), &at.child("group"), errors);
    }
    for field in ["resource", "name", "namespace"] {
        field_checks::validate_path_segment_name(parent, field, at, errors);
    }
}

/// `services/namespace/name`, with the group after the resource if there is one.
fn owner(parent: &Value) -> String {
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
    fn the_owner_is_shown_with_all_it_has() {
        assert_eq!(owner(&Value::Null), "<none>");
        let parent = json!({"group": "G.io", "resource": "Services", "namespace": "n", "name": "x"});
        assert_eq!(owner(&parent), "services.g.io/n/x");
        assert_eq!(owner(&json!({"resource": "nodes", "name": "x"})), "nodes/x");
    }

    #[test]
    fn what_must_be_there_is_told_after_what_is_malformed() {
        let mut errors = Errors::new();
        let parent = json!({"group": "-", "namespace": "a/b"});
        validate_form(&parent, &Path::new("p"), &mut errors);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["p.group", "p.namespace"]);
    }
}
