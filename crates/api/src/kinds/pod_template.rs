//! What kinds that make pods from a template share: the selector that must find those pods, pods that run for ever,
//! the columns that show their containers.

use serde_json::{Value, json};

use super::{
    core::pod::{self, Options},
    count, label_selector,
};
use crate::{
    field::{Error, Path, BadValue},
    go, name,
    strategy::{Column, Description, ErrorList, Row, Tree, TreeMut, named_row},
    selector::label::{InvalidValues, Selector},
    time::Time,
};

/// The columns with names and images of the containers.
pub(super) const CONTAINERS: Column =
    Column::text("Containers", "Names of each container in the template.").wide();
pub(super) const IMAGES: Column =
    Column::text("Images", "Images referenced by each container in the template.").wide();

/// The metadata of a template, in the order it is shown.
const METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// The columns of kinds that keep so many pods of a template.
pub(super) const REPLICAS: &[Column] = &[
    Column::name(),
    Column::new("Desired", "integer", Description::Field("spec.replicas")),
    Column::new("Current", "integer", Description::Field("status.replicas")),
    Column::new("Ready", "integer", Description::Field("status.readyReplicas")),
    Column::age(),
    CONTAINERS,
    IMAGES,
    Column::field("Selector", "spec.selector").wide(),
];

/// How labels are told that the selector does not find.
pub(super) const NOT_SELECTED: &str = "`selector` does not match template `labels`";

/// The cells with names and images of the containers of a template.
pub(super) fn cells(template: &Value) -> [Value; 2] {
    let containers = template.at("spec").items("containers");
    ["name", "image"].map(|field| {
        let texts: Vec<_> = containers.iter().map(|container| container.text(field)).collect();
        json!(texts.join(","))
    })
}

/// A row under [`REPLICAS`], with the selector as its kind shows it.
pub(super) fn replicas_row(object: &Value, now: Time, selector: fn(&Value) -> Value) -> Row {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let counts = [
        spec.int("replicas"),
        status.int("replicas"),
        status.int("readyReplicas"),
    ];
    let mut row = named_row(object, now, counts.map(|count| json!(count.unwrap_or_default())));
    row.cells.extend(cells(spec.at("template")));
    row.cells.push(selector(spec.at("selector")));
    row
}

/// Names of such objects begin the names of their pods, which should be host names.
pub(super) fn name_warning(object: &Value) -> Option<String> {
    let faults = name::validate_dns1123_label(object.at("metadata").text("name"));
    let faults: Vec<_> = faults.into_iter().map(Value::String).collect();
    (!faults.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: {}",
            go::plain_list(&faults)
        )
    })
}

/// Takes out of the template of an object what is not offered; `old` is `null` if it is new.
pub(super) fn drop_disabled(object: &mut Value, old: &Value) {
    if let Some(template) = object.ensure_object("spec").at_mut("template") {
        pod::drop_from_template(template, old.at("spec").at("template"));
    }
}

/// What to tell about the template of an object: always if it is new, else if it is of another generation.
pub(super) fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let generation = |object: &Value| object.at("metadata").int("generation");
    if old.is_some_and(|old| generation(old) == generation(new)) {
        return Vec::new();
    }
    let spec = Path::new("spec");
    let before = old.map(|old| old.at("spec").at("template"));
    pod::template_warnings(new.at("spec").at("template"), &spec.child("template"), before)
}

/// Which rules are relaxed for the template of a spec, by the old spec if there is one.
pub(super) fn options(old: Option<&Value>) -> Options {
    old.map_or_else(Options::default, |old| {
        Options::template_update(old.at("template"))
    })
}

/// What is wrong with a selector that must be there and must select something, strictly.
pub(super) fn required_selector(spec: &Value, empty: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let place = at.child("selector");
    let selector = spec.at("selector");
    if selector.is_null() {
        errors.push(Error::required(&place, ""));
        return;
    }
    label_selector::validate(selector, InvalidValues::Refused, &place, errors);
    if label_selector::is_empty(selector) {
        errors.push(Error::invalid(&place, label_selector::shown(selector), empty));
    }
}

/// The labels of the template must be those that the selector finds. The selector, if it is one.
pub(super) fn selected(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) -> Option<Selector> {
    let selector = Selector::from_object(spec.get("selector")).ok()?;
    if !selector.is_everything() {
        found(&selector, spec.at("template"), &at.child("template"), errors);
    }
    Some(selector)
}

/// The labels of a template must be those that a selector finds.
pub(super) fn found(selector: &Selector, template: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let metadata = template.at("metadata");
    if !selector.matches(metadata.entries("labels")) {
        let place = at.child("metadata");
        errors.push(Error::invalid(
            &place.child("labels"),
            metadata.at("labels"),
            NOT_SELECTED,
        ));
    }
}

/// Pods of a kind that keeps them running must always be restarted, and have no deadline.
pub(super) fn restarted_for_ever(template: &Value, kind: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let spec = template.at("spec");
    let place = at.child("spec");
    if spec.text("restartPolicy") != "Always" {
        errors.push(Error::not_supported(
            &place.child("restartPolicy"),
            spec.text("restartPolicy"),
            ["Always"],
        ));
    }
    if spec.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(Error::forbidden(&place.child("activeDeadlineSeconds"), detail));
    }
}

/// What is wrong with selector and template of a replica set or a deployment, which differ in nothing here.
pub(super) fn replicated(spec: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    required_selector(spec, "empty selector is invalid for deployment", at, errors);
    let (template, place) = (spec.at("template"), at.child("template"));
    if selected(spec, at, errors).is_some() {
        pod::validate_template_with(template, &options(old), &place, errors);
        restarted_for_ever(template, "ReplicaSet", &place, errors);
    } else {
        let shown = label_selector::shown(spec.at("selector"));
        errors.push(Error::invalid(
            &at.child("selector"),
            shown,
            "invalid label selector",
        ));
    }
}

/// A template as errors show it: what its metadata has, and everything of the pods.
pub(super) fn shown(template: &Value) -> BadValue {
    let metadata = template.at("metadata");
    let fields = METADATA.iter().filter(|name| metadata.has(name));
    let mut fields: Vec<_> = fields
        .map(|name| format!("\"{name}\":{}", go::json(metadata.at(name))))
        .collect();
    if let BadValue::Printed(spec) = pod::shown("PodSpec", template.at("spec")) {
        fields.push(format!("\"Spec\":{spec}"));
    }
    BadValue::Printed(format!("{{{}}}", fields.join(",")))
}

/// What is wrong with the counts of pods in the status of a replica set or a replication controller.
pub(super) fn replica_counts(status: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    count::nonnegative(status, &counts, at, errors);
    let all = "cannot be greater than status.replicas";
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    count::at_most(status, &parts, "replicas", all, at, errors);
    let ready = "cannot be greater than readyReplicas";
    count::at_most(status, &["availableReplicas"], "readyReplicas", ready, at, errors);
}
