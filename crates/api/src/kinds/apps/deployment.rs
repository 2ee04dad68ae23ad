//! Deployments: pods of one template, replaced a few at a time when it changes.

use serde_json::{Value, json};

use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    kinds::{core::pod, count, immutable, int_or_percent, pod_template, printed},
    strategy::{self, StrategyContext, Column, ErrorList, Row, RestStrategy, Tree, TreeMut, named_row},
    selector::label::Selector,
    time::Time,
};

/// The rules of deployments.
pub(super) struct Deployment;

/// An annotation that asks for an old revision; it was a field once, and is judged as one.
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

impl RestStrategy for Deployment {
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
        pod::default_template(spec.ensure_object("template"));
    }

    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled(object, &Value::Null);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled(new, old);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        new.ensure_object("metadata").copy_from("labels", old.at("metadata"));
    }

    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate(new, Some(old.at("spec")), errors);
        immutable::selector(new.at("spec"), old.at("spec"), &Path::new("spec"), errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let (status, at) = (new.at("status"), Path::new("status"));
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
        count::nonnegative(status, &counts, &at, errors);
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        count::at_most(
            status,
            &parts,
            "replicas",
            "cannot be greater than status.replicas",
            &at,
            errors,
        );
        count::at_most(
            status,
            &["availableReplicas"],
            "readyReplicas",
            "cannot be greater than readyReplicas",
            &at,
            errors,
        );
        count::collisions(status, old.at("status"), &at, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let name = if old.is_none() {
            pod_template::name_warning(new)
        } else {
            None
        };
        name.into_iter().chain(pod_template::warnings(new, old)).collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    /// Annotations count, because they are copied to the replica sets.
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

    fn row(&self, object: &Value, now: Time) -> Row {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let count = |tree: &Value, name: &str| tree.int(name).unwrap_or_default();
        let selector = match Selector::from_object(spec.get("selector")) {
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
        row.cells.extend(pod_template::cells(spec.at("template")));
        row.cells.push(json!(selector));
        row
    }
}

fn validate(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    count::nonnegative(spec, &["replicas"], &at, errors);
    pod_template::replicated(spec, old, &at, errors);
    strategy(spec.at("strategy"), &at.child("strategy"), errors);
    count::nonnegative(spec, &["minReadySeconds", "revisionHistoryLimit"], &at, errors);
    let rollback = object.at("metadata").at("annotations").text(ROLLBACK);
    if let Some(revision) = rollback.parse::<i64>().ok().filter(|revision| *revision < 0) {
        let place = at.child("rollback");
        errors.push(Error::invalid(
            &place.child("version"),
            revision,
            count::NOT_NEGATIVE,
        ));
    }
    count::nonnegative(spec, &["progressDeadlineSeconds"], &at, errors);
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.int("minReadySeconds").unwrap_or_default()
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(Error::invalid(
            &at.child("progressDeadlineSeconds"),
            deadline,
            detail,
        ));
    }
}

fn strategy(strategy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.at("rollingUpdate");
    let place = at.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(Error::forbidden(&place, detail));
        }
        "RollingUpdate" if rolling.is_null() => {
            errors.push(Error::required(
                &place,
                "this should be defaulted and never be nil",
            ));
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let unavailable_at = place.child("maxUnavailable");
            int_or_percent::positive(unavailable, &unavailable_at, errors);
            int_or_percent::positive(surge, &place.child("maxSurge"), errors);
            if int_or_percent::number(unavailable) == 0 && int_or_percent::number(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&unavailable_at, unavailable, detail));
            }
            int_or_percent::within_all(unavailable, &unavailable_at, errors);
        }
        _ => errors.push(Error::not_supported(
            at,
            printed::shown("apps", "DeploymentStrategy", strategy),
            ["Recreate", "RollingUpdate"],
        )),
    }
}
