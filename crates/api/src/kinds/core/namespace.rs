//! Namespaces: what divides the objects of a cluster.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    kinds::{field_checks::push_invalid, go_values, reset_fields},
    name::{self, NameFormat},
    strategy::{
        Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut, named_row,
        standard_finalizer,
    },
    time::Time,
};

pub(super) struct Namespace;

/// The rules of the list of what must be done before a namespace goes.
struct Finalize;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const KUBERNETES: &str = "kubernetes";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Status", "The status of the namespace"),
    Column::age(),
];

const SELECTABLE: &[SelectableField] = &[SelectableField::rule("status.phase", |namespace| {
    Cow::Borrowed(namespace.at("status").text("phase"))
})];

// upstream: pkg/registry/core/namespace/strategy.go namespaceStrategy
impl RestStrategy for Namespace {
    fn name_format(&self) -> NameFormat {
        NameFormat::Label
    }

    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Namespace
    fn set_defaults(&self, object: &mut Value) {
        label_with_name(object);
        object.ensure_object("status").set_default("phase", "Active");
    }

    // upstream: pkg/registry/core/namespace/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        // The name may have been made after the defaults were set.
        label_with_name(object);
        object.set("status", json!({"phase": "Active"}));
        let spec = object.ensure_object("spec");
        let mut finalizers = spec.items("finalizers").to_vec();
        if !finalizers.iter().any(|name| name == KUBERNETES) {
            finalizers.push(json!(KUBERNETES));
            spec.set("finalizers", finalizers);
        }
    }

    // upstream: pkg/registry/core/namespace/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.ensure_object("spec").copy_from("finalizers", old.at("spec"));
        new.copy_from("status", old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateNamespace
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = Path::new("spec");
        let field_path = spec.child("finalizers");
        for name in object.at("spec").texts("finalizers") {
            finalizer(errors, &field_path, name);
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateNamespaceStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (phase, detail) = if new.at("metadata").has("deletionTimestamp") {
            (
                "Terminating",
                "may only be 'Terminating' if `deletionTimestamp` is not empty",
            )
        } else {
            ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
        };
        let found = new.at("status").text("phase");
        if found != phase {
            let status = Path::new("status");
            let shown = go_values::typed_string(found);
            errors.push(Error::invalid(&status.child("Phase"), shown, detail));
        }
    }

    fn subresource_strategy(&self, subresource: &str) -> Option<&'static dyn RestStrategy> {
        (subresource == "finalize").then_some(&Finalize as &'static dyn RestStrategy)
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    // upstream: pkg/registry/core/namespace/strategy.go NamespaceToSelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        SELECTABLE
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printNamespace
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.at("status").text("phase"))])
    }
}

impl RestStrategy for Finalize {
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("status", old);
    }

    fn validate_update(&self, new: &Value, _: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = Path::new("spec");
        let field_path = spec.child("finalizers");
        for (index, name) in new.at("spec").texts("finalizers").enumerate() {
            finalizer(errors, &field_path.index(index), name);
        }
    }

    fn reset_fields(&self, _: &str) -> Option<ResetFields> {
        Some(ResetFields::Fields(FieldSet::of_fields(&[&["status"]])))
    }
}

fn finalizer(errors: &mut ErrorList, at: &Path<'_>, name: &str) {
    push_invalid(name, name::validate_label_key(name), at, errors);
    standard_finalizer(name, at, errors);
}

fn label_with_name(namespace: &mut Value) {
    let metadata = namespace.ensure_object("metadata");
    let name = metadata.text("name").to_owned();
    if !name.is_empty() {
        metadata.ensure_object("labels").set(NAME_LABEL, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_carries_its_name_as_a_label() {
        let mut namespace = json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "b"}}});
        Namespace.set_defaults(&mut namespace);
        assert_eq!(namespace["metadata"]["labels"][NAME_LABEL], "a");
        assert_eq!(namespace["status"]["phase"], "Active");
        let mut nameless = json!({"metadata": {"generateName": "a-"}});
        Namespace.set_defaults(&mut nameless);
        assert!(!nameless.at("metadata").has("labels"));
    }

    #[test]
    fn rows_show_the_phase() {
        let namespace = json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}});
        let row = Namespace.row(&namespace, Time::from_unix(0, 0));
        assert_eq!(row.cells, [json!("a"), json!("Active"), json!("<unknown>")]);
    }
}
