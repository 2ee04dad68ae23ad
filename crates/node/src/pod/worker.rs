//! One pass over one pod: look, tell, do what is missing.
//!
//! A pass is cut off at any point by the end of the agent, and the next one, of whichever agent, goes on from what it finds.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::{
    api::core::v1::{Pod, PodStatus, ResourceRequirements},
    jiff::Timestamp,
};
use kubecontroller::{events::EventType, workqueue::WorkQueue};
use tokio::sync::{Mutex, watch};

use super::{
    Parts,
    act::{Done, Work},
    admission,
    backoff::{self, Backoff},
    gate::Gate,
    known::{Admission, Entry, Known, Origin},
    look::{Looker, Picture},
    message,
    plan::{self, View},
    report::Reports,
    status::{self, Course, End, Input, ResizeInProgress, ResizePending, Seen},
    stop::Stopper,
    told::Teller,
};
use crate::{
    PodIdentity,
    images::{Images, limited},
    runtime::{ContainerState, Runtime, RuntimeError},
};

/// After something failed that nobody says more about.
const AGAIN: Duration = Duration::from_secs(10);
/// While the runtime does not answer.
const UNREACHABLE: Duration = Duration::from_secs(5);
const NOW: Duration = Duration::ZERO;
/// What upstream says of a pod that was there for too long.
const DEADLINE: (&str, &str) = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
);

/// What all workers share.
pub(super) struct Shared {
    /// What they are built of.
    pub parts: Parts,
    /// The pods.
    pub known: Known,
    /// Which of them are worked on.
    pub queue: WorkQueue<String>,
    /// What is there of them.
    pub looker: Looker,
    /// Who brings images.
    pub images: Images,
    /// Who tells the API.
    pub reports: Reports,
    /// Who tells users.
    pub teller: Teller,
    /// How long containers that failed wait, by pod, name and hash.
    pub crashes: std::sync::Mutex<Backoff<(String, String, String)>>,
    /// Whether pods that come now are refused, because the node ends.
    pub is_closing: watch::Sender<bool>,
    /// What the runtime calls itself, once it has said so.
    pub runtime_name: Mutex<Option<String>>,
    /// The pods in the API that show static ones, by namespace and name.
    pub mirrors: std::sync::Mutex<Mirrors>,
    /// Whether all pods are known that there are.
    pub found_all: watch::Sender<bool>,
    /// Lets some sandboxes be started at a time.
    pub sandbox_gate: Gate,
    /// Lets some containers be started at a time: not the same, so that pods that are begun come to their end.
    pub container_gate: Gate,
    /// Held while it is decided whether a pod, or a change of one, fits: two that fit alone may not fit together.
    pub fitting: Mutex<()>,
}

/// Pods in the API that show static ones, by namespace and name.
pub(super) type Mirrors = HashMap<(Option<String>, Option<String>), Arc<Pod>>;

/// When a pod is looked at again, if nothing happens before.
pub(super) type Again = Option<Duration>;

// --- Shared ---

impl Shared {
    /// One pass.
    // Boxed: so the compiler finds out that it can go to another thread for each part of it, and not for all lifetimes at once.
    pub(super) fn pass<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Again> {
        Box::pin(self.one_pass(uid))
    }

    async fn one_pass(&self, uid: &str) -> Again {
        let course = self.known.read(uid, |entry| entry.course)?;
        let runtime = self.parts.runtime.borrow().clone();
        let Some(runtime) = runtime else {
            return self.without_runtime(uid);
        };
        if self.waits_for_namesake(uid) {
            return None;
        }
        let picture = match self.looker.look(&*runtime, self.parts.settings.start_limit).await {
            Ok(picture) => picture,
            Err(error) => {
                tracing::debug!(pod = uid, %error, "cannot list containers");
                return Some(UNREACHABLE);
            }
        };
        let seen = self.note(uid, &*runtime, &picture).await;
        // Boxed, and so below: a pass is many steps deep, and all of it together would be large.
        let pass: BoxFuture<'_, Again> = match course {
            Course::Living => Box::pin(self.live(uid, &runtime, &seen)),
            Course::Stopping => Box::pin(self.stop(uid, &*runtime, &seen)),
            Course::Stopped => Box::pin(self.settle(uid, &*runtime, &seen)),
        };
        pass.await
    }

    /// Keeps what is there, and reads what containers that have ended left to say.
    async fn note(&self, uid: &str, runtime: &dyn Runtime, picture: &Picture) -> Arc<Seen> {
        let seen = picture.of(uid);
        let unread: Vec<_> = self
            .known
            .change(uid, |entry| {
                entry.seen = Arc::clone(&seen);
                entry
                    .messages
                    .retain(|id, _| seen.containers.iter().any(|there| there.id == *id));
                let ended = seen
                    .containers
                    .iter()
                    .filter(|there| matches!(there.state, ContainerState::Exited(_)));
                ended
                    .filter(|there| !entry.messages.contains_key(&there.id))
                    .cloned()
                    .collect()
            })
            .unwrap_or_default();
        let folder = self.parts.settings.folder(uid);
        for there in unread {
            let message = message::read(runtime, &folder, &there).await;
            self.known
                .change(uid, |entry| entry.messages.insert(there.id, message));
        }
        seen
    }

    /// A pod that shall run.
    async fn live(&self, uid: &str, runtime: &Arc<dyn Runtime>, seen: &Arc<Seen>) -> Again {
        self.check_deadline(uid);
        if self.known.read(uid, Entry::has_to_end)? {
            self.go_on_to(uid, Course::Stopping);
            return Some(NOW);
        }
        if !self.admit(uid, seen).await {
            return Some(NOW);
        }
        self.resize(uid).await;
        let status = self.tell(uid, runtime.as_ref(), Course::Living).await?;
        if status::is_over(&status) {
            self.go_on_to(uid, Course::Stopping);
            return Some(NOW);
        }
        let (pod, mut halt) = self
            .known
            .read(uid, |entry| (entry.granted(), entry.halt.subscribe()))?;
        self.parts.prober.keep(&pod, seen);
        let restarts_all = pod
            .spec
            .as_ref()
            .is_some_and(|spec| status::restart::restarts_all(spec, seen, &status));
        let plan = {
            let probes = self.parts.prober.results(uid);
            let actuated = self
                .known
                .read(uid, |entry| entry.kept.clone().unwrap_or_default().actuated)?;
            let view = View {
                pod: &pod,
                seen,
                probes: &probes,
                actuated: &actuated,
            };
            plan::plan(&view, restarts_all)
        };
        let work = Work {
            shared: self,
            runtime: Arc::clone(runtime),
            pod: Arc::new(pod),
            seen: Arc::clone(seen),
            facts: self.parts.facts.borrow().clone(),
        };
        // Whoever waits for an image, or for a hook, lets go when the pod has to end.
        let acting: BoxFuture<'_, Done> = Box::pin(work.act(plan));
        let done = tokio::select! {
            biased;
            _ = halt.wait_for(Option::is_some) => return Some(NOW),
            done = acting => done,
        };
        if !done.did {
            // What containers wait for may be another thing now.
            self.tell(uid, runtime.as_ref(), Course::Living).await?;
        }
        let next = done.next(self.parts.clock.now());
        let deadline = self.until_deadline(uid);
        [next, deadline, self.until_refresh(uid)]
            .into_iter()
            .flatten()
            .min()
    }

    /// A pod whose end was decided.
    async fn stop(&self, uid: &str, runtime: &dyn Runtime, seen: &Seen) -> Again {
        self.tell(uid, runtime, Course::Stopping).await?;
        let (pod, is_orphan, grace, mut halt) = self.known.read(uid, |entry| {
            entry.tell_halt();
            let is_orphan = matches!(entry.origin, Origin::Runtime);
            // Probes' own grace times, and that of the spec, count only for who ends by itself.
            let grace = entry.has_to_end().then(|| entry.effective_grace());
            (Arc::clone(&entry.pod), is_orphan, grace, entry.halt.subscribe())
        })?;
        let begun = *halt.borrow_and_update();
        let stopper = Stopper {
            runtime,
            pod: (!is_orphan).then_some(&*pod),
            addresses: seen.addresses(),
            teller: &self.teller,
            limit: self.parts.settings.stop_limit,
        };
        let seconds = grace.map(|grace| Duration::from_secs(u64::try_from(grace).unwrap_or(1)));
        let stopped = tokio::select! {
            biased;
            // Somebody is in more of a hurry: again, with less time.
            _ = halt.wait_for(|now| *now != begun) => return Some(NOW),
            stopped = stopper.pod(seen, seconds) => stopped,
        };
        if let Err(error) = stopped {
            self.teller.pod(
                &pod,
                EventType::Warning,
                "FailedKillPod",
                format!("error killing pod: {error}"),
            );
            return Some(AGAIN);
        }
        let Ok(picture) = self.looker.look(runtime, self.parts.settings.start_limit).await else {
            return Some(UNREACHABLE);
        };
        let seen = self.note(uid, runtime, &picture).await;
        if seen.any_running() {
            return Some(Duration::from_secs(1));
        }
        self.parts.prober.forget(uid);
        self.go_on_to(uid, Course::Stopped);
        Some(NOW)
    }

    /// A pod of which nothing runs any more.
    async fn settle(&self, uid: &str, runtime: &dyn Runtime, seen: &Seen) -> Again {
        let (pod, admission, is_torn_down, vanishes) = self.known.read(uid, |entry| {
            let vanishes = entry.has_to_vanish();
            (
                Arc::clone(&entry.pod),
                entry.admission.clone(),
                entry.is_torn_down,
                vanishes,
            )
        })?;
        if admission != Admission::Refused {
            let status = self.tell(uid, runtime, Course::Stopped).await?;
            if seen.any_running() {
                // One that was begun while nobody looked, such as by an agent that was being ended.
                self.known.change(uid, |entry| entry.course = Course::Stopping);
                return Some(NOW);
            }
            let last = status::ended(&pod, &status);
            self.report(uid, &last, Course::Stopped);
        }
        let identity = PodIdentity::of(&pod);
        if !is_torn_down {
            if let Err(error) = self.parts.volumes.release(&identity).await {
                tracing::warn!(pod = %identity, %error, "cannot take volumes away");
                return Some(AGAIN);
            }
            self.parts.sources.forget(&identity);
            self.known.change(uid, |entry| entry.is_torn_down = true);
        }
        if !vanishes {
            return None;
        }
        if let Err(error) = self.remove(runtime, seen).await {
            tracing::warn!(pod = %identity, %error, "cannot remove what is left of a pod");
            return Some(AGAIN);
        }
        if let Err(error) = self.parts.volumes.tear_down(&identity).await {
            tracing::warn!(pod = %identity, %error, "cannot remove the folder of a pod");
            return Some(AGAIN);
        }
        self.remove_logs(&identity);
        let is_gone = self.known.read(uid, |entry| entry.is_gone)?;
        if is_gone {
            self.forget(uid);
        } else {
            self.reports.finish(uid);
        }
        None
    }

    /// Without a runtime nothing is done. A pod that never came to one can go.
    fn without_runtime(&self, uid: &str) -> Again {
        let (pod, vanishes, is_orphan) = self.known.read(uid, |entry| {
            let is_orphan = matches!(entry.origin, Origin::Runtime);
            (Arc::clone(&entry.pod), entry.has_to_vanish(), is_orphan)
        })?;
        let was_here = is_orphan || self.parts.settings.folder(uid).exists() || had_containers(&pod);
        if vanishes && !was_here {
            let is_gone = self.known.read(uid, |entry| entry.is_gone)?;
            if is_gone {
                self.forget(uid);
            } else {
                self.reports.finish(uid);
            }
        }
        None
    }

    /// Whether this node takes a pod; one that is here already it took before.
    async fn admit(&self, uid: &str, seen: &Seen) -> bool {
        let Some((pod, admission)) = self
            .known
            .read(uid, |entry| (Arc::clone(&entry.pod), entry.admission.clone()))
        else {
            return false;
        };
        match admission {
            Admission::Taken => return true,
            Admission::Refused => return false,
            Admission::Open => {}
        }
        let _fitting = self.fitting.lock().await;
        let is_here = !seen.sandboxes.is_empty() || !seen.containers.is_empty() || had_containers(&pod);
        let facts = self.parts.facts.borrow().clone();
        let refusal = if is_here || pod.status.as_ref().is_some_and(status::is_over) {
            None
        } else {
            let others = self.active_pods(uid);
            let closing = *self.is_closing.borrow();
            admission::refusal(&pod, &others, &facts, closing)
        };
        if let Some((reason, message)) = refusal {
            self.teller
                .pod(&pod, EventType::Warning, &reason, message.clone());
            let status = status::rejected(&pod, &reason, &message, self.parts.clock.now());
            self.known.change(uid, |entry| {
                entry.admission = Admission::Refused;
                entry.previous = Some(status.clone());
                entry.course = Course::Stopped;
            });
            self.report(uid, &status, Course::Stopped);
            return false;
        }
        self.known.change(uid, |entry| entry.admission = Admission::Taken);
        true
    }

    /// The pods that use something of this node, but for one, with the resources they were granted.
    pub(super) fn active_pods(&self, but: &str) -> Vec<Pod> {
        let entries = self.known.lock();
        let others = entries
            .iter()
            .filter(|(uid, entry)| *uid != but && entry.is_active());
        others.map(|(_, entry)| entry.granted()).collect()
    }

    /// Computes the status, and hands it on. `None` if the pod is gone.
    async fn tell(&self, uid: &str, runtime: &dyn Runtime, course: Course) -> Option<PodStatus> {
        let name = self.runtime_name(runtime).await;
        let facts = self.parts.facts.borrow().clone();
        let probes = self.parts.prober.results(uid);
        let now = self.parts.clock.now();
        let status = self.known.change(uid, |entry| {
            let pod = entry.granted();
            let messages = entry.messages.iter();
            let messages = messages
                .filter_map(|(id, text)| text.clone().map(|text| (id.clone(), text)))
                .collect();
            let (pending, progress) = entry.resizing();
            let kept = entry.kept.clone().unwrap_or_default();
            let status = status::status(&Input {
                pod: &pod,
                previous: entry.previous.as_ref(),
                seen: &entry.seen,
                probes: &probes,
                waiting: &entry.waiting,
                messages: &messages,
                actuated: &kept.actuated,
                resize: (pending.as_ref(), progress.as_ref()),
                runtime: &name,
                recursive_read_only: false,
                facts: &facts,
                course,
                end: entry.end.as_ref(),
                now,
            });
            entry.previous = Some(status.clone());
            status
        })?;
        self.report(uid, &status, course);
        Some(status)
    }

    fn report(&self, uid: &str, status: &PodStatus, course: Course) {
        if let Some(shown) = self.known.shown(uid) {
            let told = status::told(&shown, status, course, self.parts.clock.now());
            self.reports.set(uid, told);
        }
    }

    async fn runtime_name(&self, runtime: &dyn Runtime) -> String {
        let mut name = self.runtime_name.lock().await;
        if name.is_none() {
            let version = limited(self.parts.settings.start_limit, "Version", runtime.version()).await;
            *name = version.ok().map(|version| version.name);
        }
        name.clone().unwrap_or_default()
    }

    fn go_on_to(&self, uid: &str, course: Course) {
        self.known.change(uid, |entry| entry.course = course);
    }

    /// Whether another pod of its name has to leave first: containers are named by the pod's name.
    fn waits_for_namesake(&self, uid: &str) -> bool {
        let entries = self.known.lock();
        let Some(own) = entries.get(uid) else {
            return false;
        };
        let name = |entry: &Entry| {
            (
                entry.pod.metadata.namespace.clone(),
                entry.pod.metadata.name.clone(),
            )
        };
        let is_new = own.seen.sandboxes.is_empty() && !own.has_to_end();
        is_new
            && entries
                .iter()
                .any(|(other, entry)| other != uid && name(entry) == name(own) && entry.has_to_vanish())
    }

    /// Forgets a pod, and lets another one of its name begin.
    pub(super) fn forget(&self, uid: &str) {
        self.parts.adopted.remove(uid);
        let Some(gone) = self.known.lock().remove(uid) else {
            return;
        };
        self.parts.prober.forget(uid);
        self.images.forget(uid);
        self.reports.forget(uid);
        self.crashes().forget(|(pod, ..)| pod == uid);
        let entries = self.known.lock();
        for (other, entry) in entries.iter() {
            if entry.pod.metadata.name == gone.pod.metadata.name
                && entry.pod.metadata.namespace == gone.pod.metadata.namespace
            {
                self.queue.add(other.clone());
            }
        }
    }

    /// How long containers that failed wait.
    pub(super) fn crashes(&self) -> std::sync::MutexGuard<'_, Backoff<(String, String, String)>> {
        self.crashes
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    // --- Time ---

    fn deadline(&self, uid: &str) -> Option<Timestamp> {
        self.known.read(uid, |entry| {
            let seconds = entry.pod.spec.as_ref()?.active_deadline_seconds?;
            let told = entry.previous.as_ref().or(entry.pod.status.as_ref())?;
            let begun = told.start_time.as_ref()?.0;
            Some(backoff::after(
                begun,
                Duration::from_secs(u64::try_from(seconds).ok()?),
            ))
        })?
    }

    fn until_deadline(&self, uid: &str) -> Again {
        Some(backoff::until(self.parts.clock.now(), self.deadline(uid)?))
    }

    /// Ends a pod that was there for longer than it may.
    fn check_deadline(&self, uid: &str) {
        let is_over = self
            .deadline(uid)
            .is_some_and(|deadline| self.parts.clock.now() >= deadline);
        if !is_over {
            return;
        }
        let pod = self.known.change(uid, |entry| {
            entry.end.get_or_insert_with(|| End {
                reason: DEADLINE.0.to_owned(),
                message: DEADLINE.1.to_owned(),
                disruption: false,
            });
            Arc::clone(&entry.pod)
        });
        if let Some(pod) = pod {
            self.teller.pod(&pod, EventType::Normal, DEADLINE.0, DEADLINE.1);
        }
    }

    fn until_refresh(&self, uid: &str) -> Again {
        let refreshed = self.known.read(uid, |entry| entry.refreshed)??;
        let due = refreshed + self.refresh_of(uid);
        Some(due.saturating_duration_since(tokio::time::Instant::now()))
    }

    /// How often the volumes of this pod are brought up to date: spread, so that not all come at once.
    pub(super) fn refresh_of(&self, uid: &str) -> Duration {
        let every = self.parts.settings.refresh;
        let part = uid.bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        }) % 50;
        every + every * part / 100
    }

    // --- Leftovers ---

    /// Removes all of a pod.
    async fn remove(&self, runtime: &dyn Runtime, seen: &Seen) -> Result<(), RuntimeError> {
        let limit = self.parts.settings.stop_limit;
        for there in &seen.containers {
            limited(limit, "RemoveContainer", runtime.remove_container(&there.id)).await?;
        }
        for sandbox in &seen.sandboxes {
            limited(limit, "StopPodSandbox", runtime.stop_sandbox(&sandbox.id)).await?;
            limited(limit, "RemovePodSandbox", runtime.remove_sandbox(&sandbox.id)).await?;
        }
        Ok(())
    }

    /// Removes the logs of a pod that is gone.
    fn remove_logs(&self, pod: &PodIdentity) {
        let folder = self.parts.settings.log_folder(pod);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(folder = %folder.display(), %error, "cannot remove the logs of a pod");
            }
            _ => {}
        }
    }
}

/// Whether a pod ever had a container, as the API knows it.
fn had_containers(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.any(|status| status.container_id.as_ref().is_some_and(|id| !id.is_empty()))
}

// --- Entry ---

impl Entry {
    /// The pod with the resources it was granted.
    pub(super) fn granted(&self) -> Pod {
        match &self.kept {
            Some(kept) => kept.granted(&self.pod),
            None => Pod::clone(&self.pod),
        }
    }

    /// The change of resources that waits, and the one under way.
    fn resizing(&self) -> (Option<ResizePending>, Option<ResizeInProgress>) {
        use super::resize::Refusal;
        let pending = self.refusal.as_ref().map(|(refusal, generation)| {
            let (infeasible, message) = match refusal {
                Refusal::Infeasible(message) => (true, message.clone()),
                Refusal::Deferred(message) => (false, message.clone()),
            };
            ResizePending {
                infeasible,
                message,
                generation: *generation,
            }
        });
        let progress = self
            .kept
            .as_ref()
            .filter(|kept| kept.is_in_progress())
            .map(|_| ResizeInProgress {
                error: self.resize_error.clone(),
                generation: self.pod.metadata.generation,
            });
        (pending, progress)
    }

    /// What a container was last given.
    pub(super) fn note_given(&mut self, name: &str, resources: ResourceRequirements) {
        self.kept
            .get_or_insert_default()
            .actuated
            .insert(name.to_owned(), resources);
    }
}
