//! Job: pods that run to completion.

mod indexes;
mod policy;
mod spec;
mod status;
mod update;

use std::borrow::Cow;

use k3_duration::human_duration;
use serde_json::{Value, json};

use crate::{
    apply::managed::ResetFields,
    field::{Error, Path},
    go,
    kinds::{condition_status, core::pod, label_selector, pod_template, reset_fields},
    name,
    selector::label::{self, InvalidValues},
    strategy::{
        self, Column, ErrorList, GarbageCollectionPolicy, RestStrategy, Row, SelectableField,
        StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

pub(super) use self::spec::validate_job_spec;

pub(super) struct Job;

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// Labels of the pods of a job and the metadata field that each carries. The first two are the legacy names without a domain.
const POD_LABELS: [(&str, &str); 4] = [
    ("controller-uid", "uid"),
    ("job-name", "name"),
    (UID_LABEL, "uid"),
    ("batch.kubernetes.io/job-name", "name"),
];

/// Above these, `completedIndexes` may grow too large to be tracked.
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_PARALLEL: i64 = 10_000;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Status", "Status of the job."),
    Column::field("Completions", "status.succeeded"),
    Column::text("Duration", "Time required to complete the job."),
    Column::age(),
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    Column::field("Selector", "spec.selector").wide(),
];

// upstream: pkg/registry/batch/job/strategy.go jobStrategy
impl RestStrategy for Job {
    // upstream: pkg/apis/batch/v1/defaults.go SetDefaults_Job
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        if !spec.has("parallelism") {
            spec.set_default("completions", 1);
        }
        spec.set_default("parallelism", 1);
        let limit = if spec.has("backoffLimitPerIndex") {
            i32::MAX
        } else {
            6
        };
        spec.set_default("backoffLimit", limit);
        let labels = spec.at("template").at("metadata").at("labels").clone();
        spec.set_default("completionMode", "NonIndexed");
        spec.set_default("suspend", false);
        let replacement = if spec.has("podFailurePolicy") {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        spec.set_default("podReplacementPolicy", replacement);
        spec.set_default("manualSelector", false);
        set_defaults_pod_failure_policy(spec);
        pod::set_defaults_pod_template(spec.ensure_object("template"));
        let metadata = object.ensure_object("metadata");
        if !labels.is_null() && metadata.entries("labels").is_empty() {
            metadata.set("labels", labels);
        }
    }

    // upstream: pkg/registry/batch/job/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        if !object.at("spec").flag("manualSelector") {
            generate_selector(object);
        }
        strategy::reset_status(object, at.kind);
        drop_disabled_fields(object.ensure_object("spec"), &Value::Null);
    }

    // upstream: pkg/registry/batch/job/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        drop_disabled_fields(new.ensure_object("spec"), old.at("spec"));
    }

    // upstream: pkg/apis/batch/validation/validation.go ValidateJobCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_generated_selector(object, errors);
        validate_job_spec_and_selector(object.at("spec"), None, errors);
        validate_name_allows_completions(object, errors);
    }

    // upstream: pkg/apis/batch/validation/validation.go ValidateJobUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_job_spec_and_selector(new.at("spec"), Some(old.at("spec")), errors);
        update::validate_job_spec_update(new, old, errors);
        validate_name_allows_completions(new, errors);
    }

    // upstream: pkg/apis/batch/validation/validation.go ValidateJobStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        status::validate_job_status_update(new, old, errors);
    }

    // upstream: pkg/registry/batch/job/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let generation = |object: &Value| object.at("metadata").int("generation");
        if old.is_some_and(|old| generation(old) == generation(new)) {
            return Vec::new();
        }
        let name = if old.is_none() {
            pod_template::warn_about_pod_name_prefix(new)
        } else {
            None
        };
        let before = old.map(|old| old.at("spec"));
        let others = spec_warnings(new.at("spec"), before, &Path::new("spec"));
        name.into_iter().chain(others).collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn unsupported_field_label(&self, field: &str) -> String {
        format!("field label {} not supported for Job", go::quote(field))
    }

    // upstream: pkg/registry/batch/job/strategy.go JobToSelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        const SUCCESSFUL: SelectableField = SelectableField::rule("status.successful", |object| {
            let succeeded = object.at("status").int_or_zero("succeeded");
            Cow::Owned(succeeded.to_string())
        });
        const FIELDS: &[SelectableField] = &[SUCCESSFUL];
        FIELDS
    }

    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::OrphanDependents
    }

    // upstream: pkg/registry/batch/job/storage/storage.go Delete, DeleteCollection
    fn unspecified_propagation_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
             or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printJob
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let succeeded = status.int_or_zero("succeeded");
        let completions = match (spec.int("completions"), spec.int("parallelism")) {
            (Some(completions), _) => format!("{succeeded}/{completions}"),
            (None, Some(at_once @ 2..)) => format!("{succeeded}/1 of {at_once}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let moment = |name: &str| Time::parse(status.text(name)).ok();
        let duration = moment("startTime").map(|start| {
            let end = moment("completionTime").unwrap_or(now);
            human_duration(end.since(start))
        });
        let cells = [
            json!(format_job_state(object)),
            json!(completions),
            json!(duration.unwrap_or_default()),
        ];
        let mut row = named_row(object, now, cells);
        row.cells
            .extend(pod_template::layout_container_cells(spec.at("template")));
        row.cells
            .push(label_selector::format_label_selector(spec.at("selector")));
        row
    }
}

/// Defaults the status of conditions in a podFailurePolicy.
// upstream: pkg/apis/batch/v1/defaults.go SetDefaults_PodFailurePolicyOnPodConditionsPattern
pub(super) fn set_defaults_pod_failure_policy(spec: &mut Value) {
    let Some(policy) = spec.at_mut("podFailurePolicy") else {
        return;
    };
    for rule in policy.items_mut("rules") {
        for pattern in rule.items_mut("onPodConditions") {
            if pattern.text("status").is_empty() {
                pattern.set("status", "True");
            }
        }
    }
}

/// Clears fields of disabled feature gates, unless the old spec has them.
// upstream: pkg/registry/batch/job/strategy.go PrepareForCreate, PrepareForUpdate
pub(super) fn drop_disabled_fields(spec: &mut Value, old: &Value) {
    if !old.has("scheduling") {
        spec.remove("scheduling");
    }
    if let Some(template) = spec.at_mut("template") {
        pod::drop_disabled_template_fields(template, old.at("template"));
    }
}

// upstream: pkg/api/job/warnings.go WarningsForJobSpec
pub(super) fn spec_warnings(spec: &Value, old: Option<&Value>, at: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if spec.text("completionMode") == "Indexed"
        && spec.int("completions") > Some(MANY_COMPLETIONS)
        && spec.int("parallelism") > Some(MANY_PARALLEL)
    {
        warnings.push(format!(
            "{at}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let before = old.map(|old| old.at("template"));
    warnings.extend(pod::get_warnings_for_pod_template(
        spec.at("template"),
        &at.child("template"),
        before,
    ));
    warnings
}

/// Labels the pods and selects them by the uid of the job, which is unique.
// upstream: pkg/registry/batch/job/strategy.go generateSelector
fn generate_selector(object: &mut Value) {
    let identity = object.at("metadata").clone();
    let spec = object.ensure_object("spec");
    let labels = spec
        .ensure_object("template")
        .ensure_object("metadata")
        .ensure_object("labels");
    for (label, field) in POD_LABELS {
        labels.set_default(label, identity.text(field));
    }
    let selector = spec.ensure_object("selector").ensure_object("matchLabels");
    selector.set_default(UID_LABEL, identity.text("uid"));
}

/// With a manual selector, labels set by the client must be those that would be generated.
// upstream: pkg/apis/batch/validation/validation.go validateGeneratedSelector
fn validate_generated_selector(object: &Value, errors: &mut ErrorList) {
    let spec = object.at("spec");
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let identity = object.at("metadata");
    let at = Path::new("metadata");
    if identity.text("uid").is_empty() {
        errors.push(Error::required(&at.child("uid"), ""));
    }
    let at = Path::new("spec");
    let template = at.child("template");
    let metadata = spec.at("template").at("metadata");
    let field_path = template.child("metadata");
    let field_path = field_path.child("labels");
    for (label, field) in POD_LABELS {
        let detail = || format!("must be '{}'", identity.text(field));
        match metadata.at("labels").at(label).as_str() {
            None => errors.push(Error::required(&field_path.key(label), detail())),
            Some(value) if value != identity.text(field) => {
                errors.push(Error::invalid(
                    &field_path.key(label),
                    metadata.at("labels"),
                    detail(),
                ));
            }
            Some(_) => {}
        }
    }
    if let Ok(selector) = label::from_object(spec.get("selector")) {
        let expected: serde_json::Map<String, Value> = POD_LABELS
            .iter()
            .map(|(label, field)| ((*label).to_owned(), json!(identity.text(field))))
            .collect();
        if !selector.matches(&expected) {
            let selector = label_selector::error_value(spec.at("selector"));
            errors.push(Error::invalid(
                &at.child("selector"),
                selector,
                "`selector` not auto-generated",
            ));
        }
    }
}

// upstream: pkg/apis/batch/validation/validation.go ValidateJobSpec
fn validate_job_spec_and_selector(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    validate_job_spec(spec, old, &at, errors);
    let values = old.map_or(InvalidValues::Refused, |old| {
        label_selector::tolerate_invalid_values_of(old.at("selector"))
    });
    let selector = spec.at("selector");
    let field_path = at.child("selector");
    if selector.is_null() {
        errors.push(Error::required(&field_path, ""));
    } else {
        label_selector::validate_label_selector(selector, values, &field_path, errors);
    }
    if let Ok(selector) = label::from_object(Some(selector)) {
        pod_template::validate_labels_match(&selector, spec.at("template"), &at.child("template"), errors);
    }
}

/// Pods of an Indexed job have the host name `<job>-<index>`, which must be a DNS label.
// upstream: pkg/apis/batch/validation/validation.go validateNameAllowsCompletions
fn validate_name_allows_completions(object: &Value, errors: &mut ErrorList) {
    let spec = object.at("spec");
    let Some(completions @ 1..) = spec.int("completions") else {
        return;
    };
    if spec.text("completionMode") != "Indexed" {
        return;
    }
    let name = object.at("metadata").text("name");
    let longest = format!("{name}-{}", completions - 1);
    if !name::validate_dns1123_label(&longest).is_empty() {
        let field_path = Path::new("metadata");
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.push(Error::invalid(&field_path.child("name"), name, detail));
    }
}

// upstream: pkg/printers/internalversion/printers.go printJob
fn format_job_state(object: &Value) -> &'static str {
    let conditions = object.at("status").items("conditions");
    let has = |kind: &str| condition_status::is_condition_true(conditions, kind);
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if object.at("metadata").has("deletionTimestamp") => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

#[cfg(test)]
mod tests;
