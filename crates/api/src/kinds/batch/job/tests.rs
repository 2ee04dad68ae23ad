//! Validation, updates and table rows of jobs.

use serde_json::{Value, json};

use super::*;
use crate::strategy::User;

fn at(user: &User) -> StrategyContext<'_> {
    StrategyContext {
        kind: crate::kinds::builtin().kind("batch", "v1", "Job").unwrap(),
        now: Time::parse("2026-01-02T03:04:05Z").unwrap(),
        user,
    }
}

fn job(spec: Value) -> Value {
    let mut job = json!({"metadata": {"name": "x", "uid": "u"}});
    job.set("spec", spec);
    job.ensure_object("spec").set_default(
        "template",
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}),
    );
    Job.set_defaults(&mut job);
    Job.prepare_for_create(&mut job, &at(&User::default()));
    job
}

fn messages(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn create_messages(spec: Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    Job.validate(&job(spec), &at(&User::default()), &mut errors);
    messages(&errors)
}

fn update_messages(change: impl Fn(&mut Value)) -> Vec<String> {
    let old = job(json!({"suspend": true}));
    let mut new = old.clone();
    change(&mut new);
    let mut errors = ErrorList::new();
    Job.validate_update(&new, &old, &at(&User::default()), &mut errors);
    messages(&errors)
}

#[test]
fn generates_a_selector_by_uid() {
    let job = job(json!({}));
    assert_eq!(
        job.at("spec").at("selector"),
        &json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    let labels = job.at_path("spec.template.metadata").entries("labels");
    assert_eq!(labels.len(), 4);
    assert_eq!(labels["batch.kubernetes.io/job-name"], "x");
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"job-name": "y"}}, "spec": pod});
    assert_eq!(
        create_messages(json!({"template": template})),
        [
            r#"spec.template.metadata.labels[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid":"u","job-name":"y"}: must be 'x'"#
        ]
    );
}

#[test]
fn rejects_invalid_policy_rules() {
    let codes = |values: Value| json!({"operator": "In", "containerName": "d", "values": values});
    let rules = json!([
        {"action": "FailIndex", "onExitCodes": codes(json!([2, 1, 0, 1]))},
        {"action": "", "onPodConditions": [{"type": "A", "status": "Perhaps"}]},
        {"action": "Count"},
    ]);
    let rule = "spec.podFailurePolicy.rules";
    assert_eq!(
        create_messages(json!({"podFailurePolicy": {"rules": rules}})),
        [
            format!(
                "{rule}[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"
            ),
            format!(
                "{rule}[0].onExitCodes.containerName: Invalid value: \"d\": must be one of the container or initContainer \
                 names in the pod template"
            ),
            format!("{rule}[0].onExitCodes.values[2]: Invalid value: 0: must not be 0 for the In operator"),
            format!("{rule}[0].onExitCodes.values[3]: Duplicate value: 1"),
            format!("{rule}[0].onExitCodes.values: Invalid value: [2,1,0,1]: must be ordered"),
            format!(
                "{rule}[1].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
            ),
            format!(
                "{rule}[1].onPodConditions[0].status: Unsupported value: \"Perhaps\": supported values: \"False\", \
                 \"True\", \"Unknown\""
            ),
            format!(
                "{rule}[2]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
            ),
        ]
    );
    let rules = json!([{}, {"succeededIndexes": "0-2", "succeededCount": 4}]);
    assert_eq!(
        create_messages(
            json!({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": rules}})
        ),
        [
            "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be \
             specified",
            "spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of \
             specified completions)",
            "spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of \
             indexes in the specified succeededIndexes field)",
        ]
    );
}

#[test]
fn allows_scheduling_changes_while_suspended() {
    let pod = |job: &mut Value, name: &str, value: Value| {
        job.ensure_object("spec")
            .ensure_object("template")
            .ensure_object("spec")
            .set(name, value);
    };
    assert_eq!(
        update_messages(|job| {
            pod(job, "nodeSelector", json!({"a": "b"}));
            pod(job, "affinity", json!({"nodeAffinity": {}}));
            let containers = job
                .ensure_object("spec")
                .ensure_object("template")
                .ensure_object("spec")
                .items_mut("containers");
            containers[0].set(
                "resources",
                json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}),
            );
            job.ensure_object("spec")
                .ensure_object("template")
                .ensure_object("metadata")
                .ensure_object("annotations")
                .set("a", "b");
        }),
        [""; 0]
    );
    let refused = update_messages(|job| pod(job, "affinity", json!({"podAffinity": {}})));
    assert!(
        refused.len() == 1 && refused[0].starts_with("spec.template.spec: Invalid value: {"),
        "{refused:?}"
    );
}

#[test]
fn allows_elastic_completions() {
    let indexed = |completions: i64| {
        job(json!({"completionMode": "Indexed", "completions": completions, "parallelism": 5}))
    };
    let messages = |completions: i64| {
        let mut errors = ErrorList::new();
        Job.validate_update(
            &indexed(completions),
            &indexed(3),
            &at(&User::default()),
            &mut errors,
        );
        messages(&errors)
    };
    assert_eq!(messages(5), [""; 0]);
    assert_eq!(
        messages(4),
        ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"]
    );
}

#[test]
fn rejects_removal_of_terminal_conditions() {
    let with = |status: Value| {
        let mut job = job(json!({}));
        job.set("status", status);
        job
    };
    let done = |kind: &str| json!({"type": kind, "status": "True"});
    let finished = with(json!({
        "startTime": "2026-01-02T03:04:05Z",
        "completionTime": "2026-01-02T03:05:05Z",
        "succeeded": 1,
        "conditions": [done("SuccessCriteriaMet"), done("Complete")],
    }));
    let mut errors = ErrorList::new();
    status::validate_job_status_update(&finished, &with(json!({})), &mut errors);
    assert_eq!(messages(&errors), [""; 0]);
    status::validate_job_status_update(&with(json!({"active": 1})), &finished, &mut errors);
    assert_eq!(
        messages(&errors),
        [
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
            "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ]
    );
}

#[test]
fn row_shows_progress() {
    let mut job = job(json!({"completions": 3, "parallelism": 2}));
    job.ensure_object("metadata")
        .set("creationTimestamp", "2026-01-02T03:03:00Z");
    job.set(
        "status",
        json!({"succeeded": 1, "startTime": "2026-01-02T03:03:05Z"}),
    );
    let now = Time::parse("2026-01-02T03:04:05Z").unwrap();
    assert_eq!(
        Job.row(&job, now).cells,
        [
            json!("x"),
            json!("Running"),
            json!("1/3"),
            json!("60s"),
            json!("65s"),
            json!("c"),
            json!("i"),
            json!("batch.kubernetes.io/controller-uid=u"),
        ]
    );
}
