//! DaemonSet: a pod of one template on every matching node.

use serde_json::{Value, json};

use crate::{
    apply::managed::ResetFields,
    field::{Error, Path},
    kinds::{
        core::pod, counts, go_values, immutable, int_or_string, label_selector, pod_template, reset_fields,
    },
    selector::label::{self, InvalidValues},
    strategy::{
        self, Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut,
        named_row,
    },
    time::Time,
};

pub(super) struct DaemonSet;

/// Counts the changes of the template. It was the field `spec.templateGeneration` of extensions/v1beta1, which v1 keeps as an
/// annotation.
// upstream: pkg/apis/apps/v1/conversion.go Convert_apps_DaemonSet_To_v1_DaemonSet
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new(
        "Desired",
        "integer",
        ColumnDescription::Field("status.desiredNumberScheduled"),
    ),
    Column::new(
        "Current",
        "integer",
        ColumnDescription::Field("status.currentNumberScheduled"),
    ),
    Column::new("Ready", "integer", ColumnDescription::Field("status.numberReady")),
    Column::new(
        "Up-to-date",
        "integer",
        ColumnDescription::Field("status.updatedNumberScheduled"),
    ),
    Column::new(
        "Available",
        "integer",
        ColumnDescription::Field("status.numberAvailable"),
    ),
    Column::field("Node Selector", "spec.template.spec.nodeSelector"),
    Column::age(),
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    Column::field("Selector", "spec.selector").wide(),
];

// upstream: pkg/registry/apps/daemonset/strategy.go daemonSetStrategy
impl RestStrategy for DaemonSet {
    // upstream: pkg/apis/apps/v1/defaults.go SetDefaults_DaemonSet
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        let strategy = spec.ensure_object("updateStrategy");
        if strategy.text("type").is_empty() {
            strategy.set("type", "RollingUpdate");
        }
        if strategy.text("type") == "RollingUpdate" {
            let rolling = strategy.ensure_object("rollingUpdate");
            rolling.set_default("maxUnavailable", 1);
            rolling.set_default("maxSurge", 0);
        }
        spec.set_default("revisionHistoryLimit", 10);
        pod::set_defaults_pod_template(spec.ensure_object("template"));
    }

    // upstream: pkg/registry/apps/daemonset/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled_template_fields(object, &Value::Null);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    // upstream: pkg/registry/apps/daemonset/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled_template_fields(new, old);
        let changed = new.at("spec").at("template") != old.at("spec").at("template");
        set_template_generation(new, template_generation(old) + i64::from(changed));
    }

    // upstream: pkg/registry/apps/daemonset/strategy.go daemonSetStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        set_template_generation(new, template_generation(old));
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateDaemonSet
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_daemon_set_spec(object.at("spec"), None, errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateDaemonSetUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = new.at("spec");
        let before = old.at("spec");
        immutable::validate_immutable_selector(spec, before, &Path::new("spec"), errors);
        validate_daemon_set_spec(spec, Some(before), errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateDaemonSetStatusUpdate
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
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        counts::validate_nonnegative_fields(status, &counts, &at, errors);
        counts::validate_collision_count(status, old.at("status"), &at, errors);
    }

    // upstream: pkg/registry/apps/daemonset/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(old) == template_generation(new)) {
            return Vec::new();
        }
        pod_template::warnings(new, old)
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

    // upstream: pkg/printers/internalversion/printers.go printDaemonSet
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let template = spec.at("template");
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        let counts = counts.map(|name| json!(status.int_or_zero(name)));
        let nodes = label_selector::format_labels(template.at("spec").at("nodeSelector"));
        let mut row = named_row(object, now, counts.into_iter().chain([nodes]));
        row.cells.extend(pod_template::layout_container_cells(template));
        row.cells
            .push(label_selector::format_label_selector(spec.at("selector")));
        row
    }
}

fn template_generation(object: &Value) -> i64 {
    let text = object.at("metadata").at("annotations").text(TEMPLATE_GENERATION);
    text.parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = object.ensure_object("metadata").ensure_object("annotations");
    annotations.set(TEMPLATE_GENERATION, generation.to_string());
}

// upstream: pkg/apis/apps/validation/validation.go ValidateDaemonSetSpec
fn validate_daemon_set_spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let values = old.map_or(InvalidValues::Refused, |old| {
        label_selector::tolerate_invalid_values_of(old.at("selector"))
    });
    let selector = spec.at("selector");
    let field_path = at.child("selector");
    label_selector::validate_label_selector(selector, values, &field_path, errors);
    let template = spec.at("template");
    let template_at = at.child("template");
    if let Ok(selector) = label::from_object(Some(selector)) {
        pod_template::validate_labels_match(&selector, template, &template_at, errors);
    }
    if !selector.is_null() && label_selector::is_empty(selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(Error::invalid(
            &field_path,
            label_selector::error_value(selector),
            detail,
        ));
    }
    pod::validate_pod_template_spec(
        template,
        &pod_template::template_validation_options(old),
        &template_at,
        errors,
    );
    pod_template::validate_restarted_always(template, "DaemonSet", &template_at, errors);
    counts::validate_nonnegative_fields(spec, &["minReadySeconds"], &at, errors);
    validate_daemon_set_update_strategy(spec.at("updateStrategy"), &at.child("updateStrategy"), errors);
    counts::validate_nonnegative_fields(spec, &["revisionHistoryLimit"], &at, errors);
}

// upstream: pkg/apis/apps/validation/validation.go ValidateDaemonSetUpdateStrategy, ValidateRollingUpdateDaemonSet
fn validate_daemon_set_update_strategy(strategy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.at("rollingUpdate");
    let field_path = at.child("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.push(Error::required(&field_path, "")),
        "RollingUpdate" => {
            let unavailable = rolling.at("maxUnavailable");
            let surge = rolling.at("maxSurge");
            let unavailable_at = field_path.child("maxUnavailable");
            let surge_at = field_path.child("maxSurge");
            int_or_string::validate_positive_int_or_percent(unavailable, &unavailable_at, errors);
            int_or_string::validate_positive_int_or_percent(surge, &surge_at, errors);
            int_or_string::validate_not_more_than_100_percent(unavailable, &unavailable_at, errors);
            int_or_string::validate_not_more_than_100_percent(surge, &surge_at, errors);
            match (
                int_or_string::get_int_or_percent_value(unavailable),
                int_or_string::get_int_or_percent_value(surge),
            ) {
                (0, 0) => errors.push(Error::required(&unavailable_at, "cannot be 0 when maxSurge is 0")),
                (0, _) | (_, 0) => {}
                _ => errors.push(Error::invalid(
                    &surge_at,
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                )),
            }
        }
        _ => errors.push(Error::not_supported(
            at,
            go_values::internal_value("apps", "DaemonSetUpdateStrategy", strategy),
            ["RollingUpdate", "OnDelete"],
        )),
    }
}
