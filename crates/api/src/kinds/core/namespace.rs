//! Namespaces: what divides the objects of a cluster.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    apply::{FieldSet, managed::Reset},
    field::{Error, Path},
    kinds::{field_checks::push_invalid, go_values, reset_fields},
    name::{self, Rule},
    rules::{
        Circumstances, Column, Errors, Row, Rules, Selectable, Tree, TreeMut, named_row, standard_finalizer,
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

const SELECTABLE: &[Selectable] = &[Selectable::rule("status.phase", |namespace| {
    Cow::Borrowed(namespace.at("status").text("phase"))
})];

// upstream: pkg/registry/core/namespace/strategy.go namespaceStrategy
impl Rules for Namespace {
    fn names(&self) -> Rule {
        Rule::Label
    }

    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Namespace
    fn default(&self, object: &mut Value) {
        label_with_name(object);
        object.make("status").fill("phase", "Active");
    }

    // upstream: pkg/registry/core/namespace/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, _: &Circumstances<'_>) {
        // The name may have been made after the defaults were set.
        label_with_name(object);
        object.set("status", json!({"phase": "Active"}));
        let spec = object.make("spec");
        let mut finalizers = spec.items("finalizers").to_vec();
        if !finalizers.iter().any(|name| name == KUBERNETES) {
            finalizers.push(json!(KUBERNETES));
            spec.set("finalizers", finalizers);
        }
    }

    // upstream: pkg/registry/core/namespace/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        new.make("spec").copy_from("finalizers", old.at("spec"));
        new.copy_from("status", old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateNamespace
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let field_path = spec.child("finalizers");
        for name in object.at("spec").texts("finalizers") {
            finalizer(errors, &field_path, name);
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateNamespaceStatusUpdate
    fn validate_status(&self, new: &Value, _: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
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

    fn part(&self, subresource: &str) -> Option<&'static dyn Rules> {
        (subresource == "finalize").then_some(&Finalize as &'static dyn Rules)
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    // upstream: pkg/registry/core/namespace/strategy.go NamespaceToSelectableFields
    fn selectable(&self) -> &'static [Selectable] {
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

impl Rules for Finalize {
    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        new.copy_from("status", old);
    }

    fn validate_update(&self, new: &Value, _: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let field_path = spec.child("finalizers");
        for (index, name) in new.at("spec").texts("finalizers").enumerate() {
            finalizer(errors, &field_path.index(index), name);
        }
    }

    fn reset(&self, _: &str) -> Option<Reset> {
        Some(Reset::Fields(FieldSet::of_fields(&[&["status"]])))
    }
}

fn finalizer(errors: &mut Errors, at: &Path<'_>, name: &str) {
    push_invalid(name, name::label_key(name), at, errors);
    standard_finalizer(name, at, errors);
}

fn label_with_name(namespace: &mut Value) {
    let metadata = namespace.make("metadata");
    let name = metadata.text("name").to_owned();
    if !name.is_empty() {
        metadata.make("labels").set(NAME_LABEL, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_carries_its_name_as_a_label() {
        let mut namespace = json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "b"}}});
        Namespace.default(&mut namespace);
        assert_eq!(namespace["metadata"]["labels"][NAME_LABEL], "a");
        assert_eq!(namespace["status"]["phase"], "Active");
        let mut nameless = json!({"metadata": {"generateName": "a-"}});
        Namespace.default(&mut nameless);
        assert!(!nameless.at("metadata").has("labels"));
    }

    #[test]
    fn rows_show_the_phase() {
        let namespace = json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}});
        let row = Namespace.row(&namespace, Time::from_unix(0, 0));
        assert_eq!(row.cells, [json!("a"), json!("Active"), json!("<unknown>")]);
    }
}
