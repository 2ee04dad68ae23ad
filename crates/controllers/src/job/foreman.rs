//! Does what is to be done about a job.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::Method;
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
};
use tokio::time::Instant;

use super::{
    backoff::Failures,
    figures::{Came, Figures},
    look::Look,
    making,
    plan::{Action, Wanted},
    track::{self, Done, Track},
    tracking::{adopt, release},
};
use crate::{
    context::Context,
    family::{Family, Parent},
    news::News,
    objects::{CompletionMode, Job, JobStatus, Pod},
    pods::batch::{all, slow_start},
    resource::{JOBS, PODS},
    writer::{Made, Place, Writer, is, is_namespace_going, is_taken, only, words},
};

/// A pod that others made is looked for again after this, if nothing happens before.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks after jobs.
pub(super) struct Foreman {
    writer: Writer,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    family: Family<Pod>,
    recorder: EventRecorder,
    clock: Clock,
    figures: Figures,
    /// The failures of jobs, by key and uid. Who forgets them asks the pods.
    failures: Mutex<HashMap<Key, (Box<str>, Failures)>>,
}

/// A look at a job, and what is done about it.
struct Visit<'f> {
    foreman: &'f Foreman,
    request: &'f Request,
    job: &'f Job,
    about: ObjectReference,
    /// The newest version of a pod that was written.
    newest: Mutex<u64>,
    /// What it came to, as far as that is known.
    came: Mutex<Came>,
}

// --- Foreman ---

impl Foreman {
    pub(super) fn new(context: &Context, jobs: Informer<Job>, pods: Informer<Pod>) -> Self {
        Foreman {
            writer: context.writer.clone(),
            family: Family::new(pods.store()),
            jobs,
            pods,
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
            figures: Figures::new(&context.metrics),
            failures: Mutex::default(),
        }
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<Key, (Box<str>, Failures)>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler for Foreman {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let job = self.jobs.store().get(&request.key);
        let job = job.filter(|job| job.is_managed_here() && job.finished().is_none());
        let Some(job) = job else {
            self.failures().remove(&request.key);
            return Ok(Outcome::Done);
        };
        let visit = Visit {
            foreman: self,
            request: &request,
            about: job.metadata.reference(&JOBS),
            job: &job,
            newest: Mutex::new(0),
            came: Mutex::new(Came::Tracking),
        };
        let begun = Instant::now();
        let outcome = visit.run().await;
        let came = *visit.came.lock().unwrap_or_else(PoisonError::into_inner);
        self.figures.looked(&job, came, outcome.is_ok(), begun.elapsed());
        let newest = *visit.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest > 0 {
            request.record_write(&self.pods, &newest.to_string());
        }
        outcome
    }
}

// --- Visit ---

impl Visit<'_> {
    async fn run(&self) -> Result<Outcome, Error> {
        let job = self.job;
        if job.spec.completion_mode == CompletionMode::Unknown {
            let message = "Skipped Job sync because completion mode is unknown";
            self.tell(&News::warning("UnknownCompletionMode", message));
            return Ok(Outcome::Done);
        }
        let pods = self.claim().await?;
        let known = self.known_failures();
        let look = Look::new(job, &pods, known, self.foreman.clock.now());
        let action = Action::new(&look);
        *self.came.lock().unwrap_or_else(PoisonError::into_inner) = Came::of(&action);
        let (done, problem) = self.act(&look, &action).await;
        let mut track = Track::new(&look, &action, done);
        let mut status = job.status.clone();
        let mut version = job.metadata.resource_version.clone();
        if track.status != status {
            version = self.write(&status, &track.status, &version).await?;
            status = track.status.clone();
            self.remember(look.failures);
        }
        self.tell_all(&mut track.news);
        let releases = self.release(&track.release).await;
        let unreleased = releases.error;
        track.released(releases.released.iter().map(|pod| &**pod));
        if unreleased.is_none() {
            track.finish();
        }
        if track.status != status {
            self.write(&status, &track.status, &version).await?;
            self.tell_all(&mut track.news);
        }
        if let Some(error) = unreleased.or(problem) {
            return Err(error.into());
        }
        Ok(next(&look, &action, done).map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// The pods of the job: those it has, and those it takes in. Those that are not its own any more are let go.
    async fn claim(&self) -> kube::Result<Vec<Arc<Pod>>> {
        let Foreman { writer, family, .. } = self.foreman;
        let metadata = &self.job.metadata;
        let matches = |pod: &Pod| self.job.spec.selector.matches(&pod.metadata.labels);
        let parent = Parent {
            meta: metadata,
            resource: &JOBS,
            children: &PODS,
        };
        let pods = parent
            .claim(writer, family.children(&metadata.uid), matches)
            .await?;
        if metadata.is_going() {
            return Ok(pods);
        }
        let orphans = family.orphans(&metadata.namespace).into_iter();
        let orphans: Vec<_> = orphans
            .filter(|pod| matches(pod) && !pod.metadata.is_going())
            .collect();
        if orphans.is_empty() || !parent.is_there(writer).await? {
            return Ok(pods);
        }
        for pod in orphans {
            if let Some(version) = adopt(writer, &pod, &parent.owner()).await? {
                self.wrote(&version);
            }
        }
        // What was taken in is seen at the next look, with the finalizer.
        Ok(pods)
    }

    fn known_failures(&self) -> Option<Failures> {
        let failures = self.foreman.failures();
        let (uid, failures) = failures.get(&self.request.key)?;
        (*uid == self.job.metadata.uid).then_some(*failures)
    }

    fn remember(&self, failures: Failures) {
        let (key, uid) = (self.request.key.clone(), self.job.metadata.uid.clone());
        self.foreman.failures().insert(key, (uid, failures));
    }

    /// Does what is to be done about pods. Says what was done, and what went wrong.
    async fn act(&self, look: &Look<'_>, action: &Action) -> (Done, Option<kube::Error>) {
        match action {
            Action::Nothing | Action::Wait(_) => (Done::default(), None),
            Action::End(pods) => self.delete_all(pods, false).await,
            Action::Delete(pods) => self.delete_all(pods, true).await,
            Action::Create(wanted) => self.create_all(look, wanted).await,
        }
    }

    async fn delete_all(&self, pods: &[Arc<Pod>], release: bool) -> (Done, Option<kube::Error>) {
        let done = Mutex::new(Done::default());
        let deletions = pods.iter().cloned().map(|pod| {
            let done = &done;
            async move {
                self.delete(&pod, release).await?;
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.deleted += 1;
                done.deleted_ready += i32::from(pod.is_ready());
                Ok(())
            }
        });
        let error = all(deletions).await.error;
        (done.into_inner().unwrap_or_else(PoisonError::into_inner), error)
    }

    /// Deletes a pod; one that no count is to see is not held back.
    async fn delete(&self, pod: &Pod, is_uncounted: bool) -> kube::Result<()> {
        let writer = &self.foreman.writer;
        if is_uncounted && let Some(version) = release(writer, pod).await? {
            self.wrote(&version);
        }
        let name = &pod.metadata.name;
        let path = PODS.object_path(&pod.metadata.namespace, name);
        let options = only(&pod.metadata.uid);
        match writer
            .send::<Made>(Method::DELETE, &path, "application/json", Some(&options))
            .await
        {
            Ok(deleted) => {
                self.wrote(&deleted.metadata.resource_version);
                self.tell(&News::normal(
                    "SuccessfulDelete",
                    format_args!("Deleted pod: {name}"),
                ));
                Ok(())
            }
            // Another pod may have the name by now.
            Err(error) if is(&error, 404) || is(&error, 409) => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {}", words(&error));
                self.tell(&News::warning("FailedDelete", message));
                Err(error)
            }
        }
    }

    async fn create_all(&self, look: &Look<'_>, wanted: &[Wanted]) -> (Done, Option<kube::Error>) {
        let namespace = &self.job.metadata.namespace;
        let pods = self.foreman.pods.store();
        let is_there = |name: &str| pods.get(&Key::new(namespace, name)).is_some();
        let made = match making::make(look, wanted, is_there) {
            Ok(made) => made,
            Err(error) => {
                self.tell(&News::warning(
                    "FailedCreate",
                    format_args!("Error creating: {error}"),
                ));
                return (Done::default(), None);
            }
        };
        let mut pods = made.iter();
        let created = Mutex::new(0);
        let tally = slow_start(wanted.len(), || {
            let pod = pods.next();
            let created = &created;
            async move {
                let Some(pod) = pod else { return Ok(()) };
                let made = self.create(pod).await;
                self.foreman.figures.created(look, made.is_ok());
                if made? {
                    *created.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                }
                Ok(())
            }
        });
        let error = tally.await.error;
        let created = created.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done = Done {
            created,
            ..Done::default()
        };
        // A namespace that goes takes no pods, and nothing has to be done about that.
        (done, error.filter(|error| !is_namespace_going(error)))
    }

    /// Makes a pod. Says whether it was not there already.
    async fn create(&self, pod: &making::Made) -> kube::Result<bool> {
        let namespace = &self.job.metadata.namespace;
        match self
            .foreman
            .writer
            .create::<Made>(&PODS, namespace, &pod.text)
            .await
        {
            Ok(created) => {
                self.wrote(&created.metadata.resource_version);
                self.tell(&News::normal(
                    "SuccessfulCreate",
                    format_args!("Created pod: {}", pod.name),
                ));
                Ok(true)
            }
            // Another copy of this controller was faster.
            Err(error) if is_taken(&error) => Ok(false),
            Err(error) => {
                if !is_namespace_going(&error) {
                    let message = format!("Error creating: {}", words(&error));
                    self.tell(&News::warning("FailedCreate", message));
                }
                Err(error)
            }
        }
    }

    async fn write(&self, old: &JobStatus, status: &JobStatus, version: &str) -> kube::Result<Box<str>> {
        let (namespace, name) = (&self.job.metadata.namespace, &self.job.metadata.name);
        let place = Place::new(&JOBS, namespace, name).part("status");
        let written: Made = self
            .foreman
            .writer
            .update(place, &track::patch(status, version))
            .await?;
        let version = written.metadata.resource_version;
        self.request.record_write(&self.foreman.jobs, &version);
        self.foreman.figures.wrote(self.job, old, status);
        Ok(version)
    }

    /// Takes the finalizers from pods.
    async fn release(&self, pods: &[Arc<Pod>]) -> Released {
        let released = Mutex::new(Vec::new());
        let releases = pods.iter().cloned().map(|pod| {
            let released = &released;
            async move {
                if let Some(version) = release(&self.foreman.writer, &pod).await? {
                    self.wrote(&version);
                }
                released.lock().unwrap_or_else(PoisonError::into_inner).push(pod);
                Ok(())
            }
        });
        let error = all(releases).await.error;
        Released {
            released: released.into_inner().unwrap_or_else(PoisonError::into_inner),
            error,
        }
    }

    /// A pod was written.
    fn wrote(&self, version: &str) {
        if let Ok(version) = version.parse::<u64>() {
            let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
            *newest = version.max(*newest);
        }
    }

    fn tell(&self, news: &News) {
        news.tell(&self.foreman.recorder, &self.about);
    }

    fn tell_all(&self, news: &mut Vec<News>) {
        for news in news.drain(..) {
            self.tell(&news);
        }
    }
}

/// The pods whose finalizer is gone, and why others have theirs.
struct Released {
    released: Vec<Arc<Pod>>,
    error: Option<kube::Error>,
}

/// When to look again if nothing happens.
fn next(look: &Look<'_>, action: &Action, done: Done) -> Option<Duration> {
    let wait = match action {
        Action::Wait(wait) => Some(*wait),
        Action::Create(wanted) if usize::try_from(done.created) != Ok(wanted.len()) => Some(LOOK_AGAIN),
        _ => None,
    };
    let left = look.time_left().filter(|_| look.end.is_none());
    let left = left.map(|left| Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
    wait.into_iter().chain(left).min()
}
