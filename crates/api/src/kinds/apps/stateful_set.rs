//! StatefulSet: pods of one template with stable names, order and volumes.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    apply::managed::ResetFields,
    field::{BadValue, Error, Path},
    kinds::{
        core::{persistent_volume_claim as claim, pod},
        counts, go_values, immutable, int_or_string, label_selector, pod_template, reset_fields,
    },
    name::{self, NameFormat},
    selector::label,
    strategy::{self, Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct StatefulSet;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Ready", "Number of the pod with ready state"),
    Column::age(),
    pod_template::CONTAINERS,
    pod_template::IMAGES,
];

/// What is validated. A stored set may have a template, claims or a service name that are invalid today, and can still be updated.
// upstream: pkg/apis/apps/validation/validation.go StatefulSetValidationOptions
#[derive(Clone, Copy)]
enum ValidatedSpec<'o> {
    Created,
    Updated { old: &'o Value, template: bool },
}

// upstream: pkg/registry/apps/statefulset/strategy.go statefulSetStrategy
impl RestStrategy for StatefulSet {
    fn name_format(&self) -> NameFormat {
        NameFormat::Label
    }

    // upstream: pkg/apis/apps/v1/defaults.go SetDefaults_StatefulSet
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        if spec.text("podManagementPolicy").is_empty() {
            spec.set("podManagementPolicy", "OrderedReady");
        }
        let strategy = spec.ensure_object("updateStrategy");
        if strategy.text("type").is_empty() {
            strategy.set("type", "RollingUpdate");
            strategy.ensure_object("rollingUpdate");
        }
        if strategy.text("type") == "RollingUpdate" && strategy.has("rollingUpdate") {
            let rolling = strategy.ensure_object("rollingUpdate");
            rolling.set_default("partition", 0);
            rolling.set_default("maxUnavailable", 1);
        }
        let retention = spec.ensure_object("persistentVolumeClaimRetentionPolicy");
        for name in ["whenDeleted", "whenScaled"] {
            if retention.text(name).is_empty() {
                retention.set(name, "Retain");
            }
        }
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        pod::set_defaults_pod_template(spec.ensure_object("template"));
        for claim in spec.items_mut("volumeClaimTemplates") {
            claim.set("kind", "PersistentVolumeClaim");
            claim.set("apiVersion", "v1");
            claim::default_claim(claim);
        }
    }

    // upstream: pkg/registry/apps/statefulset/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled_template_fields(object, &Value::Null);
    }

    // upstream: pkg/registry/apps/statefulset/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled_template_fields(new, old);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSet
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_stateful_set_spec(object.at("spec"), ValidatedSpec::Created, errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSetUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = new.at("spec");
        let before = old.at("spec");
        let mut old_errors = ErrorList::new();
        let validated = |template: bool| ValidatedSpec::Updated {
            old: before,
            template,
        };
        validate_stateful_set_spec(before, validated(true), &mut old_errors);
        validate_stateful_set_spec(spec, validated(old_errors.is_empty()), errors);
        let at = Path::new("spec");
        immutable::validate_immutable_selector(spec, before, &at, errors);
        if spec.at("volumeClaimTemplates") != before.at("volumeClaimTemplates") {
            let claims = spec.items("volumeClaimTemplates");
            let value = BadValue::Json(Value::Array(claims.to_vec()));
            let field_path = at.child("volumeClaimTemplates");
            errors.push(Error::invalid(&field_path, value, immutable::IMMUTABLE));
        }
        for name in ["serviceName", "podManagementPolicy"] {
            if spec.text(name) != before.text(name) {
                let value = spec.text(name);
                errors.push(Error::invalid(&at.child(name), value, immutable::IMMUTABLE));
            }
        }
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSetStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = new.at("status");
        let at = Path::new("status");
        let counts = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        counts::validate_nonnegative_fields(status, &counts, &at, errors);
        let all = "cannot be greater than status.replicas";
        counts::validate_not_greater_than(status, &counts[1..5], "replicas", all, &at, errors);
        let ready = "cannot be greater than status.readyReplicas";
        counts::validate_not_greater_than(
            status,
            &["availableReplicas"],
            "readyReplicas",
            ready,
            &at,
            errors,
        );
        counts::validate_collision_count(status, old.at("status"), &at, errors);
    }

    // upstream: pkg/registry/apps/statefulset/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_template::warnings(new, old);
        let spec = new.at("spec");
        let at = Path::new("spec");
        let claims = at.child("volumeClaimTemplates");
        for (index, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            let field_path = claims.index(index);
            // upstream: pkg/registry/apps/statefulset/strategy.go WarningsOnUpdate; on update the path has "Spec" with a capital
            let changed_at = field_path.child("Spec");
            let field_path = if old.is_none() { &field_path } else { &changed_at };
            claim::spec_warnings(claim.at("spec"), field_path, &mut warnings);
        }
        if spec.int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                recommended";
            warnings.push(text.to_owned());
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printStatefulSet
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let count = |tree: &Value, name: &str| tree.int_or_zero(name);
        let ready = format!("{}/{}", count(status, "readyReplicas"), count(spec, "replicas"));
        let mut row = named_row(object, now, [json!(ready)]);
        row.cells
            .extend(pod_template::layout_container_cells(spec.at("template")));
        row
    }
}

// upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec
fn validate_stateful_set_spec(spec: &Value, validated: ValidatedSpec<'_>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let field_path = at.child("podManagementPolicy");
    match spec.text("podManagementPolicy") {
        "" => errors.push(Error::required(&field_path, "")),
        "OrderedReady" | "Parallel" => {}
        other => errors.push(Error::invalid(
            &field_path,
            other,
            "must be 'OrderedReady' or 'Parallel'",
        )),
    }
    validate_update_strategy(spec.at("updateStrategy"), &at.child("updateStrategy"), errors);
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    let field_path = at.child("persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"] {
        let policy = retention.text(name);
        if !retention.is_null() && !matches!(policy, "Retain" | "Delete") {
            errors.push(Error::not_supported(
                &field_path.child(name),
                policy,
                ["Retain", "Delete"],
            ));
        }
    }
    let new = matches!(validated, ValidatedSpec::Created);
    if new {
        let field_path = at.child("volumeClaimTemplates");
        for (index, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            let field_path = field_path.index(index);
            let options = claim::ClaimSpecValidationOptions::default();
            claim::validate_claim_spec(claim.at("spec"), options, &field_path.child("spec"), errors);
        }
    }
    counts::validate_nonnegative_fields(spec, &["replicas", "minReadySeconds"], &at, errors);
    if let Some(start) = spec.at("ordinals").int("start").filter(|start| *start < 0) {
        errors.push(Error::invalid(
            &at.child("ordinals.start"),
            start,
            counts::NOT_NEGATIVE,
        ));
    }
    let service = spec.text("serviceName");
    if new && !service.is_empty() {
        let field_path = at.child("serviceName");
        let msgs = name::validate_dns1123_label(service).into_iter();
        errors.extend(msgs.map(|msg| Error::invalid(&field_path, service, msg)));
    }
    validate_template(spec, validated, &at, errors);
}

// upstream: pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec, validateRollingUpdateStatefulSet
fn validate_update_strategy(strategy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.at("rollingUpdate");
    let field_path = at.child("rollingUpdate");
    match strategy.text("type") {
        "" => errors.push(Error::required(at, "")),
        "OnDelete" if rolling.is_null() => {}
        "OnDelete" => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(
                &field_path,
                go_values::internal_value("apps", "RollingUpdateStatefulSetStrategy", rolling),
                detail,
            ));
        }
        "RollingUpdate" => {
            counts::validate_nonnegative_fields(rolling, &["partition"], &field_path, errors);
            let unavailable = rolling.at("maxUnavailable");
            let field_path = field_path.child("maxUnavailable");
            if !unavailable.is_null() {
                int_or_string::validate_positive_int_or_percent(unavailable, &field_path, errors);
                if int_or_string::get_int_or_percent_value(unavailable) == 0 {
                    errors.push(Error::invalid(&field_path, unavailable, "cannot be 0"));
                }
                int_or_string::validate_not_more_than_100_percent(unavailable, &field_path, errors);
            }
        }
        _ => errors.push(Error::invalid(
            at,
            go_values::internal_value("apps", "StatefulSetUpdateStrategy", strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
}

// upstream: pkg/apis/apps/validation/validation.go ValidatePodTemplateSpecForStatefulSet
fn validate_template(spec: &Value, validated: ValidatedSpec<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    pod_template::validate_required_selector(spec, "empty selector is invalid for statefulset", at, errors);
    let template = spec.at("template");
    let field_path = at.child("template");
    if let Ok(selector) = label::from_object(spec.get("selector")) {
        if !selector.is_empty() {
            pod_template::validate_labels_match(&selector, template, &field_path, errors);
        }
        let (old, validates_template) = match validated {
            ValidatedSpec::Created => (None, true),
            ValidatedSpec::Updated { old, template } => (Some(old), template),
        };
        if validates_template {
            let options = pod_template::template_validation_options(old);
            let completed = template_with_claim_volumes(spec);
            let template = completed.as_ref().unwrap_or(template);
            pod::validate_pod_template_spec(template, &options, &field_path, errors);
        }
        let metadata = template.at("metadata");
        errors.extend(name::validate_labels(
            &field_path.child("labels"),
            metadata.entries("labels"),
        ));
        errors.extend(name::validate_annotations(
            &field_path.child("annotations"),
            metadata.entries("annotations"),
        ));
    } else {
        let selector = label_selector::error_value(spec.at("selector"));
        errors.push(Error::invalid(&at.child("selector"), selector, ""));
    }
    pod_template::validate_restarted_always(template, "StatefulSet", &field_path, errors);
}

/// The template as validated: with the volumes of the claim templates and without host name and subdomain, which the controller
/// sets per pod. `None` if it is the template as it is.
// upstream: pkg/apis/apps/validation/validation.go volumesToAddForTemplates
fn template_with_claim_volumes(spec: &Value) -> Option<Value> {
    let claims = spec.items("volumeClaimTemplates");
    let pod = spec.at("template").at("spec");
    if claims.is_empty() && !pod.has("hostname") && !pod.has("subdomain") {
        return None;
    }
    let mut template = spec.at("template").clone();
    let pod = template.ensure_object("spec");
    pod.remove("hostname");
    pod.remove("subdomain");
    if !claims.is_empty() {
        let name = |claim: &Value| claim.at("metadata").text("name").to_owned();
        let mut volumes: Vec<Value> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        for name in claims.iter().map(name) {
            if names.insert(name.clone()) {
                volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            }
        }
        let others = pod.items("volumes").iter();
        let others: Vec<_> = others
            .filter(|volume| !names.contains(volume.text("name")))
            .cloned()
            .collect();
        volumes.extend(others);
        pod.set("volumes", volumes);
    }
    Some(template)
}
