//! Validation of updates of a Job status.
//!
//! Other controllers than the built-in one may manage jobs (managedBy, KEP-4368), so the status must keep what clients rely on.
//! A rule applies only if the values it is about have changed: an old status that violates it can still be written.

use std::collections::HashSet;

use serde_json::Value;

use super::indexes;
use crate::{
    field::{BadValue, Error, Path},
    kinds::{condition_status, counts, go_values, immutable::IMMUTABLE},
    strategy::{ErrorList, Tree},
    time::Time,
};

/// A job with its status and the conditions that are true.
#[expect(clippy::struct_excessive_bools, reason = "each is a condition of its own")]
struct JobView<'j> {
    spec: &'j Value,
    status: &'j Value,
    complete: bool,
    failed: bool,
    failure_target: bool,
    success_criteria_met: bool,
}

// upstream: pkg/apis/batch/validation/validation.go ValidateJobUpdateStatus, ValidateJobStatusUpdate
pub(super) fn validate_job_status_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let new = JobView::new(new);
    let old = JobView::new(old);
    let at = Path::new("status");
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    counts::validate_nonnegative_fields(new.status, &counts, &at, errors);
    validate_uncounted_pods(new.status, &at.child("uncountedTerminatedPods"), errors);
    validate_terminal_conditions(&new, &old, &at, errors);
    validate_finished(&new, &old, &at, errors);
    validate_indexes(&new, &old, &at, errors);
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    if new.finished() && (new.finished() != old.finished() || changed("terminating")) {
        require_zero(new.status, "terminating", &at, errors);
    }
    if (changed("ready") || changed("active"))
        && let Some(ready) = new.status.int("ready")
        && ready > new.status.int_or_zero("active")
    {
        let detail = "cannot set more ready pods than active";
        errors.push(Error::invalid(&at.child("ready"), ready, detail));
    }
    validate_success_criteria(&new, &at, errors);
    validate_no_regression(&new, &old, &at, errors);
}

// --- View ---

impl<'j> JobView<'j> {
    fn new(job: &'j Value) -> Self {
        let spec = job.at("spec");
        let status = job.at("status");
        let has = |kind: &str| condition_status::is_condition_true(status.items("conditions"), kind);
        JobView {
            spec,
            status,
            complete: has("Complete"),
            failed: has("Failed"),
            failure_target: has("FailureTarget"),
            success_criteria_met: has("SuccessCriteriaMet"),
        }
    }

    fn finished(&self) -> bool {
        self.complete || self.failed
    }

    fn is_indexed(&self) -> bool {
        self.spec.text("completionMode") == "Indexed"
    }
}

fn reject_conditions(detail: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("conditions");
    errors.push(Error::invalid(&field_path, BadValue::Omitted, detail));
}

fn require_zero(status: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(number @ 1..) = status.int(name) {
        let detail = format!("{name}>0 is invalid for finished job");
        errors.push(Error::invalid(&at.child(name), number, detail));
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateJobStatus
fn validate_uncounted_pods(status: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let pods = status.at("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for name in ["succeeded", "failed"] {
        let field_path = at.child(name);
        for (index, uid) in pods.texts(name).enumerate() {
            let field_path = field_path.index(index);
            if uid.is_empty() {
                errors.push(Error::invalid(&field_path, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(Error::duplicate(&field_path, uid));
            }
        }
    }
}

/// Terminal conditions exclude each other and require a completionTime or its absence.
// upstream: pkg/apis/batch/validation/validation.go validateJobStatus
fn validate_terminal_conditions(new: &JobView<'_>, old: &JobView<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let completed = new.complete != old.complete;
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    if new.complete && new.failed && (completed || new.failed != old.failed) {
        reject_conditions("cannot set Complete=True and Failed=true conditions", at, errors);
    }
    if new.complete && new.failure_target && (completed || new.failure_target != old.failure_target) {
        reject_conditions(
            "cannot set Complete=True and FailureTarget=true conditions",
            at,
            errors,
        );
    }
    let field_path = at.child("completionTime");
    let start = new.status.at("startTime");
    let end = new.status.at("completionTime");
    if completed || changed("completionTime") {
        if !end.is_null() && !new.complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.push(Error::invalid(&field_path, end, detail));
        }
        if end.is_null() && new.complete {
            errors.push(Error::required(
                &field_path,
                "completionTime is required for Complete jobs",
            ));
        }
    }
    let moment = |time: &Value| Time::parse(time.as_str()?).ok();
    if (changed("startTime") || changed("completionTime"))
        && let (Some(started), Some(ended)) = (moment(start), moment(end))
        && ended < started
    {
        errors.push(Error::invalid(
            &field_path,
            end,
            "must be equal to or after `startTime`",
        ));
    }
    if new.failed && !new.failure_target && (new.failed != old.failed || changed("failedIndexes")) {
        reject_conditions(
            "cannot set Failed=True condition without the FailureTarget=true condition",
            at,
            errors,
        );
    }
    if new.complete
        && !new.success_criteria_met
        && (completed || new.success_criteria_met != old.success_criteria_met)
    {
        reject_conditions(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            at,
            errors,
        );
    }
}

/// A finished job has a startTime and no active or uncounted pods.
// upstream: pkg/apis/batch/validation/validation.go validateJobStatus
fn validate_finished(new: &JobView<'_>, old: &JobView<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    if !new.finished() {
        return;
    }
    let finished = !old.finished();
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    if finished || changed("active") {
        require_zero(new.status, "active", at, errors);
    }
    let never_ran = new.spec.flag("suspend") && new.spec.int("completions") == Some(0);
    if (finished || changed("startTime")) && !never_ran && !new.status.has("startTime") {
        let detail = "startTime is required for finished job";
        errors.push(Error::required(&at.child("startTime"), detail));
    }
    let name = "uncountedTerminatedPods";
    let pods = new.status.at(name);
    if (finished || changed(name)) && !(pods.items("failed").is_empty() && pods.items("succeeded").is_empty())
    {
        let pods_value = go_values::internal_value("batch", "UncountedTerminatedPods", pods);
        errors.push(Error::invalid(
            &at.child(name),
            pods_value,
            "must be empty for finished job",
        ));
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateJobStatus
fn validate_indexes(new: &JobView<'_>, old: &JobView<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    let completed_changed = changed("completedIndexes");
    let failed_changed = changed("failedIndexes");
    let completed = new.status.text("completedIndexes");
    let failed = new.status.at("failedIndexes").as_str();
    let limit = new.spec.int("completions");
    let per_index = new.spec.has("backoffLimitPerIndex");
    let completed_at = at.child("completedIndexes");
    let failed_at = at.child("failedIndexes");
    if completed_changed
        && let Some(limit) = limit
        && let Err(msg) = indexes::count_indexes(completed, limit)
    {
        let detail = format!("error parsing completedIndexes: {msg}");
        errors.push(Error::invalid(&completed_at, completed, detail));
    }
    if failed_changed
        && per_index
        && let (Some(limit), Some(failed)) = (limit, failed)
        && let Err(msg) = indexes::count_indexes(failed, limit)
    {
        let detail = format!("error parsing failedIndexes: {msg}");
        errors.push(Error::invalid(&failed_at, failed, detail));
    }
    if completed_changed && !completed.is_empty() && !new.is_indexed() {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(Error::invalid(&completed_at, completed, detail));
    }
    if let Some(failed) = failed.filter(|_| failed_changed && !per_index) {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(Error::invalid(&failed_at, failed, detail));
    }
    if (failed_changed || completed_changed)
        && let (Some(limit), Some(failed)) = (limit, failed)
        && let Some(index) = indexes::first_common_index(completed, failed, limit)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(Error::invalid(&failed_at, failed, detail));
    }
}

/// SuccessCriteriaMet excludes failure. These rules apply to every update.
// upstream: pkg/apis/batch/validation/validation.go validateJobStatus
fn validate_success_criteria(new: &JobView<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    if new.success_criteria_met && new.failed {
        reject_conditions(
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
            at,
            errors,
        );
    }
    if new.success_criteria_met && new.failure_target {
        reject_conditions(
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            at,
            errors,
        );
    }
    if new.spec.has("successPolicy") && !new.success_criteria_met && new.complete {
        reject_conditions(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            at,
            errors,
        );
    }
}

/// Terminal conditions and counters are never taken back.
// upstream: pkg/apis/batch/validation/validation.go ValidateJobUpdateStatus
fn validate_no_regression(new: &JobView<'_>, old: &JobView<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    for (kind, before, now) in [
        ("Failed", old.failed, new.failed),
        ("Complete", old.complete, new.complete),
        ("FailureTarget", old.failure_target, new.failure_target),
    ] {
        if before && !now {
            reject_conditions(
                &format!("cannot disable the terminal {kind}=True condition"),
                at,
                errors,
            );
        }
    }
    // An elastic indexed job (completions equal parallelism) can be scaled down, and then drops indexes beyond.
    let scalable = new.is_indexed() && new.spec.at("completions") == new.spec.at("parallelism");
    for (name, applies) in [("failed", true), ("succeeded", !scalable)] {
        let count = |status: &Value| status.int_or_zero(name);
        let now = count(new.status);
        if applies && now < count(old.status) {
            let detail = format!("cannot decrease the {name} counter");
            errors.push(Error::invalid(&at.child(name), now, detail));
        }
    }
    let end = new.status.at("completionTime");
    let ended = old.status.at("completionTime");
    if !end.is_null() && !ended.is_null() && end != ended {
        errors.push(Error::invalid(&at.child("completionTime"), end, IMMUTABLE));
    }
    let start = new.status.at("startTime");
    let started = old.status.at("startTime");
    let resumes = condition_status::is_condition_true(old.status.items("conditions"), "Suspended")
        && condition_status::has_condition_status(new.status.items("conditions"), "Suspended", "False");
    if !started.is_null() && start != started && !resumes && !new.spec.flag("suspend") {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(Error::invalid(&at.child("startTime"), start, detail));
    }
    if old.success_criteria_met && !new.success_criteria_met {
        reject_conditions("cannot disable the SuccessCriteriaMet=True condition", at, errors);
    }
    if old.complete && !old.success_criteria_met && new.success_criteria_met {
        reject_conditions(
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            at,
            errors,
        );
    }
}
