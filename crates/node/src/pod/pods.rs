//! All pods of this node: who wakes their workers, and what others ask of them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kubecontroller::{
    informer::{Delta, InformerScope, SharedInformerFactory},
    manager::Stop,
    workqueue::{WorkQueue, WorkQueueOptions},
};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    Parts,
    backoff::Backoff,
    gate::Gate,
    known::{Entry, Known, Origin},
    look::Looker,
    report::Reports,
    statics,
    status::{Course, End, Seen},
    told::Teller,
    worker::Shared,
};
use crate::{
    PodIdentity,
    images::{self, Images},
    runtime::{Change, ContainerId, Runtime, RuntimeError, SandboxId},
};

/// After a stream of changes ended.
const RECONNECT: Duration = Duration::from_secs(2);

/// The pods of this node. Clones are the same.
#[derive(Clone)]
pub struct Pods {
    shared: Arc<Shared>,
}

/// A container, or a sandbox, that was found for somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub pod: PodIdentity,
    /// The pod's sandbox.
    pub sandbox: Option<SandboxId>,
    /// The newest container of the name.
    pub container: Option<ContainerId>,
    /// The one before it that has ended.
    pub previous: Option<ContainerId>,
}

/// A band of pods that are ended together when the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownBand {
    /// Pods of this priority and more, up to the next band.
    pub priority: i32,
    /// How long they have.
    pub time: Duration,
}

// --- Pods ---

impl Pods {
    /// Does nothing until it is run.
    pub fn new(parts: Parts) -> Self {
        let settings = &parts.settings;
        // Pulling is a part of starting a container, and bounded by the same setting.
        let limits = images::Limits {
            pull: settings.start_limit,
            look: settings.start_limit,
            ..settings.images
        };
        let pulled = parts.pulled.clone();
        let images = Images::new(limits, pulled, parts.recorder.clone(), parts.clock.clone());
        let teller = Teller::new(parts.recorder.clone());
        let client = parts.client.clone();
        let shared = Arc::new_cyclic(|this: &std::sync::Weak<Shared>| {
            let this = this.clone();
            let shown = Arc::new(move |uid: &str| this.upgrade()?.known.shown(uid));
            Shared {
                parts,
                known: Known::default(),
                queue: WorkQueue::new(WorkQueueOptions::default()),
                looker: Looker::default(),
                images,
                reports: Reports::new(client, shown),
                teller,
                crashes: std::sync::Mutex::new(Backoff::new(Duration::from_secs(10), Duration::from_mins(5))),
                is_closing: watch::Sender::new(false),
                mirrors: std::sync::Mutex::default(),
                found_all: watch::Sender::new(false),
                runtime_name: Mutex::default(),
                sandbox_gate: Gate::new(),
                container_gate: Gate::new(),
                fitting: Mutex::default(),
            }
        });
        Pods { shared }
    }

    /// Runs pods until it is told to end; their containers go on.
    pub async fn run(&self, stop: Stop) {
        let shared = &self.shared;
        let node = shared.parts.facts.borrow().node_name.clone();
        let informers = SharedInformerFactory::new(shared.parts.client.clone());
        let scope = InformerScope::default().fields(format!("spec.nodeName={node}"));
        let pods = informers.typed::<Pod>(scope);
        let handler = Arc::clone(shared);
        let subscription = pods.add_event_handler(move |delta| handler.heard(delta));
        informers.start();
        let mut static_pods = statics::Folder::new(Arc::clone(shared));
        let work = async {
            tokio::join!(
                self.dispatch(&stop),
                shared.reports.run(&stop),
                self.hear_runtime(),
                self.hear_probes(),
                async {
                    // Before all pods are known nobody can say which containers are nobody's.
                    subscription.wait_for_sync().await;
                    static_pods.read();
                    shared.found_all.send_replace(true);
                    tokio::join!(self.look_around(), static_pods.run());
                },
            );
        };
        stop.unless_stopped(Box::pin(work)).await;
        informers.stop().await;
    }

    /// Hands pods that are due to workers of their own.
    async fn dispatch(&self, stop: &Stop) {
        let mut workers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                Some(_) = workers.join_next() => {}
                job = self.shared.queue.next() => {
                    let Some(job) = job else { return };
                    let shared = Arc::clone(&self.shared);
                    workers.spawn(async move {
                        match shared.pass(job.key()).await {
                            Some(after) => job.requeue_after(after),
                            None => job.done(),
                        };
                    });
                }
            }
        }
    }

    /// Wakes pods when the runtime says that something of theirs has changed.
    async fn hear_runtime(&self) {
        let mut runtimes = self.shared.parts.runtime.clone();
        loop {
            let runtime = runtimes.borrow_and_update().clone();
            let Some(runtime) = runtime else {
                if runtimes.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
            if let Ok(mut changes) = runtime.changes().await {
                // What happened before somebody listened.
                self.shared.wake_all();
                while let Some(change) = changes.next().await {
                    match change {
                        Change::Pod { uid } => self.shared.wake(&uid),
                        Change::Any => self.shared.wake_all(),
                    }
                }
            }
            sleep(RECONNECT).await;
        }
    }

    async fn hear_probes(&self) {
        loop {
            let uid = self.shared.parts.prober.changed().await;
            self.shared.wake(&uid);
        }
    }

    /// From time to time looks at everything, whether something happened or not, and for what is nobody's.
    async fn look_around(&self) {
        let mut runtimes = self.shared.parts.runtime.clone();
        loop {
            let runtime = runtimes.borrow_and_update().clone();
            let due = match runtime {
                Some(runtime) => match self.shared.find_orphans(&*runtime).await {
                    Ok(()) => self.shared.parts.settings.relist,
                    Err(error) => {
                        tracing::warn!(%error, "cannot list containers");
                        RECONNECT
                    }
                },
                None => self.shared.parts.settings.relist,
            };
            // Another runtime is looked at at once.
            let _ = timeout(due, runtimes.changed()).await;
            self.shared.wake_all();
        }
    }

    // --- For others ---

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What is there of a pod now.
    pub(super) async fn seen_now(&self, uid: &str) -> Result<Arc<Seen>, RuntimeError> {
        let runtime = self.shared.parts.runtime.borrow().clone();
        let runtime = runtime.ok_or_else(|| RuntimeError::Unreachable {
            runtime: "the container runtime".to_owned(),
            reason: "none was found yet".to_owned(),
        })?;
        let limit = self.shared.parts.settings.start_limit;
        Ok(self.shared.looker.look(&*runtime, limit).await?.of(uid))
    }

    /// The container of a pod, for who wants to talk to it. A pod's only container need not be named; nor has its uid to be.
    pub fn find(&self, namespace: &str, name: &str, uid: Option<&str>, container: &str) -> Option<Found> {
        let entries = self.shared.known.lock();
        let mut matching: Vec<_> = entries
            .iter()
            .filter(|(id, entry)| {
                entry.pod.metadata.namespace.as_deref() == Some(namespace)
                    && entry.pod.metadata.name.as_deref() == Some(name)
                    && uid.is_none_or(|uid| uid == *id)
            })
            .collect();
        // Of two of a name the one that nobody has deleted.
        matching.sort_by_key(|(_, entry)| entry.has_to_vanish());
        let (_, entry) = matching.first()?;
        let mut of_name = entry.seen.all(container);
        let newest = of_name.next();
        Some(Found {
            pod: PodIdentity::of(&entry.pod),
            sandbox: entry.seen.ready_sandbox().map(|sandbox| sandbox.id.clone()),
            container: newest.map(|there| there.id.clone()),
            previous: of_name.next().map(|there| there.id.clone()),
        })
    }

    /// A pod by its name, as it is here.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let entries = self.shared.known.lock();
        let mut matching: Vec<_> = entries
            .values()
            .filter(|entry| {
                entry.pod.metadata.namespace.as_deref() == Some(namespace)
                    && entry.pod.metadata.name.as_deref() == Some(name)
            })
            .collect();
        matching.sort_by_key(|entry| entry.has_to_vanish());
        matching.first().map(|entry| Arc::clone(&entry.pod))
    }

    /// All pods as they are here, with their newest statuses.
    pub fn list(&self) -> Vec<Pod> {
        let entries = self.shared.known.lock();
        let mut pods: Vec<_> = entries
            .values()
            .filter(|entry| !matches!(entry.origin, Origin::Runtime))
            .map(|entry| {
                let mut pod = Pod::clone(&entry.pod);
                pod.status = entry.previous.clone().or(pod.status);
                pod
            })
            .collect();
        let key = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        pods.sort_by_key(key);
        pods
    }

    /// The newest status of a pod.
    pub fn status_of(&self, uid: &str) -> Option<PodStatus> {
        let found = |entry: &Entry| entry.previous.clone().or_else(|| entry.pod.status.clone());
        self.shared.known.read(uid, found).flatten()
    }

    /// Ends a pod for a reason of the node's, within so many seconds if they are said. It becomes Failed.
    pub fn evict(&self, uid: &str, reason: &str, message: &str, grace: Option<i64>) -> bool {
        let end = End {
            reason: reason.to_owned(),
            message: message.to_owned(),
            disruption: true,
        };
        self.shared.end(uid, end, grace)
    }

    /// Whether nothing of a pod runs any more; also if nobody knows it.
    pub fn is_stopped(&self, uid: &str) -> bool {
        self.shared
            .known
            .read(uid, |entry| entry.course == Course::Stopped)
            .unwrap_or(true)
    }

    /// Whether all pods of this node are known: before that nothing is thrown away.
    pub fn knows_all(&self) -> bool {
        *self.shared.found_all.borrow()
    }

    /// Ends all pods, band by band, those of the lowest priority first, and takes no new ones.
    pub async fn shut_down(&self, bands: &[ShutdownBand]) {
        self.shared.is_closing.send_replace(true);
        let mut bands = bands.to_vec();
        bands.sort_by_key(|band| band.priority);
        let mut by_band: HashMap<usize, Vec<(String, i64)>> = HashMap::new();
        for (uid, entry) in self.shared.known.lock().iter() {
            if entry.course != Course::Stopped {
                let spec = entry.pod.spec.as_ref();
                let priority = spec.and_then(|spec| spec.priority).unwrap_or(0);
                let at = bands
                    .iter()
                    .rposition(|band| band.priority <= priority)
                    .unwrap_or(0);
                by_band
                    .entry(at)
                    .or_default()
                    .push((uid.clone(), entry.effective_grace()));
            }
        }
        for (at, band) in bands.iter().enumerate() {
            let pods = by_band.remove(&at).unwrap_or_default();
            let most = i64::try_from(band.time.as_secs()).unwrap_or(i64::MAX);
            for (uid, grace) in &pods {
                let end = End {
                    reason: "Terminated".to_owned(),
                    message: "Pod was terminated in response to imminent node shutdown.".to_owned(),
                    disruption: true,
                };
                self.shared.end(uid, end, Some((*grace).min(most)));
            }
            let until = Instant::now() + band.time;
            while Instant::now() < until && !pods.iter().all(|(uid, _)| self.is_stopped(uid)) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

// --- Shared ---

impl Shared {
    /// Wakes the worker of a pod.
    pub(super) fn wake(&self, uid: &str) {
        if self.known.lock().contains_key(uid) {
            self.queue.add(uid.to_owned());
        }
    }

    /// Wakes all workers.
    pub(super) fn wake_all(&self) {
        let all: Vec<_> = self.known.lock().keys().cloned().collect();
        for uid in all {
            self.queue.add(uid);
        }
    }

    /// The API has said something of a pod.
    fn heard(&self, delta: &Delta<Pod>) {
        let pod = delta.object();
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        let is_gone = matches!(delta, Delta::Deleted { .. });
        if statics::is_mirror(pod) {
            self.heard_mirror(pod, is_gone);
            return;
        }
        let mut entries = self.known.lock();
        if is_gone && !entries.contains_key(&uid) {
            return;
        }
        self.parts.adopted.add(&uid);
        let entry = entries
            .entry(uid.clone())
            .or_insert_with(|| Entry::new(Arc::clone(pod), Origin::Api));
        entry.origin = Origin::Api;
        entry.pod = Arc::clone(pod);
        entry.is_gone = is_gone;
        entry.tell_halt();
        drop(entries);
        self.queue.add(uid);
    }

    /// Decides that a pod ends. Says whether there was something to decide.
    fn end(&self, uid: &str, end: End, grace: Option<i64>) -> bool {
        let ended = self.known.change(uid, |entry| {
            if entry.course == Course::Stopped {
                return false;
            }
            entry.end.get_or_insert(end);
            entry.grace = match (entry.grace, grace) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            entry.tell_halt();
            true
        });
        self.queue.add(uid.to_owned());
        ended == Some(true)
    }

    /// Finds containers and folders whose pods nobody knows, and lets them end.
    async fn find_orphans(&self, runtime: &dyn Runtime) -> Result<(), RuntimeError> {
        let picture = self.looker.look(runtime, self.parts.settings.start_limit).await?;
        for pod in picture.pods() {
            let mut entries = self.known.lock();
            if !entries.contains_key(&pod.uid) {
                tracing::info!(pod = %pod, "ends the containers of a pod that is gone");
                let mut known = Pod::default();
                known.metadata.namespace = Some(pod.namespace.clone());
                known.metadata.name = Some(pod.name.clone());
                known.metadata.uid = Some(pod.uid.clone());
                let mut entry = Entry::new(Arc::new(known), Origin::Runtime);
                entry.is_gone = true;
                entry.course = Course::Stopping;
                entries.insert(pod.uid.clone(), entry);
            }
        }
        self.remove_old_folders().await;
        Ok(())
    }

    /// Takes away the volumes and folders of pods that are gone, such as one that ended while the agent was away.
    async fn remove_old_folders(&self) {
        let left = match self.parts.volumes.left_behind().await {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(%error, "cannot look for folders of pods that are gone");
                return;
            }
        };
        for uid in left {
            if self.known.lock().contains_key(&uid) {
                continue;
            }
            let pod = PodIdentity {
                uid,
                ..PodIdentity::default()
            };
            if let Err(error) = self.parts.volumes.tear_down(&pod).await {
                tracing::warn!(pod = pod.uid, %error, "cannot take volumes away");
            }
        }
        self.remove_old_logs();
    }

    /// Removes the logs of pods that are gone, where the folder of logs is this node's own: elsewhere another agent of this
    /// machine may have its logs, too.
    fn remove_old_logs(&self) {
        let settings = &self.parts.settings;
        if !settings.logs.starts_with(&settings.root) {
            return;
        }
        let Ok(folders) = std::fs::read_dir(&settings.logs) else {
            return;
        };
        for folder in folders.flatten() {
            let name = folder.file_name();
            let uid = name
                .to_str()
                .and_then(|name| name.rsplit_once('_'))
                .map(|(_, uid)| uid);
            if uid.is_some_and(|uid| !self.known.lock().contains_key(uid))
                && let Err(error) = std::fs::remove_dir_all(folder.path())
            {
                tracing::warn!(folder = %folder.path().display(), %error, "cannot remove old logs");
            }
        }
    }
}
