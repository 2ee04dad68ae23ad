//! Replication controllers: so many pods of one template, found by plain labels.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    apply::managed::Reset,
    field::{Error, ErrorKind, Path},
    kinds::{count, label_selector, pod_template, reset},
    rules::{self, Circumstances, Column, Dependents, Errors, Row, Rules, Selectable, Tree, TreeMut},
    selector::label::Selector,
    time::Time,
};

use super::pod;

/// The rules of replication controllers.
pub(super) struct ReplicationController;

/// Begins the annotations that name what an older server could not keep.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

impl Rules for ReplicationController {
    fn default(&self, object: &mut Value) {
        let spec = object.make("spec");
        let labels = spec.at("template").at("metadata").at("labels").clone();
        if !labels.is_null() && spec.entries("selector").is_empty() {
            spec.set("selector", labels.clone());
        }
        spec.fill("replicas", 1);
        if let Some(template) = spec.at_mut("template").filter(|template| !template.is_null()) {
            pod::default_template(template);
        }
        let metadata = object.make("metadata");
        if !labels.is_null() && metadata.entries("labels").is_empty() {
            metadata.set("labels", labels);
        }
    }

    fn prepare_create(&self, object: &mut Value, at: &Circumstances<'_>) {
        rules::reset_status(object, at.kind);
        pod_template::drop_disabled(object, &Value::Null);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, at: &Circumstances<'_>) {
        rules::keep_status(new, old, at.kind);
        pod_template::drop_disabled(new, old);
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object.at("spec"), None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(new.at("spec"), Some(old.at("spec")), errors);
        for (key, value) in old.at("metadata").entries("annotations") {
            let Some((NON_CONVERTIBLE, field)) = key.split_once('/') else {
                continue;
            };
            let (spec, before) = (new.at("spec"), old.at("spec"));
            if !field.contains("selector") {
                errors.push(Error {
                    kind: ErrorKind::NotFound,
                    field: field.to_owned(),
                    value: value.into(),
                    detail: "unknown non-convertible field".to_owned(),
                });
            } else if spec.at("selector") != before.at("selector") {
                let place = Path::new("spec");
                let detail = "cannot update non-convertible selector";
                errors.push(Error::invalid(
                    &place.child("selector"),
                    spec.at("selector"),
                    detail,
                ));
            }
        }
    }

    fn validate_status(&self, new: &Value, _: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        pod_template::replica_counts(new.at("status"), &Path::new("status"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            None => pod_template::name_warning(new)
                .into_iter()
                .chain(pod_template::warnings(new, None))
                .collect(),
            // Clients are told about the old template here, compared with the new one.
            Some(old) => pod_template::warnings(old, Some(new)),
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn selectable(&self) -> &'static [Selectable] {
        const REPLICAS: Selectable = Selectable::rule("status.replicas", |object| {
            let replicas = object.at("status").int("replicas").unwrap_or_default();
            Cow::Owned(replicas.to_string())
        });
        const FIELDS: &[Selectable] = &[REPLICAS];
        FIELDS
    }

    fn dependents(&self) -> Dependents {
        Dependents::Orphan
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        reset::spec(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        pod_template::REPLICAS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        pod_template::replicas_row(object, now, label_selector::labels_cell)
    }
}

fn validate(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = Path::new("spec");
    if spec.entries("selector").is_empty() {
        errors.push(Error::required(&at.child("selector"), ""));
    }
    let (template, place) = (spec.at("template"), at.child("template"));
    if template.is_null() {
        errors.push(Error::required(&place, ""));
    } else {
        let selector = Selector::from_labels(spec.get("selector"));
        pod_template::found(&selector, template, &place, errors);
        pod::validate_template_with(template, &pod_template::options(old), &place, errors);
        pod_template::restarted_for_ever(template, "ReplicationController", &place, errors);
    }
    count::nonnegative(spec, &["replicas", "minReadySeconds"], &at, errors);
}
