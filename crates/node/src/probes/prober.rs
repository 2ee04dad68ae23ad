//! The workers that look, and what they found.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kubecontroller::{Clock, events::EventRecorder};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{
    ProbeKind, ProbeResults,
    look::{Hands, Subject},
    plan::{Wanted, plan},
    schedule::{Tally, Times, share},
};
use crate::{
    Facts,
    pod::status::{PodSnapshot, first_address},
    runtime::{ContainerId, Runtime},
};

/// Looks at containers for as long as it is there.
pub struct Prober {
    shared: Arc<Shared>,
    hands: Hands,
    facts: watch::Receiver<Arc<Facts>>,
    /// The uids of pods of which a result changed.
    changed: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
    /// The workers of each pod; none for one that has no probes.
    pods: Mutex<HashMap<String, Workers>>,
}

/// Each for one run of a container. A worker that has nothing more to find stays here until its container is gone, so that it
/// is not begun again.
type Workers = BTreeMap<(ContainerId, ProbeKind), JoinSet<()>>;

struct Shared {
    clock: Clock,
    /// When the agent began, by both clocks.
    began: (Timestamp, Instant),
    /// By the uid of the pod.
    results: Mutex<HashMap<String, ProbeResults>>,
    /// Where it is told when a result changes.
    changes: mpsc::UnboundedSender<String>,
}

// --- Prober ---

impl Prober {
    /// One that runs commands with the runtime there is when they are due. The addresses of the node are those of pods with its
    /// network.
    pub fn new(
        runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
        facts: watch::Receiver<Arc<Facts>>,
        clock: Clock,
        recorder: EventRecorder,
    ) -> Self {
        let (changes, changed) = mpsc::unbounded_channel();
        let shared = Shared {
            began: (clock.now(), Instant::now()),
            clock,
            results: Mutex::default(),
            changes,
        };
        Prober {
            shared: Arc::new(shared),
            hands: Hands { runtime, recorder },
            facts,
            changed: tokio::sync::Mutex::new(changed),
            pods: Mutex::default(),
        }
    }

    /// Looks at what runs of the pod, and at nothing else of it any more. To be called whenever it was looked what is there.
    pub fn keep(&self, pod: &Pod, snapshot: &PodSnapshot) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.shared.retain(&uid, snapshot);
        let results = self.results(&uid);
        let plan = plan(pod, snapshot, &results);
        let mut pods = lock(&self.pods);
        if plan.is_empty() {
            pods.remove(&uid);
            return;
        }
        let workers = pods.entry(uid.clone()).or_default();
        workers.retain(|(id, kind), _| {
            let mut wanted = plan.iter();
            wanted.any(|wanted| wanted.id == *id && wanted.kind == *kind)
        });
        let missing: Vec<_> = plan
            .iter()
            .filter(|wanted| !workers.contains_key(&(wanted.id.clone(), wanted.kind)))
            .collect();
        if missing.is_empty() {
            return;
        }
        let facts = self.facts.borrow().clone();
        let address = first_address(pod, snapshot, &facts).map_or_else(String::new, |ip| ip.to_string());
        let pod = Arc::new(pod.clone());
        for wanted in missing {
            let key = (wanted.id.clone(), wanted.kind);
            workers.insert(key, self.begin(&uid, &pod, &address, wanted));
        }
    }

    fn begin(&self, uid: &str, pod: &Arc<Pod>, address: &str, wanted: &Wanted<'_>) -> JoinSet<()> {
        let subject = Subject {
            pod: pod.clone(),
            container: Arc::new(wanted.container.clone()),
            id: wanted.id.clone(),
            address: address.to_owned(),
            kind: wanted.kind,
            probe: wanted.probe.clone(),
        };
        let times = Times::of(wanted.kind, wanted.probe);
        let age = since(wanted.since, self.shared.clock.now());
        let up = self.shared.began.1.elapsed();
        let spread = share(&format!("{uid}/{}/{}", wanted.container.name, wanted.kind));
        let first = Instant::now() + times.first(age, up, spread);
        let mut worker = JoinSet::new();
        worker.spawn(work(
            self.shared.clone(),
            self.hands.clone(),
            uid.to_owned(),
            subject,
            (first, times.period),
        ));
        worker
    }

    /// Looks at nothing of that pod any more, and forgets what was found.
    pub fn forget(&self, uid: &str) {
        lock(&self.pods).remove(uid);
        lock(&self.shared.results).remove(uid);
    }

    /// What was found of a pod's containers by now.
    pub fn results(&self, uid: &str) -> ProbeResults {
        let found = lock(&self.shared.results).get(uid).cloned();
        found.unwrap_or_else(|| ProbeResults::new(self.shared.began.0))
    }

    /// The uid of a pod of which something else was found than before. Each change is told once; nothing is lost between calls.
    pub async fn changed(&self) -> String {
        match self.changed.lock().await.recv().await {
            Some(uid) => uid,
            // The other end is in `shared`, so this is never reached.
            None => std::future::pending().await,
        }
    }

    /// How many workers there are.
    #[cfg(test)]
    pub(super) fn workers(&self) -> usize {
        lock(&self.pods).values().map(BTreeMap::len).sum()
    }

    /// What they are for.
    #[cfg(test)]
    pub(super) fn kinds(&self) -> Vec<ProbeKind> {
        let pods = lock(&self.pods);
        pods.values()
            .flat_map(BTreeMap::keys)
            .map(|(_, kind)| *kind)
            .collect()
    }
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods = lock(&self.pods).len();
        f.debug_struct("Prober")
            .field("pods", &pods)
            .finish_non_exhaustive()
    }
}

// --- Shared ---

impl Shared {
    /// Forgets what was found of containers that run no more.
    fn retain(&self, uid: &str, snapshot: &PodSnapshot) {
        let mut results = lock(&self.results);
        if let Some(found) = results.get_mut(uid) {
            found.retain(|id| {
                snapshot
                    .containers
                    .iter()
                    .any(|snapshot| snapshot.id == *id && snapshot.is_running())
            });
        }
    }

    fn found(&self, uid: &str, subject: &Subject, outcome: super::Outcome) {
        let changed = {
            let mut results = lock(&self.results);
            let found = results
                .entry(uid.to_owned())
                .or_insert_with(|| ProbeResults::new(self.began.0));
            found.set(&subject.id, subject.kind, outcome)
        };
        if changed {
            // Who does not listen any more needs not know.
            let _ = self.changes.send(uid.to_owned());
        }
    }
}

/// Looks until there is nothing more to find.
async fn work(
    shared: Arc<Shared>,
    hands: Hands,
    uid: String,
    subject: Subject,
    (first, period): (Instant, Duration),
) {
    let mut tally = Tally::of(subject.kind, &subject.probe);
    let mut ticks = interval_at(first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Some(well) = subject.look(&hands).await else {
            continue;
        };
        let verdict = tally.count(well);
        if let Some(outcome) = verdict.outcome {
            shared.found(&uid, &subject, outcome);
        }
        if verdict.is_last {
            return;
        }
    }
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// What is locked here is never half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
