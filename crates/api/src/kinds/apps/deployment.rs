//! Deployment: pods of one template, replaced by rolling updates.

use serde_json::{Value, json};

use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    kinds::{core::pod, counts, go_values, immutable, int_or_string, pod_template},
    selector::label,
    strategy::{self, Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct Deployment;

/// An annotation that asks for an old revision. It was the field `spec.rollbackTo` of extensions/v1beta1; its errors still name
/// a field.
// upstream: pkg/apis/apps/validation/validation.go ValidateRollback
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text("Ready", "Number of the pod with ready state"),
    Column::field("Up-to-date", "status.updatedReplicas"),
    Column::field("Available", "status.availableReplicas"),
    Column::age(),
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    Column::field("Selector", "spec.selector").wide(),
];

// upstream: pkg/registry/apps/deployment/strategy.go deploymentStrategy
impl RestStrategy for Deployment {
    // upstream: pkg/apis/apps/v1/defaults.go SetDefaults_Deployment
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        spec.set_default("replicas", 1);
        let strategy = spec.ensure_object("strategy");
        if strategy.text("type").is_empty() {
            strategy.set("type", "RollingUpdate");
        }
        if strategy.text("type") == "RollingUpdate" {
            let rolling = strategy.ensure_object("rollingUpdate");
            rolling.set_default("maxUnavailable", "25%");
            rolling.set_default("maxSurge", "25%");
        }
        spec.set_default("revisionHistoryLimit", 10);
        spec.set_default("progressDeadlineSeconds", 600);
        pod::set_defaults_pod_template(spec.ensure_object("template"));
    }

    // upstream: pkg/registry/apps/deployment/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled_template_fields(object, &Value::Null);
    }

    // upstream: pkg/registry/apps/deployment/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled_template_fields(new, old);
    }

    // upstream: pkg/registry/apps/deployment/strategy.go deploymentStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        new.ensure_object("metadata")
            .copy_from("labels", old.at("metadata"));
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateDeployment
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_deployment_spec(object, None, errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_deployment_spec(new, Some(old.at("spec")), errors);
        immutable::validate_immutable_selector(new.at("spec"), old.at("spec"), &Path::new("spec"), errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentStatusUpdate
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
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        counts::validate_nonnegative_fields(status, &counts, &at, errors);
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        counts::validate_not_greater_than(
            status,
            &parts,
            "replicas",
            "cannot be greater than status.replicas",
            &at,
            errors,
        );
        counts::validate_not_greater_than(
            status,
            &["availableReplicas"],
            "readyReplicas",
            "cannot be greater than readyReplicas",
            &at,
            errors,
        );
        counts::validate_collision_count(status, old.at("status"), &at, errors);
    }

    // upstream: pkg/registry/apps/deployment/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let name = if old.is_none() {
            pod_template::warn_about_pod_name_prefix(new)
        } else {
            None
        };
        name.into_iter().chain(pod_template::warnings(new, old)).collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    /// Annotations count, because the controller copies them to the ReplicaSets.
    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = |object: &Value| object.at("metadata").at("annotations").clone();
        new.at("spec") != old.at("spec") || annotations(new) != annotations(old)
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let fields: &[&[&str]] = &[&["spec"], &["metadata", "labels"]];
        (subresource == "status").then(|| ResetFields::Fields(FieldSet::of_fields(fields)))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printDeployment
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let count = |tree: &Value, name: &str| tree.int_or_zero(name);
        let selector = match label::from_object(spec.get("selector")) {
            Ok(selector) => selector.to_string(),
            Err(_) => "<invalid>".to_owned(),
        };
        let mut row = named_row(
            object,
            now,
            [
                json!(format!(
                    "{}/{}",
                    count(status, "readyReplicas"),
                    count(spec, "replicas")
                )),
                json!(count(status, "updatedReplicas")),
                json!(count(status, "availableReplicas")),
            ],
        );
        row.cells
            .extend(pod_template::layout_container_cells(spec.at("template")));
        row.cells.push(json!(selector));
        row
    }
}

// upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentSpec
fn validate_deployment_spec(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = object.at("spec");
    let at = Path::new("spec");
    counts::validate_nonnegative_fields(spec, &["replicas"], &at, errors);
    pod_template::validate_selector_and_template(spec, old, &at, errors);
    validate_deployment_strategy(spec.at("strategy"), &at.child("strategy"), errors);
    counts::validate_nonnegative_fields(spec, &["minReadySeconds", "revisionHistoryLimit"], &at, errors);
    let rollback = object.at("metadata").at("annotations").text(ROLLBACK);
    if let Some(revision) = rollback.parse::<i64>().ok().filter(|revision| *revision < 0) {
        // upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentSpec; the path is spec.rollback, not spec.rollbackTo
        let field_path = at.child("rollback");
        errors.push(Error::invalid(
            &field_path.child("version"),
            revision,
            counts::NOT_NEGATIVE,
        ));
    }
    counts::validate_nonnegative_fields(spec, &["progressDeadlineSeconds"], &at, errors);
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.int_or_zero("minReadySeconds")
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(Error::invalid(
            &at.child("progressDeadlineSeconds"),
            deadline,
            detail,
        ));
    }
}

// upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentStrategy, ValidateRollingUpdateDeployment
fn validate_deployment_strategy(strategy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.at("rollingUpdate");
    let field_path = at.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(Error::forbidden(&field_path, detail));
        }
        "RollingUpdate" if rolling.is_null() => {
            errors.push(Error::required(
                &field_path,
                "this should be defaulted and never be nil",
            ));
        }
        "RollingUpdate" => {
            let unavailable = rolling.at("maxUnavailable");
            let surge = rolling.at("maxSurge");
            let unavailable_at = field_path.child("maxUnavailable");
            int_or_string::validate_positive_int_or_percent(unavailable, &unavailable_at, errors);
            int_or_string::validate_positive_int_or_percent(surge, &field_path.child("maxSurge"), errors);
            if int_or_string::get_int_or_percent_value(unavailable) == 0
                && int_or_string::get_int_or_percent_value(surge) == 0
            {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&unavailable_at, unavailable, detail));
            }
            int_or_string::validate_not_more_than_100_percent(unavailable, &unavailable_at, errors);
        }
        _ => errors.push(Error::not_supported(
            at,
            go_values::internal_value("apps", "DeploymentStrategy", strategy),
            ["Recreate", "RollingUpdate"],
        )),
    }
}
