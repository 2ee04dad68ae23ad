//! Sees to it that a pod goes at its time.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    metrics::{MetricDesc, Metrics},
    store::Store,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::plan::{Plan, Stay, driving};
use crate::{
    context::Context,
    news::News,
    objects::{Condition, ConditionStatus, Node, Pod},
    resource::PODS,
    writer::{Place, Writer, is, only},
    written::second,
};

const REASON: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

const DELETIONS: MetricDesc = MetricDesc::counter(
    "taint_eviction_controller_pod_deletions_total",
    "Total number of Pods deleted by TaintEvictionController since its start.",
    &[],
);
const DELETION_TIME: MetricDesc = MetricDesc::histogram(
    "taint_eviction_controller_pod_deletion_duration_seconds",
    "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
    &[],
    &[
        0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
    ],
);

pub(super) struct Evictor {
    metrics: Metrics,
    writer: Writer,
    recorder: EventRecorder,
    clock: Clock,
    nodes: Store<Node>,
    pods: Store<Pod>,
    planned: Mutex<HashMap<Key, Planned>>,
}

/// What is to become of a pod, or has.
struct Planned {
    uid: Box<str>,
    at: Instant,
    /// Whether it was told that it goes now.
    is_told: bool,
    /// Whether it was asked to go.
    is_done: bool,
}

// --- Evictor ---

impl Evictor {
    pub(super) fn new(context: &Context, nodes: Store<Node>, pods: Store<Pod>) -> Self {
        Evictor {
            metrics: context.metrics.clone(),
            writer: context.writer.clone(),
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
            nodes,
            pods,
            planned: Mutex::default(),
        }
    }

    fn planned(&self) -> MutexGuard<'_, HashMap<Key, Planned>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was planned for a pod; if it was for later, that is told.
    fn cancel(&self, key: &Key) {
        let planned = self.planned().remove(key);
        if planned.is_some_and(|planned| !planned.is_told && planned.at > Instant::now()) {
            self.tell(key, "Cancelling deletion of Pod");
        }
    }

    fn tell(&self, key: &Key, what: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(key.name().to_owned()),
            namespace: Some(key.namespace().to_owned()),
            ..ObjectReference::default()
        };
        let message = format_args!("{what} {}/{}", key.namespace(), key.name());
        News::normal("TaintManagerEviction", message).tell(&self.recorder, &about);
    }

    /// What is to be done with a pod now.
    fn plan(&self, key: &Key, pod: &Pod) -> Plan {
        let now = Instant::now();
        let before = {
            let mut planned = self.planned();
            if planned
                .get(key)
                .is_some_and(|before| before.uid != pod.metadata.uid)
            {
                planned.remove(key);
            }
            match planned.get(key) {
                Some(before) if before.is_done => return Plan::Keep,
                before => before.map(|before| before.at),
            }
        };
        let node = self.nodes.get(&Key::new("", &pod.spec.node_name));
        let stay = match &node {
            Some(node) => Stay::of(driving(node), &pod.spec.tolerations),
            // The node is gone, and with it the reason; what was planned because of it stays.
            None => match before {
                Some(at) if at > now => return Plan::At(at),
                Some(_) => return Plan::Now { cancels: false },
                None => return Plan::Keep,
            },
        };
        let plan = Plan::new(stay, before, now);
        match plan {
            Plan::Keep | Plan::Now { cancels: true } => self.cancel(key),
            Plan::At(_) | Plan::Now { cancels: false } => {}
        }
        let at = match plan {
            Plan::Keep => return plan,
            Plan::At(at) => at,
            Plan::Now { .. } => now,
        };
        self.planned().entry(key.clone()).or_insert_with(|| Planned {
            uid: pod.metadata.uid.clone(),
            at,
            is_told: false,
            is_done: false,
        });
        plan
    }

    async fn evict(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        let was_told = (self.planned().get_mut(key))
            .is_some_and(|planned| std::mem::replace(&mut planned.is_told, true));
        if !was_told {
            self.tell(key, "Marking for deletion Pod");
        }
        let place = Place::new(&PODS, key.namespace(), key.name());
        let target = Condition::find(&pod.status.conditions, "DisruptionTarget");
        let is_target = target.is_some_and(|target| target.status == ConditionStatus::True);
        if !is_target || target.is_some_and(|target| &*target.reason != REASON) {
            let mut condition = json!({"type": "DisruptionTarget", "status": "True", "reason": REASON, "message": MESSAGE,
                "observedGeneration": pod.metadata.generation});
            if !is_target {
                condition["lastTransitionTime"] = json!(second(self.clock.now()));
            }
            let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
            let marked = self.writer.merge_lists::<Value>(place.part("status"), &patch);
            match marked.await {
                Err(error) if is_gone(&error) => return Ok(()),
                other => other?,
            };
        }
        match self.writer.delete(place, &only(&pod.metadata.uid)).await {
            Err(error) if is_gone(&error) => Ok(()),
            other => Ok(other?),
        }
    }
}

impl Reconciler for Evictor {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(pod) = self.pods.get(key) else {
            self.cancel(key);
            return Ok(Outcome::Done);
        };
        if pod.spec.node_name.is_empty() {
            return Ok(Outcome::Done);
        }
        match self.plan(key, &pod) {
            Plan::Keep => Ok(Outcome::Done),
            Plan::At(at) => Ok(Outcome::RequeueAfter(
                at.saturating_duration_since(Instant::now()),
            )),
            // Somebody else wanted that already.
            Plan::Now { .. } if pod.metadata.is_going() => Ok(Outcome::Done),
            Plan::Now { .. } => {
                self.evict(key, &pod).await?;
                self.metrics.increment(&DELETIONS, &[], 1);
                if let Some(planned) = self.planned().get_mut(key) {
                    planned.is_done = true;
                    self.metrics
                        .observe(&DELETION_TIME, &[], planned.at.elapsed().as_secs_f64());
                }
                Ok(Outcome::Done)
            }
        }
    }
}

/// Whether a pod is gone; another may have its name by now.
fn is_gone(error: &kube::Error) -> bool {
    is(error, 404) || is(error, 409)
}
