//! Pods: what is filled in, what may stand in them and change, and what a table shows.
//!
//! Workloads use what is public here for the templates of their pods.

mod affinity;
mod annotations;
mod container;
mod defaults;
pub(crate) mod disabled;
mod env;
mod equality;
mod handler;
mod host;
pub(crate) mod internal;
mod mount;
pub(crate) mod options;
mod overlap;
mod part;
mod port;
mod prepare;
mod profile;
mod qos;
mod report;
mod resize;
pub(crate) mod resources;
mod restart;
mod security;
mod spec;
mod spread;
mod status;
mod table;
pub(crate) mod template;
#[cfg(test)]
mod tests;
mod toleration;
mod update;
mod warnings;
mod whole;
mod windows;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use self::{
    defaults::default_template,
    disabled::drop_from_template,
    internal::shown,
    options::Options,
    resources::validate_overhead,
    template::{PodTemplate, validate_template_with},
    toleration::validate_added_tolerations,
    warnings::template_warnings,
};
use crate::{
    apply::{FieldSet, managed::Reset},
    rules::{Circumstances, Column, Errors, Grace, Row, Rules, Selectable, Tree},
    time::Time,
};

pub(crate) struct Pod;

// upstream: pkg/registry/core/pod/strategy.go podStrategy
impl Rules for Pod {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_Pod
    fn default(&self, object: &mut Value) {
        defaults::pod(object);
    }

    // upstream: pkg/registry/core/pod/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, at: &Circumstances<'_>) {
        prepare::create(object, at.now);
    }

    // upstream: pkg/registry/core/pod/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        prepare::update(new, old);
    }

    // upstream: pkg/registry/core/pod/strategy.go podStatusStrategy
    fn prepare_status(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        prepare::status(new, old);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodCreate
    fn validate(&self, object: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        spec::validate_new(object, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate
    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        update::validate(new, old, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate
    fn validate_status(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        status::validate(new, old, errors);
    }

    fn part(&self, subresource: &str) -> Option<&'static dyn Rules> {
        match subresource {
            "ephemeralcontainers" => Some(&part::EphemeralContainers),
            "resize" => Some(&part::Resize),
            _ => None,
        }
    }

    // upstream: pkg/registry/core/pod/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        // Pods change often, and mostly by programs.
        if old.is_some() {
            return Vec::new();
        }
        warnings::pod(new)
    }

    fn status_warnings(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings::addresses(new.at("status"))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, new: &Value, old: &Value) -> bool {
        !equality::same(new.at("spec"), old.at("spec"))
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        match subresource {
            "status" => Some(Reset::Fields(FieldSet::of_fields(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]))),
            other => self.part(other)?.reset(other),
        }
    }

    // upstream: pkg/registry/core/pod/strategy.go ToSelectableFields
    fn selectable(&self) -> &'static [Selectable] {
        SELECTABLE
    }

    fn grace(&self, object: &Value, asked: Option<i64>) -> Grace {
        let spec = object.at("spec");
        let status = object.at("status");
        // Nobody runs it, so nobody needs time to end it.
        if spec.text("nodeName").is_empty() || matches!(status.text("phase"), "Failed" | "Succeeded") {
            return Grace::Seconds(0);
        }
        let seconds = asked.or_else(|| spec.int("terminationGracePeriodSeconds"));
        Grace::Seconds(match seconds.unwrap_or_default() {
            seconds if seconds < 0 => 1,
            seconds => seconds,
        })
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPod
    fn row(&self, object: &Value, now: Time) -> Row {
        table::row(object, now)
    }

    fn row_reads(&self) -> Option<fn(&str) -> bool> {
        Some(table::reads)
    }
}

/// A field that is text.
macro_rules! text {
    ($field:literal, $part:literal, $name:literal) => {
        Selectable::rule($field, |pod| Cow::Borrowed(pod.at($part).text($name)))
    };
}

const SELECTABLE: &[Selectable] = &[
    text!("spec.nodeName", "spec", "nodeName"),
    // The old name of the same.
    text!("spec.host", "spec", "nodeName"),
    text!("spec.restartPolicy", "spec", "restartPolicy"),
    text!("spec.schedulerName", "spec", "schedulerName"),
    text!("spec.serviceAccountName", "spec", "serviceAccountName"),
    Selectable::rule("spec.hostNetwork", |pod| {
        Cow::Borrowed(if pod.at("spec").flag("hostNetwork") {
            "true"
        } else {
            "false"
        })
    }),
    text!("status.phase", "status", "phase"),
    Selectable::rule("status.podIP", |pod| {
        let addresses = pod.at("status").items("podIPs");
        Cow::Borrowed(addresses.first().map_or("", |address| address.text("ip")))
    }),
    // It can be asked for, but no pod has it.
    Selectable::rule("status.podIPs", |_| Cow::Borrowed("")),
    text!("status.nominatedNodeName", "status", "nominatedNodeName"),
];
