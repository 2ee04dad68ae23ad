//! ReplicaSet: a number of pods of one template.

use serde_json::Value;

use crate::{
    apply::managed::ResetFields,
    field::Path,
    kinds::{core::pod, counts, immutable, label_selector, pod_template, reset_fields},
    strategy::{self, Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut},
    time::Time,
};

pub(super) struct ReplicaSet;

// upstream: pkg/registry/apps/replicaset/strategy.go rsStrategy
impl RestStrategy for ReplicaSet {
    // upstream: pkg/apis/apps/v1/defaults.go SetDefaults_ReplicaSet
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        spec.set_default("replicas", 1);
        pod::set_defaults_pod_template(spec.ensure_object("template"));
    }

    // upstream: pkg/registry/apps/replicaset/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        pod_template::drop_disabled_template_fields(object, &Value::Null);
    }

    // upstream: pkg/registry/apps/replicaset/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        pod_template::drop_disabled_template_fields(new, old);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSet
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_replica_set_spec(object.at("spec"), None, errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_replica_set_spec(new.at("spec"), Some(old.at("spec")), errors);
        immutable::validate_immutable_selector(new.at("spec"), old.at("spec"), &Path::new("spec"), errors);
    }

    // upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = new.at("status");
        let at = Path::new("status");
        pod_template::validate_replica_counts(status, &at, errors);
    }

    // upstream: pkg/registry/apps/replicaset/strategy.go WarningsOnCreate, WarningsOnUpdate
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

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        pod_template::REPLICAS_COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printReplicaSet
    fn row(&self, object: &Value, now: Time) -> Row {
        pod_template::replicas_row(object, now, label_selector::format_label_selector)
    }
}

// upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetSpec
fn validate_replica_set_spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    counts::validate_nonnegative_fields(spec, &["replicas", "minReadySeconds"], &at, errors);
    pod_template::validate_selector_and_template(spec, old, &at, errors);
}
