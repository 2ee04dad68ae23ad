//! Cron jobs against an API in memory.

use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::Event,
};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::testing::eventually;
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{CRON_JOBS, JOBS},
    testing::{Scenario, TestCluster},
};

fn put(cluster: &TestCluster, spec: Value) {
    let mut spec = spec;
    spec["jobTemplate"] = json!({
        "metadata": {"labels": {"mine": "1"}}, "spec": {"template": {"spec": {"containers": []}}},
    });
    cluster.put(
        &CRON_JOBS,
        json!({"metadata": {"name": "c", "namespace": "shop"}, "spec": spec}),
    );
}

fn tree<T: serde::Serialize>(object: T) -> Value {
    serde_json::to_value(object).unwrap()
}

/// Jobs are done when they are so old.
fn work(cluster: &TestCluster, seconds: i64) {
    for job in cluster.api.list::<Job>() {
        let job = tree(job);
        let began: Timestamp = job["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let name = job["metadata"]["name"].as_str().unwrap();
        if !job["metadata"]["deletionTimestamp"].is_null() {
            cluster.api.remove::<Job>("shop", name);
        } else if cluster.now().duration_since(began).as_secs() >= seconds
            && job["status"]["conditions"].is_null()
        {
            let mut job = job.clone();
            let Ok(minutes) = name[2..].parse::<i64>() else {
                continue;
            };
            let done = Timestamp::from_second(minutes * 60 + seconds).unwrap();
            job["status"] = json!({"startTime": began, "completionTime": done, "conditions": [
                {"type": "Complete", "status": "True", "lastTransitionTime": done}]});
            cluster.put(&JOBS, job);
        }
    }
}

/// What there is after some minutes, at a moment at which nothing is under way.
fn after_minutes(cluster: &TestCluster, minutes: i64) -> Option<Value> {
    let passed = cluster.now().as_second() - 1_767_225_600;
    if passed < minutes * 60 + 40 {
        return None;
    }
    let jobs = cluster
        .api
        .list::<Job>()
        .into_iter()
        .filter_map(|job| job.metadata.name);
    let jobs: Vec<_> = jobs.collect();
    let cron = tree(cluster.api.get::<CronJob>("shop", "c")?);
    let active = cron["status"]["active"].as_array().cloned().unwrap_or_default();
    let active: Vec<_> = active.into_iter().map(|job| job["name"].clone()).collect();
    let (last, success) = (
        &cron["status"]["lastScheduleTime"],
        &cron["status"]["lastSuccessfulTime"],
    );
    Some(json!({"jobs": jobs, "active": active, "last": last, "success": success}))
}

/// A job each minute, each of which takes twenty seconds; the last one is kept. It ends in the fourth minute.
const EVERY_MINUTE: Scenario = Scenario {
    make,
    setup: |cluster| {
        put(
            cluster,
            json!({"schedule": "* * * * *", "successfulJobsHistoryLimit": 1}),
        );
    },
    play: |cluster| {
        work(cluster, 20);
        let is_late = cluster.now().as_second() >= 1_767_225_600 + 3 * 60 + 25;
        let cron = cluster.api.get::<CronJob>("shop", "c").unwrap();
        if is_late && cron.spec.suspend.is_none() {
            cluster
                .api
                .edit::<CronJob>("shop", "c", |cron| cron.spec.suspend = Some(true));
        }
    },
    end: |cluster| after_minutes(cluster, 3),
};

/// Jobs take longer than a minute, and each replaces the one before.
const REPLACING: Scenario = Scenario {
    make,
    setup: |cluster| {
        put(
            cluster,
            json!({"schedule": "* * * * *", "concurrencyPolicy": "Replace"}),
        );
    },
    play: |cluster| work(cluster, 1_000),
    end: |cluster| after_minutes(cluster, 2),
};

#[tokio::test(start_paused = true)]
async fn a_job_begins_each_minute_and_old_ones_go() {
    let (end, _) = EVERY_MINUTE.run().await;
    assert_eq!(
        end,
        json!({"jobs": ["c-29453763"], "active": [], "last": "2026-01-01T00:03:00Z", "success": "2026-01-01T00:03:20Z"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_replaces_the_one_before() {
    let (end, _) = REPLACING.run().await;
    assert_eq!(
        end,
        json!({"jobs": ["c-29453762"], "active": ["c-29453762"], "last": "2026-01-01T00:02:00Z", "success": null})
    );
}

#[tokio::test(start_paused = true)]
async fn cron_jobs_survive_crashes_and_copies() {
    for story in [EVERY_MINUTE, REPLACING] {
        story.survives_crashes().await;
        story.survives_copies().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_made_from_the_template_and_people_are_told() {
    let cluster = TestCluster::new();
    put(&cluster, json!({"schedule": "* * * * *"}));
    let cron = tree(cluster.api.get::<CronJob>("shop", "c"));
    cluster.put(
        &JOBS,
        json!({"metadata": {"name": "by-hand", "namespace": "shop", "ownerReferences": [{"apiVersion": "batch/v1",
            "kind": "CronJob", "name": "c", "uid": cron["metadata"]["uid"], "controller": true}]}}),
    );
    let _running = cluster.start("one", make);
    let job = tree(eventually(|| async { cluster.api.get::<Job>("shop", "c-29453761") }).await);
    assert_eq!(job["metadata"]["labels"], json!({"mine": "1"}));
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:01:00Z"})
    );
    work(&cluster, 0);
    let told = eventually(|| async {
        let events = cluster.api.list::<Event>().into_iter();
        let mut told: Vec<_> = events
            .map(|event| (event.reason.unwrap(), event.message.unwrap()))
            .collect();
        told.sort();
        (told.len() == 3).then_some(told)
    });
    let told = told.await;
    let told: Vec<_> = told
        .iter()
        .map(|(reason, message)| (&**reason, &**message))
        .collect();
    assert_eq!(
        told,
        [
            (
                "SawCompletedJob",
                "Saw completed job: c-29453761, condition: Complete"
            ),
            ("SuccessfulCreate", "Created job c-29453761"),
            (
                "UnexpectedJob",
                "Saw a job that the controller did not create or forgot: by-hand"
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_schedule_means_times_to_come() {
    let cluster = TestCluster::new();
    put(&cluster, json!({"schedule": "0 0 1 2 *"}));
    let _running = cluster.start("one", make);
    tokio::time::sleep(std::time::Duration::from_hours(1)).await;
    cluster.api.edit::<CronJob>("shop", "c", |cron| {
        cron.spec.schedule = "*/10 * * * *".to_owned();
    });
    let first = eventually_within_minutes(&cluster).await;
    assert_eq!(first, "c-29453830");
}

async fn eventually_within_minutes(cluster: &TestCluster) -> String {
    let limit = std::time::Duration::from_mins(30);
    kubecontroller::testing::eventually_within(limit, || async {
        let job = cluster.api.list::<Job>().into_iter().next();
        job.and_then(|job| job.metadata.name)
    })
    .await
}
