//! CronJob: creates Jobs on a schedule.

use serde_json::{Value, json};

use super::job;
use crate::{
    apply::managed::ResetFields,
    cron::{Schedule, load_location},
    field::{Error, Path},
    kinds::{core::pod, counts, label_selector, pod_template, reset_fields},
    strategy::{
        self, Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, age,
        named_row,
    },
    time::Time,
};

pub(super) struct CronJob;

// upstream: pkg/apis/batch/validation/validation.go ValidateCronJobCreate; the controller appends 11 characters to names of at most 63
const MAX_NAME_LENGTH: usize = 52;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Schedule", "spec.schedule"),
    Column::field("Timezone", "spec.timeZone"),
    Column::new("Suspend", "boolean", ColumnDescription::Field("spec.suspend")),
    Column::new("Active", "integer", ColumnDescription::Field("status.active")),
    Column::field("Last Schedule", "status.lastScheduleTime"),
    Column::age(),
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    Column::field("Selector", "spec.jobTemplate.spec.selector").wide(),
];

// upstream: pkg/registry/batch/cronjob/strategy.go cronJobStrategy
impl RestStrategy for CronJob {
    // upstream: pkg/apis/batch/v1/defaults.go SetDefaults_CronJob
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        if spec.text("concurrencyPolicy").is_empty() {
            spec.set("concurrencyPolicy", "Allow");
        }
        spec.set_default("suspend", false);
        spec.set_default("successfulJobsHistoryLimit", 3);
        spec.set_default("failedJobsHistoryLimit", 1);
        let job = spec.ensure_object("jobTemplate").ensure_object("spec");
        job::set_defaults_pod_failure_policy(job);
        pod::set_defaults_pod_template(job.ensure_object("template"));
    }

    // upstream: pkg/registry/batch/cronjob/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        strategy::reset_status(object, at.kind);
        job::drop_disabled_fields(
            object
                .ensure_object("spec")
                .ensure_object("jobTemplate")
                .ensure_object("spec"),
            &Value::Null,
        );
    }

    // upstream: pkg/registry/batch/cronjob/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        strategy::keep_status(new, old, at.kind);
        let before = old.at_path("spec.jobTemplate.spec");
        job::drop_disabled_fields(
            new.ensure_object("spec")
                .ensure_object("jobTemplate")
                .ensure_object("spec"),
            before,
        );
    }

    // upstream: pkg/apis/batch/validation/validation.go ValidateCronJobCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        validate_cron_job_spec(spec, None, errors);
        let name = object.at("metadata").text("name");
        if name.len() > MAX_NAME_LENGTH {
            let field_path = Path::new("metadata");
            let detail = format!("must be no more than {MAX_NAME_LENGTH} characters");
            errors.push(Error::invalid(&field_path.child("name"), name, detail));
        }
        require_schedule(spec, errors);
    }

    // upstream: pkg/apis/batch/validation/validation.go ValidateCronJobUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_cron_job_spec(new.at("spec"), Some(old.at("spec")), errors);
        require_schedule(new.at("spec"), errors);
    }

    // upstream: pkg/registry/batch/cronjob/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let generation = |object: &Value| object.at("metadata").int("generation");
        if old.is_none() {
            warnings.extend(pod_template::warn_about_pod_name_prefix(new));
        }
        if old.is_none_or(|old| generation(old) != generation(new)) {
            let path = "spec.jobTemplate.spec";
            let before = old.map(|old| old.at_path(path));
            warnings.extend(job::spec_warnings(new.at_path(path), before, &Path::new(path)));
        }
        if old.is_some() && new.at("spec").text("schedule").contains("TZ") {
            let text = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
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

    // upstream: pkg/printers/internalversion/printers.go printCronJob
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let suspended = match spec.at("suspend") {
            Value::Bool(true) => "True",
            Value::Bool(false) => "False",
            _ => "<unset>",
        };
        let last = match status.text("lastScheduleTime") {
            "" => json!("<none>"),
            last => age(last, now),
        };
        let zone = spec.at("timeZone").as_str().unwrap_or("<none>");
        let cells = [
            json!(spec.text("schedule")),
            json!(zone),
            json!(suspended),
            json!(status.items("active").len()),
            last,
        ];
        let mut row = named_row(object, now, cells);
        let job = spec.at("jobTemplate").at("spec");
        row.cells
            .extend(pod_template::layout_container_cells(job.at("template")));
        row.cells
            .push(label_selector::format_label_selector(job.at("selector")));
        row
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateCronJobSpec
fn validate_cron_job_spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    validate_schedule(spec, old, &at.child("schedule"), errors);
    counts::validate_nonnegative_fields(spec, &["startingDeadlineSeconds"], &at, errors);
    if old.is_none_or(|old| old.at("timeZone") != spec.at("timeZone"))
        && let Some(zone) = spec.at("timeZone").as_str()
    {
        validate_time_zone(zone, &at.child("timeZone"), errors);
    }
    let policy = spec.text("concurrencyPolicy");
    let field_path = at.child("concurrencyPolicy");
    if policy.is_empty() {
        errors.push(Error::required(&field_path, ""));
    } else if !POLICIES.contains(&policy) {
        errors.push(Error::not_supported(&field_path, policy, POLICIES));
    }
    let job = spec.at("jobTemplate").at("spec");
    let field_path = at.child("jobTemplate");
    let field_path = field_path.child("spec");
    let before = old.map(|old| old.at_path("jobTemplate.spec"));
    job::validate_job_spec(job, before, &field_path, errors);
    if job.has("selector") {
        let selector = label_selector::error_value(job.at("selector"));
        let detail = "`selector` will be auto-generated";
        errors.push(Error::invalid(&field_path.child("selector"), selector, detail));
    }
    if job.flag("manualSelector") {
        let manual = job.at("manualSelector");
        errors.push(Error::not_supported(
            &field_path.child("manualSelector"),
            manual,
            ["nil", "false"],
        ));
    }
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    counts::validate_nonnegative_fields(spec, &limits, &at, errors);
}

/// Declarative validation, whose errors are last.
fn require_schedule(spec: &Value, errors: &mut ErrorList) {
    if spec.text("schedule").is_empty() {
        let at = Path::new("spec");
        errors.push(Error::required(&at.child("schedule"), ""));
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateScheduleFormat
fn validate_schedule(spec: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    let schedule = spec.text("schedule");
    if schedule.is_empty() {
        return;
    }
    if let Err(msg) = schedule.parse::<Schedule>() {
        errors.push(Error::invalid(at, schedule, msg.to_string()));
    }
    if !schedule.contains("TZ") {
        return;
    }
    let had_tz = old.is_some_and(|old| old.text("schedule").contains("TZ"));
    if !had_tz {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(Error::invalid(at, schedule, detail));
    } else if spec.has("timeZone") {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(Error::invalid(at, schedule, detail));
    }
}

/// The zone must be a name of the IANA time zone database; `Local` depends on the machine.
// upstream: pkg/apis/batch/validation/validation.go validateTimeZone
fn validate_time_zone(zone: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let mut push = |detail: String| errors.push(Error::invalid(at, zone, detail));
    if zone.is_empty() {
        return push("timeZone must be nil or non-empty string".to_owned());
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
    let is_valid_segment = |segment: &str| {
        !matches!(segment, "." | "..")
            && !segment.starts_with('-')
            && (1..=14).contains(&segment.len())
            && segment.bytes().all(fits)
    };
    if !zone.split('/').all(is_valid_segment) {
        return push(format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("Local") {
        push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        );
    }
    if zone != "Local"
        && let Err(msg) = load_location(zone)
    {
        push(msg.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_cron_job_spec(spec, old, &mut errors);
        let is_relevant = |text: &String| text.contains("spec.schedule") || text.contains("timeZone");
        errors
            .iter()
            .map(ToString::to_string)
            .filter(is_relevant)
            .collect()
    }

    #[test]
    fn rejects_unknown_time_zones() {
        let spec = |zone: &str| json!({"schedule": "* * * * *", "timeZone": zone});
        assert_eq!(messages(&spec("Europe/Paris"), None), [""; 0]);
        let explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        for (zone, details) in [
            ("", &["timeZone must be nil or non-empty string"][..]),
            ("Local", &[explicit]),
            ("local", &[explicit, "unknown time zone local"]),
            ("Europe/../x", &["unknown time zone Europe/../x"]),
            ("europe/paris", &["unknown time zone europe/paris"]),
            ("Nowhere", &["unknown time zone Nowhere"]),
        ] {
            let want: Vec<_> = details
                .iter()
                .map(|detail| format!("spec.timeZone: Invalid value: \"{zone}\": {detail}"))
                .collect();
            assert_eq!(messages(&spec(zone), None), want);
        }
        assert_eq!(messages(&spec("Nowhere"), Some(&spec("Nowhere"))), [""; 0]);
    }

    #[test]
    fn rejects_zones_in_new_schedules() {
        let named = json!({"schedule": "TZ=UTC * * * * *"});
        let both = json!({"schedule": "TZ=UTC * * * * *", "timeZone": "UTC"});
        assert_eq!(
            messages(&named, None),
            [
                "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone \
                 field instead"
            ]
        );
        assert_eq!(messages(&named, Some(&named)), [""; 0]);
        assert_eq!(
            messages(&both, Some(&named)),
            [
                "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use both timeZone field and TZ or CRON_TZ in \
                 schedule"
            ]
        );
    }
}
