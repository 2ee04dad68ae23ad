//! Pods: strategy, defaulting, validation and table columns.
//!
//! Workloads use the public functions for their pod templates.

mod affinity;
mod annotations;
mod container;
mod defaults;
pub(crate) mod disabled;
mod env;
mod equality;
mod error_list;
mod handler;
mod host;
pub(crate) mod internal;
mod mount;
pub(crate) mod options;
mod overlap_warnings;
mod pod_level_resources;
mod port_warnings;
mod prepare;
mod profile;
mod qos;
mod resize;
pub(crate) mod resources;
mod restart;
mod security;
mod spec;
mod spread;
mod status;
mod subresources;
mod table;
pub(crate) mod template;
#[cfg(test)]
mod tests;
mod toleration;
mod update;
mod warnings;
mod windows;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use self::{
    defaults::set_defaults_pod_template,
    disabled::drop_disabled_template_fields,
    internal::internal_value,
    options::PodValidationOptions,
    resources::validate_overhead,
    template::{PodTemplate, validate_pod_template_spec},
    toleration::validate_runtime_class_tolerations,
    warnings::get_warnings_for_pod_template,
};
use crate::{
    apply::{FieldSet, managed::ResetFields},
    strategy::{
        Column, ErrorList, GracefulDeletion, RestStrategy, Row, SelectableField, StrategyContext, Tree,
    },
    time::Time,
};

pub(crate) struct Pod;

// upstream: pkg/registry/core/pod/strategy.go podStrategy
impl RestStrategy for Pod {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Pod
    fn set_defaults(&self, object: &mut Value) {
        defaults::set_defaults_pod(object);
    }

    // upstream: pkg/registry/core/pod/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        prepare::prepare_for_create(object, at.now);
    }

    // upstream: pkg/registry/core/pod/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        prepare::prepare_for_update(new, old);
    }

    // upstream: pkg/registry/core/pod/strategy.go podStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        prepare::prepare_status_for_update(new, old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodCreate
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        spec::validate_pod_create(object, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        update::validate_pod_update(new, old, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        status::validate_pod_status_update(new, old, errors);
    }

    fn subresource_strategy(&self, subresource: &str) -> Option<&'static dyn RestStrategy> {
        match subresource {
            "ephemeralcontainers" => Some(&subresources::EphemeralContainers),
            "resize" => Some(&subresources::Resize),
            _ => None,
        }
    }

    // upstream: pkg/registry/core/pod/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        // Pods are updated often, and mostly by programs.
        if old.is_some() {
            return Vec::new();
        }
        warnings::get_warnings_for_pod(new)
    }

    fn status_warnings(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings::get_warnings_for_pod_ips(new.at("status"))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        !equality::semantic_equal(new.at("spec"), old.at("spec"))
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        match subresource {
            "status" => Some(ResetFields::Fields(FieldSet::of_fields(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]))),
            other => self.subresource_strategy(other)?.reset_fields(other),
        }
    }

    // upstream: pkg/registry/core/pod/strategy.go ToSelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        SELECTABLE
    }

    // upstream: pkg/registry/core/pod/strategy.go CheckGracefulDelete
    fn check_graceful_delete(&self, object: &Value, asked: Option<i64>) -> GracefulDeletion {
        let spec = object.at("spec");
        let status = object.at("status");
        // No kubelet runs it, so no time is needed to stop it.
        if spec.text("nodeName").is_empty() || matches!(status.text("phase"), "Failed" | "Succeeded") {
            return GracefulDeletion::Seconds(0);
        }
        let seconds = asked.or_else(|| spec.int("terminationGracePeriodSeconds"));
        GracefulDeletion::Seconds(match seconds.unwrap_or_default() {
            seconds if seconds < 0 => 1,
            seconds => seconds,
        })
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPod
    fn row(&self, object: &Value, now: Time) -> Row {
        table::print_pod(object, now)
    }

    fn row_reads(&self) -> Option<fn(&str) -> bool> {
        Some(table::row_reads_field)
    }
}

/// A string field.
macro_rules! text {
    ($field:literal, $part:literal, $name:literal) => {
        SelectableField::rule($field, |pod| Cow::Borrowed(pod.at($part).text($name)))
    };
}

const SELECTABLE: &[SelectableField] = &[
    text!("spec.nodeName", "spec", "nodeName"),
    // The deprecated alias.
    text!("spec.host", "spec", "nodeName"),
    text!("spec.restartPolicy", "spec", "restartPolicy"),
    text!("spec.schedulerName", "spec", "schedulerName"),
    text!("spec.serviceAccountName", "spec", "serviceAccountName"),
    SelectableField::rule("spec.hostNetwork", |pod| {
        Cow::Borrowed(if pod.at("spec").flag("hostNetwork") {
            "true"
        } else {
            "false"
        })
    }),
    text!("status.phase", "status", "phase"),
    SelectableField::rule("status.podIP", |pod| {
        let addresses = pod.at("status").items("podIPs");
        Cow::Borrowed(addresses.first().map_or("", |address| address.text("ip")))
    }),
    // Upstream lists it, but no pod has it.
    SelectableField::rule("status.podIPs", |_| Cow::Borrowed("")),
    text!("status.nominatedNodeName", "status", "nominatedNodeName"),
];
