//! What is wrong with a change of the status of a job.
//!
//! Other controllers than the built-in one may manage jobs, so their status is held to what clients rely on. A rule is
//! asked only if what it is about has changed: an old status that breaks it can still be written.

use std::collections::HashSet;

use serde_json::Value;

use super::indexes;
use crate::{
    field::{Error, Path, Shown},
    kinds::{condition_status, counts, go_values, immutable::IMMUTABLE},
    rules::{Errors, Tree},
    time::Time,
};

/// A job, its status, and what it says of itself.
#[expect(clippy::struct_excessive_bools, reason = "each is a condition of its own")]
struct View<'j> {
    spec: &'j Value,
    status: &'j Value,
    complete: bool,
    failed: bool,
    fails: bool,
    succeeds: bool,
}

/// What is wrong with a change of the status.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let new = View::new(new);
    let old = View::new(old);
    let at = Path::new("status");
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    counts::validate_nonnegative_fields(new.status, &counts, &at, errors);
    uncounted(new.status, &at.child("uncountedTerminatedPods"), errors);
    ends(&new, &old, &at, errors);
    finished(&new, &old, &at, errors);
    indexed(&new, &old, &at, errors);
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    if new.finished() && (new.finished() != old.finished() || changed("terminating")) {
        zero(new.status, "terminating", &at, errors);
    }
    if (changed("ready") || changed("active"))
        && let Some(ready) = new.status.int("ready")
        && ready > new.status.int("active").unwrap_or_default()
    {
        let detail = "cannot set more ready pods than active";
        errors.push(Error::invalid(&at.child("ready"), ready, detail));
    }
    success(&new, &at, errors);
    onwards(&new, &old, &at, errors);
}

// --- View ---

impl<'j> View<'j> {
    fn new(job: &'j Value) -> Self {
        let spec = job.at("spec");
        let status = job.at("status");
        let has = |kind: &str| condition_status::is_condition_true(status.items("conditions"), kind);
        View {
            spec,
            status,
            complete: has("Complete"),
            failed: has("Failed"),
            fails: has("FailureTarget"),
            succeeds: has("SuccessCriteriaMet"),
        }
    }

    fn finished(&self) -> bool {
        self.complete || self.failed
    }

    fn is_indexed(&self) -> bool {
        self.spec.text("completionMode") == "Indexed"
    }
}

fn conditions(detail: &str, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("conditions");
    errors.push(Error::invalid(&field_path, Shown::Omitted, detail));
}

fn zero(status: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(number @ 1..) = status.int(name) {
        let detail = format!("{name}>0 is invalid for finished job");
        errors.push(Error::invalid(&at.child(name), number, detail));
    }
}

fn uncounted(status: &Value, at: &Path<'_>, errors: &mut Errors) {
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

/// A job ends in one way, and says when.
fn ends(new: &View<'_>, old: &View<'_>, at: &Path<'_>, errors: &mut Errors) {
    let completed = new.complete != old.complete;
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    if new.complete && new.failed && (completed || new.failed != old.failed) {
        conditions("cannot set Complete=True and Failed=true conditions", at, errors);
    }
    if new.complete && new.fails && (completed || new.fails != old.fails) {
        conditions(
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
    if new.failed && !new.fails && (new.failed != old.failed || changed("failedIndexes")) {
        conditions(
            "cannot set Failed=True condition without the FailureTarget=true condition",
            at,
            errors,
        );
    }
    if new.complete && !new.succeeds && (completed || new.succeeds != old.succeeds) {
        conditions(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            at,
            errors,
        );
    }
}

/// A job that is finished has begun, and has no pods any more.
fn finished(new: &View<'_>, old: &View<'_>, at: &Path<'_>, errors: &mut Errors) {
    if !new.finished() {
        return;
    }
    let finished = !old.finished();
    let changed = |name: &str| new.status.at(name) != old.status.at(name);
    if finished || changed("active") {
        zero(new.status, "active", at, errors);
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
        let shown = go_values::internal_value("batch", "UncountedTerminatedPods", pods);
        errors.push(Error::invalid(
            &at.child(name),
            shown,
            "must be empty for finished job",
        ));
    }
}

fn indexed(new: &View<'_>, old: &View<'_>, at: &Path<'_>, errors: &mut Errors) {
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
        && let Err(msg) = indexes::count(completed, limit)
    {
        let detail = format!("error parsing completedIndexes: {msg}");
        errors.push(Error::invalid(&completed_at, completed, detail));
    }
    if failed_changed
        && per_index
        && let (Some(limit), Some(failed)) = (limit, failed)
        && let Err(msg) = indexes::count(failed, limit)
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
        && let Some(index) = indexes::overlap(completed, failed, limit)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(Error::invalid(&failed_at, failed, detail));
    }
}

/// A job that is said to succeed cannot fail. These rules have always been asked.
fn success(new: &View<'_>, at: &Path<'_>, errors: &mut Errors) {
    if new.succeeds && new.failed {
        conditions(
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
            at,
            errors,
        );
    }
    if new.succeeds && new.fails {
        conditions(
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            at,
            errors,
        );
    }
    if new.spec.has("successPolicy") && !new.succeeds && new.complete {
        conditions(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            at,
            errors,
        );
    }
}

/// What has been reached is not given up.
fn onwards(new: &View<'_>, old: &View<'_>, at: &Path<'_>, errors: &mut Errors) {
    for (kind, before, now) in [
        ("Failed", old.failed, new.failed),
        ("Complete", old.complete, new.complete),
        ("FailureTarget", old.fails, new.fails),
    ] {
        if before && !now {
            conditions(
                &format!("cannot disable the terminal {kind}=True condition"),
                at,
                errors,
            );
        }
    }
    // An indexed job with as many pods at once as completions can be scaled down, and forgets what is beyond.
    let scalable = new.is_indexed() && new.spec.at("completions") == new.spec.at("parallelism");
    for (name, asked) in [("failed", true), ("succeeded", !scalable)] {
        let count = |status: &Value| status.int(name).unwrap_or_default();
        let now = count(new.status);
        if asked && now < count(old.status) {
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
    if old.succeeds && !new.succeeds {
        conditions("cannot disable the SuccessCriteriaMet=True condition", at, errors);
    }
    if old.complete && !old.succeeds && new.succeeds {
        conditions(
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            at,
            errors,
        );
    }
}
