//! ReplicationController: a number of pods of one template, selected by plain labels.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    apply::managed::ResetFields,
    field::{Error, ErrorKind, Path},
    kinds::{counts, label_selector, pod_template, reset_fields},
    selector::label,
    strategy::{
        self, Column, ErrorList, GarbageCollectionPolicy, RestStrategy, Row, SelectableField,
        StrategyContext, Tree, TreeMut,
    },
    time::Time,
};

use super::pod;

pub(super) struct ReplicationController;

/// Prefix of annotations for fields that an older server could not store.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

// upstream: pkg/registry/core/replicationcontroller/strategy.go rcStrategy
impl RestStrategy for ReplicationController {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_ReplicationController
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        let labels = spec.at("template").at("metadata").at("labels").clone();
        if !labels.is_null() && spec.entries("selector").is_empty() {
            spec.set("selector", labels.clone());
        }
        spec.set_default("replicas", 1);
        if let Some(template) = spec.at_mut("template").filter(|template| !template.is_null()) {
            pod::set_defaults_pod_template(template);
        }
        let metadata = object.ensure_object("metadata");
        if !labels.is_null() && metadata.entries("labels").is_empty() {
            metadata.set("labels", labels);
        }
    }

    // upstream: pkg/registry/core/replicationcontroller/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled_template_fields(object, &Value::Null);
    }

    // upstream: pkg/registry/core/replicationcontroller/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled_template_fields(new, old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateReplicationController
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        // upstream: pkg/registry/core/replicationcontroller/strategy.go Validate; the name is validated after the spec, and generateName is not
        let is_at = |error: &Error, field| error.kind == ErrorKind::Invalid && error.field == field;
        let is_name = |error: &Error| is_at(error, "metadata.name");
        let names: ErrorList = errors.iter().filter(|error| is_name(error)).cloned().collect();
        errors.retain(|error| !is_at(error, "metadata.generateName") && !is_name(error));
        let spec = object.at("spec");
        validate_controller_spec(spec, None, errors);
        errors.extend(names);
        validate_spec_counts(spec, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateReplicationControllerUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_controller_spec(new.at("spec"), Some(old.at("spec")), errors);
        for (key, value) in old.at("metadata").entries("annotations") {
            let Some((NON_CONVERTIBLE, field)) = key.split_once('/') else {
                continue;
            };
            let spec = new.at("spec");
            let before = old.at("spec");
            if !field.contains("selector") {
                errors.push(Error {
                    kind: ErrorKind::NotFound,
                    field: field.to_owned(),
                    value: value.into(),
                    detail: "unknown non-convertible field".to_owned(),
                });
            } else if spec.at("selector") != before.at("selector") {
                let field_path = Path::new("spec");
                let detail = "cannot update non-convertible selector";
                errors.push(Error::invalid(
                    &field_path.child("selector"),
                    spec.at("selector"),
                    detail,
                ));
            }
        }
        validate_spec_counts(new.at("spec"), errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateReplicationControllerStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        pod_template::validate_replica_counts(new.at("status"), &Path::new("status"), errors);
    }

    // upstream: pkg/registry/core/replicationcontroller/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            None => pod_template::warn_about_pod_name_prefix(new)
                .into_iter()
                .chain(pod_template::warnings(new, None))
                .collect(),
            // upstream: pkg/registry/core/replicationcontroller/strategy.go WarningsOnUpdate; it passes the old and new template in swapped order
            Some(old) => pod_template::warnings(old, Some(new)),
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [SelectableField] {
        const REPLICAS: SelectableField = SelectableField::rule("status.replicas", |object| {
            let replicas = object.at("status").int_or_zero("replicas");
            Cow::Owned(replicas.to_string())
        });
        const FIELDS: &[SelectableField] = &[REPLICAS];
        FIELDS
    }

    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::OrphanDependents
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        pod_template::REPLICAS_COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printReplicationController
    fn row(&self, object: &Value, now: Time) -> Row {
        pod_template::replicas_row(object, now, label_selector::format_labels)
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateReplicationControllerSpec
fn validate_controller_spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    if spec.entries("selector").is_empty() {
        errors.push(Error::required(&at.child("selector"), ""));
    }
    let template = spec.at("template");
    let field_path = at.child("template");
    if template.is_null() {
        errors.push(Error::required(&field_path, ""));
    } else {
        let selector = label::from_labels(spec.get("selector"));
        pod_template::validate_labels_match(&selector, template, &field_path, errors);
        pod::validate_pod_template_spec(
            template,
            &pod_template::template_validation_options(old),
            &field_path,
            errors,
        );
        pod_template::validate_restarted_always(template, "ReplicationController", &field_path, errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateReplicationControllerSpec
fn validate_spec_counts(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    counts::validate_nonnegative_fields(spec, &["replicas", "minReadySeconds"], &at, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{kinds::builtin, strategy::User};

    #[test]
    fn validates_the_name_after_the_spec() {
        let kind = builtin()
            .kind("", "v1", "ReplicationController")
            .expect("the kind is built in");
        let at = StrategyContext {
            kind,
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let metadata =
            json!({"generateName": "A", "name": "Abc", "namespace": "default", "labels": {"-": ""}});
        let mut object = json!({"metadata": metadata, "spec": {"replicas": -1}});
        let status = strategy::create(&mut object, &at).expect_err("it is invalid");
        let causes = status.details.expect("it has details").causes;
        let fields: Vec<_> = causes.into_iter().map(|cause| cause.field).collect();
        assert_eq!(
            fields,
            [
                "metadata.labels",
                "spec.selector",
                "spec.template",
                "metadata.name",
                "spec.replicas"
            ]
        );
    }
}
