//! Reconciles CronJobs: starts due jobs and deletes old ones.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    metrics::{MetricDesc, Metrics, exponential_buckets},
    writer::{
        ApiWriter, ObjectRef, WrittenObject, error_message, has_status_code, is_already_exists,
        is_namespace_terminating,
    },
};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    decision::{self, CronJobDecision, JobStart},
    schedule::CronSchedule,
};
use crate::{
    context::ControllerContext,
    controller_ref_manager::OwnerIndex,
    event_message::EventMessage,
    objects::{CronJob, CronJobSpec, CronJobStatus, Job, JobReference},
    resource::{CRON_JOBS, JOBS},
};

/// Requeue delay for objects that the informer has not delivered yet, if no event arrives before.
const REQUEUE_DELAY: Duration = Duration::from_secs(1);

/// Delay between schedule time and job creation.
const CREATION_SKEW: MetricDesc = MetricDesc::histogram(
    "cronjob_controller_job_creation_skew_duration_seconds",
    "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
    &[],
    &exponential_buckets::<10>(1.0, 2.0),
);

// upstream: pkg/controller/cronjob/cronjob_controllerv2.go ControllerV2, syncCronJob
pub(super) struct CronJobController {
    metrics: Metrics,
    writer: ApiWriter,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    jobs_by_owner: OwnerIndex<Job>,
    recorder: EventRecorder,
    clock: Clock,
    /// Schedules at the last sync. After a schedule changed, earlier times are not counted as missed.
    schedules: Mutex<HashMap<Key, ScheduleKey>>,
}

type ScheduleKey = (Box<str>, Option<Box<str>>);

/// One sync of a CronJob.
struct CronJobSync<'k> {
    controller: &'k CronJobController,
    request: &'k Request,
    cron: Arc<CronJob>,
    /// The new status.
    status: CronJobStatus,
    /// Events to record after the status is written.
    events: Vec<EventMessage>,
}

// --- CronJobController ---

impl CronJobController {
    pub(super) fn new(context: &ControllerContext, crons: Informer<CronJob>, jobs: Informer<Job>) -> Self {
        CronJobController {
            metrics: context.metrics.clone(),
            writer: context.writer.clone(),
            jobs_by_owner: OwnerIndex::new(jobs.store()),
            crons,
            jobs,
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
            schedules: Mutex::default(),
        }
    }

    /// Whether the schedule changed since the last sync.
    fn has_new_schedule(&self, key: &Key, spec: &CronJobSpec) -> bool {
        let schedule = (spec.schedule.clone(), spec.time_zone.clone());
        let mut schedules = self.schedules.lock();
        let before = schedules.insert(key.clone(), schedule.clone());
        before.is_some_and(|before| before != schedule)
    }
}

impl Reconciler for CronJobController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(cron) = self.crons.store().get(&request.key) else {
            let mut schedules = self.schedules.lock();
            schedules.remove(&request.key);
            return Ok(Outcome::Done);
        };
        if self.has_new_schedule(&request.key, &cron.spec)
            && cron.spec.suspend != Some(true)
            && let Ok(schedule) = CronSchedule::new(&cron)
        {
            let wait = schedule.wait(&cron, self.clock.now());
            return Ok(wait.map_or(Outcome::Done, Outcome::RequeueAfter));
        }
        let sync = CronJobSync {
            controller: self,
            request: &request,
            status: cron.status.clone(),
            events: Vec::new(),
            cron,
        };
        sync.run().await
    }
}

// --- CronJobSync ---

impl CronJobSync<'_> {
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go sync, cleanupFinishedJobs
    async fn run(mut self) -> Result<Outcome, Error> {
        let jobs = self.controller.jobs_by_owner.children(&self.cron.metadata.uid);
        if !self.add_running_jobs(&jobs).await? {
            return Ok(Outcome::RequeueAfter(REQUEUE_DELAY));
        }
        for job in decision::jobs_beyond_limits(&self.cron, &jobs) {
            // A failed cleanup is no reason not to start a due job.
            let _ = self.delete(&decision::reference(&job.metadata)).await;
        }
        decision::update_finished_jobs(&mut self.status, &jobs, &mut self.events);
        self.remove_missing_jobs(&jobs).await?;
        let began = self.start_due_job().await;
        if self.status != self.cron.status {
            let metadata = &self.cron.metadata;
            let status = &self.status;
            let patch = decision::status_patch(status, &metadata.resource_version);
            let object_ref =
                ObjectRef::new(&CRON_JOBS, &metadata.namespace, &metadata.name).subresource("status");
            let written: WrittenObject = self.controller.writer.merge_patch(object_ref, &patch).await?;
            let version = &written.metadata.resource_version;
            self.request.record_write(&self.controller.crons, version);
        }
        for events in std::mem::take(&mut self.events) {
            self.record_event(&events);
        }
        Ok(began?.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    fn record_event(&self, events: &EventMessage) {
        events.record(
            &self.controller.recorder,
            &self.cron.metadata.reference(&CRON_JOBS),
        );
    }

    /// Adds running jobs that are missing in status.active. Returns whether the cached status is current.
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob; events UnexpectedJob and FailedGet
    async fn add_running_jobs(&mut self, jobs: &[Arc<Job>]) -> Result<bool, Error> {
        let is_known = |job: &Job| {
            self.status
                .active
                .iter()
                .any(|known| known.uid == job.metadata.uid)
        };
        let unknown: Vec<_> = jobs
            .iter()
            .filter(|job| job.finished().is_none() && !is_known(job))
            .collect();
        if unknown.is_empty() {
            return Ok(true);
        }
        let metadata = &self.cron.metadata;
        let object_ref = ObjectRef::new(&CRON_JOBS, &metadata.namespace, &metadata.name);
        let fresh: CronJob = match self.controller.writer.get(object_ref).await {
            Err(error) if has_status_code(&error, 404) => return Ok(false),
            fresh => fresh?,
        };
        if fresh.metadata.resource_version != metadata.resource_version {
            return Ok(false);
        }
        for job in unknown {
            if let Some(time) = decision::schedule_time_of(&self.cron, job) {
                // Created by this controller, which stopped before it wrote the status.
                self.record_started_job(decision::reference(&job.metadata), time);
                continue;
            }
            let name = &job.metadata.name;
            let message = format!("Saw a job that the controller did not create or forgot: {name}");
            self.events.push(EventMessage::warning("UnexpectedJob", message));
        }
        Ok(true)
    }

    /// Removes deleted jobs from status.active.
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob; event MissingJob
    async fn remove_missing_jobs(&mut self, jobs: &[Arc<Job>]) -> Result<(), Error> {
        for known in self.status.active.clone() {
            if jobs.iter().any(|job| job.metadata.uid == known.uid) {
                continue;
            }
            let object_ref = ObjectRef::new(&JOBS, &known.namespace, &known.name);
            match self.controller.writer.get::<WrittenObject>(object_ref).await {
                Ok(_) => {}
                Err(error) if has_status_code(&error, 404) => {
                    let message = format!("Active job went missing: {}", known.name);
                    self.events.push(EventMessage::normal("MissingJob", message));
                    self.status.active.retain(|active| active.uid != known.uid);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Starts a job if one is due. Returns the time until the next one.
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob
    async fn start_due_job(&mut self) -> Result<Option<Duration>, Error> {
        let mut cron = CronJob::clone(&self.cron);
        cron.status = self.status.clone();
        let decision = CronJobDecision::new(&cron, self.controller.clock.now(), &mut self.events);
        match decision.map_err(Error::permanent)? {
            CronJobDecision::Idle => Ok(None),
            CronJobDecision::Wait(wait) => Ok(wait),
            CronJobDecision::JobStart(start) => {
                self.start_job(&start).await?;
                Ok(start.wait)
            }
        }
    }

    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob; SuccessfulCreate and FailedCreate
    async fn start_job(&mut self, start: &JobStart) -> Result<(), Error> {
        for old in &start.replaces {
            let object_ref = ObjectRef::new(&JOBS, &old.namespace, &old.name);
            if let Err(error) = self.controller.writer.get::<WrittenObject>(object_ref).await {
                self.record_event(&EventMessage::warning(
                    "FailedGet",
                    format_args!("Get job: {}", error_message(&error)),
                ));
                return Err(error.into());
            }
            self.delete(old).await?;
        }
        let writer = &self.controller.writer;
        let namespace = &self.cron.metadata.namespace;
        let made: Job = match writer.create(&JOBS, namespace, &start.job).await {
            Ok(made) => {
                let late = self.controller.clock.now().duration_since(start.time);
                self.controller
                    .metrics
                    .observe(&CREATION_SKEW, &[], late.as_secs_f64().max(0.0));
                let message = format!("Created job {}", start.name);
                self.record_event(&EventMessage::normal("SuccessfulCreate", message));
                made
            }
            Err(error) if is_already_exists(&error) => {
                // It exists: created before, by this controller or by another client.
                let there: Job = writer.get(ObjectRef::new(&JOBS, namespace, &start.name)).await?;
                if !there.metadata.is_controlled_by(&self.cron.metadata.uid) {
                    return Ok(());
                }
                there
            }
            Err(error) => {
                if !is_namespace_terminating(&error) {
                    let message = format!("Error creating job: {}", error_message(&error));
                    self.record_event(&EventMessage::warning("FailedCreate", message));
                }
                return Err(error.into());
            }
        };
        let version = &made.metadata.resource_version;
        self.request.record_write(&self.controller.jobs, version);
        self.record_started_job(decision::reference(&made.metadata), start.time);
        Ok(())
    }

    fn record_started_job(&mut self, job: JobReference, time: Timestamp) {
        if self.status.active.iter().all(|known| known.uid != job.uid) {
            self.status.active.push(job);
        }
        self.status.last_schedule_time = self.status.last_schedule_time.max(Some(time));
    }

    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go deleteJob
    async fn delete(&mut self, job: &JobReference) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": job.uid},
        });
        let object_ref = ObjectRef::new(&JOBS, &job.namespace, &job.name);
        if let Err(error) = self.controller.writer.delete(object_ref, &options).await {
            let message = format!("Deleted job: {}", error_message(&error));
            self.record_event(&EventMessage::warning("FailedDelete", message));
            return Err(error.into());
        }
        self.status.active.retain(|active| active.uid != job.uid);
        self.record_event(&EventMessage::normal(
            "SuccessfulDelete",
            format_args!("Deleted job {}", job.name),
        ));
        Ok(())
    }
}
