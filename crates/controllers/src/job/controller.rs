//! Reconciles a Job.

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::Method;
use k3_workloads::Pod;
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    writer::{
        ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, error_message, has_status_code,
        is_already_exists, is_namespace_terminating,
    },
};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    backoff::BackoffRecord,
    finalizer::{adopt, remove_finalizer},
    manage::{PodAction, PodCreation},
    metrics::{JobMetrics, SyncAction},
    new_pods,
    snapshot::JobSnapshot,
    track_status::{self, PodChanges, StatusTracker},
};
use crate::{
    context::ControllerContext,
    controller_ref_manager::{ControllerRefManager, OwnerIndex},
    event_message::EventMessage,
    objects::{CompletionMode, Job, JobStatus},
    pods::slow_start_batch::{all, slow_start_batch},
    resource::{JOBS, PODS},
};

/// Requeue delay for a pod that another replica of this controller created, if no event arrives before.
const REQUEUE_DELAY: Duration = Duration::from_secs(1);

// upstream: pkg/controller/job/job_controller.go Controller, syncJob
pub(super) struct JobController {
    writer: ApiWriter,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    pods_by_owner: OwnerIndex<Pod>,
    recorder: EventRecorder,
    clock: Clock,
    metrics: JobMetrics,
    /// Failures of jobs, by key and UID. After a restart they are computed from the pods.
    failures: Mutex<HashMap<Key, (Box<str>, BackoffRecord)>>,
}

/// One sync of a Job.
struct JobSync<'f> {
    controller: &'f JobController,
    request: &'f Request,
    job: &'f Job,
    about: ObjectReference,
    /// The highest resourceVersion of a pod that was written.
    newest: Mutex<u64>,
    /// The `action` label for metrics, as far as it is known.
    action_label: Mutex<SyncAction>,
}

/// What a deletion does to the finalizer by which a pod is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrackingFinalizer {
    /// The pod is counted first.
    Keep,
    /// The pod is not counted.
    Remove,
}

// --- JobController ---

impl JobController {
    pub(super) fn new(context: &ControllerContext, jobs: Informer<Job>, pods: Informer<Pod>) -> Self {
        JobController {
            writer: context.writer.clone(),
            pods_by_owner: OwnerIndex::new(pods.store()),
            jobs,
            pods,
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
            metrics: JobMetrics::new(&context.metrics),
            failures: Mutex::default(),
        }
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<Key, (Box<str>, BackoffRecord)>> {
        self.failures.lock()
    }
}

impl Reconciler for JobController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let job = self.jobs.store().get(&request.key);
        let job = job.filter(|job| job.is_managed_here() && job.finished().is_none());
        let Some(job) = job else {
            self.failures().remove(&request.key);
            return Ok(Outcome::Done);
        };
        let sync = JobSync {
            controller: self,
            request: &request,
            about: job.metadata.reference(&JOBS),
            job: &job,
            newest: Mutex::new(0),
            action_label: Mutex::new(SyncAction::Tracking),
        };
        let begun = Instant::now();
        let outcome = sync.run().await;
        let action_label = *sync.action_label.lock();
        self.metrics
            .record_sync(&job, action_label, &outcome, begun.elapsed());
        let newest = *sync.newest.lock();
        if newest > 0 {
            request.record_write(&self.pods, &newest.to_string());
        }
        outcome
    }
}

// --- JobSync ---

impl JobSync<'_> {
    async fn run(&self) -> Result<Outcome, Error> {
        let job = self.job;
        if job.spec.completion_mode == CompletionMode::Unknown {
            let message = "Skipped Job sync because completion mode is unknown";
            self.record_event(&EventMessage::warning("UnknownCompletionMode", message));
            return Ok(Outcome::Done);
        }
        let pods = self.claim().await?;
        let known = self.backoff_record();
        let snapshot = JobSnapshot::new(job, &pods, known, self.controller.clock.now());
        let action = PodAction::new(&snapshot);
        *self.action_label.lock() = SyncAction::of(&action);
        let (done, problem) = self.act(&snapshot, &action).await;
        let mut tracker = StatusTracker::new(&snapshot, &action, done);
        let mut status = job.status.clone();
        let mut version = job.metadata.resource_version.clone();
        if tracker.status != status {
            version = self.write(&status, &tracker.status, &version).await?;
            status = tracker.status.clone();
            self.store_backoff_record(snapshot.failures);
        }
        self.record_events(&mut tracker.events);
        let releases = self.remove_finalizers(&tracker.release).await;
        let unreleased = releases.error;
        tracker.released(releases.released.iter().map(|pod| &**pod));
        if unreleased.is_none() {
            tracker.finish();
        }
        if tracker.status != status {
            self.write(&status, &tracker.status, &version).await?;
            self.record_events(&mut tracker.events);
        }
        if let Some(error) = unreleased.or(problem) {
            return Err(error.into());
        }
        Ok(next(&snapshot, &action, done).map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// The pods of the job: controlled and newly adopted ones. Pods that no longer match are released.
    // upstream: pkg/controller/job/job_controller.go getPodsForJob
    async fn claim(&self) -> kube::Result<Vec<Arc<Pod>>> {
        let JobController {
            writer,
            pods_by_owner,
            ..
        } = self.controller;
        let metadata = &self.job.metadata;
        let matches = |pod: &Pod| self.job.spec.selector.matches(&pod.metadata.labels);
        let parent = ControllerRefManager {
            meta: metadata,
            resource: &JOBS,
            children: &PODS,
        };
        let pods = parent
            .claim(writer, pods_by_owner.children(&metadata.uid), matches)
            .await?;
        if metadata.is_terminating() {
            return Ok(pods);
        }
        let orphans = pods_by_owner.orphans(&metadata.namespace).into_iter();
        let orphans: Vec<_> = orphans
            .filter(|pod| matches(pod) && !pod.metadata.is_terminating())
            .collect();
        if orphans.is_empty() || !parent.is_there(writer).await? {
            return Ok(pods);
        }
        for pod in orphans {
            if let Some(version) = adopt(writer, &pod, &parent.owner()).await? {
                self.wrote(&version);
            }
        }
        // An adopted pod is delivered by the informer, with the finalizer.
        Ok(pods)
    }

    fn backoff_record(&self) -> Option<BackoffRecord> {
        let failures = self.controller.failures();
        let (uid, failures) = failures.get(&self.request.key)?;
        (*uid == self.job.metadata.uid).then_some(*failures)
    }

    fn store_backoff_record(&self, failures: BackoffRecord) {
        let key = self.request.key.clone();
        let uid = self.job.metadata.uid.clone();
        self.controller.failures().insert(key, (uid, failures));
    }

    /// Carries out an action on pods. Returns what was done, and the first error.
    // upstream: pkg/controller/job/job_controller.go manageJob
    async fn act(&self, snapshot: &JobSnapshot<'_>, action: &PodAction) -> (PodChanges, Option<kube::Error>) {
        match action {
            PodAction::Nothing | PodAction::Wait(_) => (PodChanges::default(), None),
            PodAction::JobEnd(pods) => self.delete_all(pods, TrackingFinalizer::Keep).await,
            PodAction::Delete(pods) => self.delete_all(pods, TrackingFinalizer::Remove).await,
            PodAction::Create(wanted) => self.create_all(snapshot, wanted).await,
        }
    }

    // upstream: pkg/controller/job/job_controller.go deleteJobPods, deleteActivePods
    async fn delete_all(
        &self,
        pods: &[Arc<Pod>],
        finalizer: TrackingFinalizer,
    ) -> (PodChanges, Option<kube::Error>) {
        let done = Mutex::new(PodChanges::default());
        let deletions = pods.iter().cloned().map(|pod| {
            let done = &done;
            async move {
                self.delete(&pod, finalizer).await?;
                let mut done = done.lock();
                done.deleted += 1;
                done.deleted_ready += i32::from(pod.is_ready());
                Ok(())
            }
        });
        let error = all(deletions).await.error;
        (done.into_inner(), error)
    }

    async fn delete(&self, pod: &Pod, finalizer: TrackingFinalizer) -> kube::Result<()> {
        let writer = &self.controller.writer;
        if finalizer == TrackingFinalizer::Remove
            && let Some(version) = remove_finalizer(writer, pod).await?
        {
            self.wrote(&version);
        }
        let name = &pod.metadata.name;
        let path = PODS.object_path(&pod.metadata.namespace, name);
        let options = delete_options_for_uid(&pod.metadata.uid);
        match writer
            .send::<WrittenObject>(Method::DELETE, &path, "application/json", Some(&options))
            .await
        {
            Ok(deleted) => {
                self.wrote(&deleted.metadata.resource_version);
                self.record_event(&EventMessage::normal(
                    "SuccessfulDelete",
                    format_args!("Deleted pod: {name}"),
                ));
                Ok(())
            }
            // Another pod may have the name by now.
            Err(error) if has_status_code(&error, 404) || has_status_code(&error, 409) => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {}", error_message(&error));
                self.record_event(&EventMessage::warning("FailedDelete", message));
                Err(error)
            }
        }
    }

    // upstream: pkg/controller/job/job_controller.go manageJob
    async fn create_all(
        &self,
        snapshot: &JobSnapshot<'_>,
        wanted: &[PodCreation],
    ) -> (PodChanges, Option<kube::Error>) {
        let namespace = &self.job.metadata.namespace;
        let pods = self.controller.pods.store();
        let is_there = |name: &str| pods.get(&Key::new(namespace, name)).is_some();
        let made = match new_pods::new_pods(snapshot, wanted, is_there) {
            Ok(made) => made,
            Err(error) => {
                self.record_event(&EventMessage::warning(
                    "FailedCreate",
                    format_args!("Error creating: {error}"),
                ));
                return (PodChanges::default(), None);
            }
        };
        let mut pods = made.iter();
        let created = Mutex::new(0);
        let tally = slow_start_batch(wanted.len(), || {
            let pod = pods.next();
            let created = &created;
            async move {
                let Some(pod) = pod else { return Ok(()) };
                let made = self.create(pod).await;
                self.controller.metrics.record_pod_creation(snapshot, &made);
                if made? {
                    *created.lock() += 1;
                }
                Ok(())
            }
        });
        let error = tally.await.error;
        let created = created.into_inner();
        let done = PodChanges {
            created,
            ..PodChanges::default()
        };
        // A terminating namespace accepts no pods: nothing to retry.
        (done, error.filter(|error| !is_namespace_terminating(error)))
    }

    /// Creates a pod. Returns whether it did not exist.
    async fn create(&self, pod: &new_pods::JobPod) -> kube::Result<bool> {
        let namespace = &self.job.metadata.namespace;
        match self
            .controller
            .writer
            .create::<WrittenObject>(&PODS, namespace, &pod.text)
            .await
        {
            Ok(created) => {
                self.wrote(&created.metadata.resource_version);
                self.record_event(&EventMessage::normal(
                    "SuccessfulCreate",
                    format_args!("Created pod: {}", pod.name),
                ));
                Ok(true)
            }
            // Another replica of this controller created it.
            Err(error) if is_already_exists(&error) => Ok(false),
            Err(error) => {
                if !is_namespace_terminating(&error) {
                    let message = format!("Error creating: {}", error_message(&error));
                    self.record_event(&EventMessage::warning("FailedCreate", message));
                }
                Err(error)
            }
        }
    }

    // upstream: pkg/controller/job/job_controller.go updateJobStatus
    async fn write(&self, old: &JobStatus, status: &JobStatus, version: &str) -> kube::Result<Box<str>> {
        let namespace = &self.job.metadata.namespace;
        let name = &self.job.metadata.name;
        let object_ref = ObjectRef::new(&JOBS, namespace, name).subresource("status");
        let written: WrittenObject = self
            .controller
            .writer
            .merge_patch(object_ref, &track_status::status_patch(status, version))
            .await?;
        let version = written.metadata.resource_version;
        self.request.record_write(&self.controller.jobs, &version);
        self.controller.metrics.wrote(self.job, old, status);
        Ok(version)
    }

    /// Removes the tracking finalizer from pods.
    // upstream: pkg/controller/job/job_controller.go removeTrackingFinalizerFromPods
    async fn remove_finalizers(&self, pods: &[Arc<Pod>]) -> FinalizerRemoval {
        let released = Mutex::new(Vec::new());
        let releases = pods.iter().cloned().map(|pod| {
            let released = &released;
            async move {
                if let Some(version) = remove_finalizer(&self.controller.writer, &pod).await? {
                    self.wrote(&version);
                }
                released.lock().push(pod);
                Ok(())
            }
        });
        let error = all(releases).await.error;
        FinalizerRemoval {
            released: released.into_inner(),
            error,
        }
    }

    /// Records the resourceVersion of a written pod.
    fn wrote(&self, version: &str) {
        if let Ok(version) = version.parse::<u64>() {
            let mut newest = self.newest.lock();
            *newest = version.max(*newest);
        }
    }

    fn record_event(&self, events: &EventMessage) {
        events.record(&self.controller.recorder, &self.about);
    }

    fn record_events(&self, events: &mut Vec<EventMessage>) {
        for events in events.drain(..) {
            self.record_event(&events);
        }
    }
}

/// Pods whose finalizer was removed, and the first error for the others.
struct FinalizerRemoval {
    released: Vec<Arc<Pod>>,
    error: Option<kube::Error>,
}

/// When to sync again if no event arrives.
fn next(snapshot: &JobSnapshot<'_>, action: &PodAction, done: PodChanges) -> Option<Duration> {
    let wait = match action {
        PodAction::Wait(wait) => Some(*wait),
        PodAction::Create(wanted) if usize::try_from(done.created) != Ok(wanted.len()) => Some(REQUEUE_DELAY),
        _ => None,
    };
    let left = snapshot.time_left().filter(|_| snapshot.end.is_none());
    let left = left.map(|left| Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
    wait.into_iter().chain(left).min()
}
