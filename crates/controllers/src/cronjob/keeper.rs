//! Keeps cron jobs: begins jobs, and forgets old ones.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    metrics::{MetricDesc, Metrics, exponential_buckets},
};
use serde_json::json;

use super::{
    plan::{self, Decision, Start},
    schedule::Timetable,
};
use crate::{
    context::Context,
    family::Family,
    news::News,
    objects::{CronJob, CronJobSpec, CronJobStatus, Job, JobReference},
    resource::{CRON_JOBS, JOBS},
    writer::{Made, Place, Writer, is, is_namespace_going, is_taken, words},
};

/// What is not seen yet is looked for again after this, if nothing happens before.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How late jobs are begun.
const SKEW: MetricDesc = MetricDesc::histogram(
    "cronjob_controller_job_creation_skew_duration_seconds",
    "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
    &[],
    &exponential_buckets::<10>(1.0, 2.0),
);

/// Keeps cron jobs.
pub(super) struct Keeper {
    metrics: Metrics,
    writer: Writer,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    family: Family<Job>,
    recorder: EventRecorder,
    clock: Clock,
    /// The schedules as they were at the last look. One that has changed since means times to come, not times missed.
    schedules: Mutex<HashMap<Key, Schedule>>,
}

type Schedule = (Box<str>, Option<Box<str>>);

/// A cron job that is looked at.
struct Visit<'k> {
    keeper: &'k Keeper,
    request: &'k Request,
    cron: Arc<CronJob>,
    /// As it is to be.
    status: CronJobStatus,
    /// What people are told when the status is written.
    news: Vec<News>,
}

// --- Keeper ---

impl Keeper {
    pub(super) fn new(context: &Context, crons: Informer<CronJob>, jobs: Informer<Job>) -> Self {
        Keeper {
            metrics: context.metrics.clone(),
            writer: context.writer.clone(),
            family: Family::new(jobs.store()),
            crons,
            jobs,
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
            schedules: Mutex::default(),
        }
    }

    /// Whether the schedule is another one than at the last look.
    fn has_new_schedule(&self, key: &Key, spec: &CronJobSpec) -> bool {
        let schedule = (spec.schedule.clone(), spec.time_zone.clone());
        let mut schedules = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        let before = schedules.insert(key.clone(), schedule.clone());
        before.is_some_and(|before| before != schedule)
    }
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(cron) = self.crons.store().get(&request.key) else {
            let mut schedules = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
            schedules.remove(&request.key);
            return Ok(Outcome::Done);
        };
        if self.has_new_schedule(&request.key, &cron.spec)
            && cron.spec.suspend != Some(true)
            && let Ok(timetable) = Timetable::new(&cron)
        {
            let wait = timetable.wait(&cron, self.clock.now());
            return Ok(wait.map_or(Outcome::Done, Outcome::RequeueAfter));
        }
        let visit = Visit {
            keeper: self,
            request: &request,
            status: cron.status.clone(),
            news: Vec::new(),
            cron,
        };
        visit.run().await
    }
}

// --- Visit ---

impl Visit<'_> {
    async fn run(mut self) -> Result<Outcome, Error> {
        let jobs = self.keeper.family.children(&self.cron.metadata.uid);
        if !self.see_running(&jobs).await? {
            return Ok(Outcome::RequeueAfter(LOOK_AGAIN));
        }
        for job in plan::outlived(&self.cron, &jobs) {
            // What is left over is no reason not to begin what is due.
            let _ = self.delete(&plan::reference(&job.metadata)).await;
        }
        plan::see_finished(&mut self.status, &jobs, &mut self.news);
        self.see_missing(&jobs).await?;
        let began = self.begin_due().await;
        if self.status != self.cron.status {
            let (metadata, status) = (&self.cron.metadata, &self.status);
            let patch = plan::patch(status, &metadata.resource_version);
            let place = Place::new(&CRON_JOBS, &metadata.namespace, &metadata.name).part("status");
            let written: Made = self.keeper.writer.update(place, &patch).await?;
            let version = &written.metadata.resource_version;
            self.request.record_write(&self.keeper.crons, version);
        }
        for news in std::mem::take(&mut self.news) {
            self.tell(&news);
        }
        Ok(began?.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    fn tell(&self, news: &News) {
        news.tell(&self.keeper.recorder, &self.cron.metadata.reference(&CRON_JOBS));
    }

    /// Sees to jobs that run and that the status does not know. Says whether the status is the newest.
    async fn see_running(&mut self, jobs: &[Arc<Job>]) -> Result<bool, Error> {
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
        let place = Place::new(&CRON_JOBS, &metadata.namespace, &metadata.name);
        let fresh: CronJob = match self.keeper.writer.get(place).await {
            Err(error) if is(&error, 404) => return Ok(false),
            fresh => fresh?,
        };
        if fresh.metadata.resource_version != metadata.resource_version {
            return Ok(false);
        }
        for job in unknown {
            if let Some(time) = plan::time_of(&self.cron, job) {
                // Begun here, by somebody who did not come to say so.
                self.begun(plan::reference(&job.metadata), time);
                continue;
            }
            let name = &job.metadata.name;
            let message = format!("Saw a job that the controller did not create or forgot: {name}");
            self.news.push(News::warning("UnexpectedJob", message));
        }
        Ok(true)
    }

    /// Forgets jobs that are gone.
    async fn see_missing(&mut self, jobs: &[Arc<Job>]) -> Result<(), Error> {
        for known in self.status.active.clone() {
            if jobs.iter().any(|job| job.metadata.uid == known.uid) {
                continue;
            }
            let place = Place::new(&JOBS, &known.namespace, &known.name);
            match self.keeper.writer.get::<Made>(place).await {
                Ok(_) => {}
                Err(error) if is(&error, 404) => {
                    let message = format!("Active job went missing: {}", known.name);
                    self.news.push(News::normal("MissingJob", message));
                    self.status.active.retain(|active| active.uid != known.uid);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Begins a job if one is due. Says when the next one is.
    async fn begin_due(&mut self) -> Result<Option<Duration>, Error> {
        let mut cron = CronJob::clone(&self.cron);
        cron.status = self.status.clone();
        let decision = Decision::new(&cron, self.keeper.clock.now(), &mut self.news);
        match decision.map_err(Error::permanent)? {
            Decision::Rest => Ok(None),
            Decision::Wait(wait) => Ok(wait),
            Decision::Start(start) => {
                self.begin(&start).await?;
                Ok(start.wait)
            }
        }
    }

    async fn begin(&mut self, start: &Start) -> Result<(), Error> {
        for old in &start.replaces {
            let place = Place::new(&JOBS, &old.namespace, &old.name);
            if let Err(error) = self.keeper.writer.get::<Made>(place).await {
                self.tell(&News::warning(
                    "FailedGet",
                    format_args!("Get job: {}", words(&error)),
                ));
                return Err(error.into());
            }
            self.delete(old).await?;
        }
        let (writer, namespace) = (&self.keeper.writer, &self.cron.metadata.namespace);
        let made: Job = match writer.create(&JOBS, namespace, &start.job).await {
            Ok(made) => {
                let late = self.keeper.clock.now().duration_since(start.time);
                self.keeper
                    .metrics
                    .observe(&SKEW, &[], late.as_secs_f64().max(0.0));
                let message = format!("Created job {}", start.name);
                self.tell(&News::normal("SuccessfulCreate", message));
                made
            }
            Err(error) if is_taken(&error) => {
                // Begun before, by us or by others who have that name.
                let there: Job = writer.get(Place::new(&JOBS, namespace, &start.name)).await?;
                if !there.metadata.is_controlled_by(&self.cron.metadata.uid) {
                    return Ok(());
                }
                there
            }
            Err(error) => {
                if !is_namespace_going(&error) {
                    let message = format!("Error creating job: {}", words(&error));
                    self.tell(&News::warning("FailedCreate", message));
                }
                return Err(error.into());
            }
        };
        let version = &made.metadata.resource_version;
        self.request.record_write(&self.keeper.jobs, version);
        self.begun(plan::reference(&made.metadata), start.time);
        Ok(())
    }

    fn begun(&mut self, job: JobReference, time: Timestamp) {
        if self.status.active.iter().all(|known| known.uid != job.uid) {
            self.status.active.push(job);
        }
        self.status.last_schedule_time = self.status.last_schedule_time.max(Some(time));
    }

    async fn delete(&mut self, job: &JobReference) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": job.uid},
        });
        let place = Place::new(&JOBS, &job.namespace, &job.name);
        if let Err(error) = self.keeper.writer.delete(place, &options).await {
            let message = format!("Deleted job: {}", words(&error));
            self.tell(&News::warning("FailedDelete", message));
            return Err(error.into());
        }
        self.status.active.retain(|active| active.uid != job.uid);
        self.tell(&News::normal(
            "SuccessfulDelete",
            format_args!("Deleted job {}", job.name),
        ));
        Ok(())
    }
}
