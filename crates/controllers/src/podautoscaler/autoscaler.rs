//! Looks at an autoscaler: at its target, its metrics, and what follows from them.

use std::{
    cmp::Ordering,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerSpec, MetricStatus};
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    metrics::{MetricDesc, Metrics as Figures, exponential_buckets},
    object::Object,
    selector::Selector,
    store::Index,
};
use tokio::time::Instant;

use super::{
    Autoscaler, PERIOD,
    calculate::Tolerances,
    pace::{Bounds, History},
    proposal::{Failure, Proposal, Question},
    source::Metrics,
    standing::{ABLE, ACTIVE, LIMITED, Standing, TO_ZERO},
    target::{Target, Targets},
};
use crate::{
    context::Context,
    news::News,
    objects::Pod,
    resource::HORIZONTAL_POD_AUTOSCALERS,
    writer::{Made, Place, Writer, is, words},
};

const LOOKS: MetricDesc = MetricDesc::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    "Number of reconciliations of HPA controller. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
    &["action", "error"],
);
const LOOK_TIME: MetricDesc = MetricDesc::histogram(
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    "The time(seconds) that the HPA controller takes to reconcile once. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
    &["action", "error"],
    &exponential_buckets::<15>(0.001, 2.0),
);
const COMPUTATIONS: MetricDesc = MetricDesc::counter(
    "horizontal_pod_autoscaler_controller_metric_computation_total",
    "Number of metric computations. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
    &["action", "error", "metric_type"],
);
const COMPUTATION_TIME: MetricDesc = MetricDesc::histogram(
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    "The time(seconds) that the HPA controller takes to calculate one metric. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
    &["action", "error", "metric_type"],
    &exponential_buckets::<15>(0.001, 2.0),
);
const AUTOSCALERS: MetricDesc = MetricDesc::gauge(
    "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
    "Current number of controlled HPA objects.",
    &[],
);

/// Looks at autoscalers.
pub(super) struct Autoscaling {
    figures: Figures,
    writer: Writer,
    recorder: EventRecorder,
    clock: Clock,
    autoscalers: Informer<Autoscaler>,
    /// By namespace.
    pods: Index<Pod>,
    targets: Arc<Targets>,
    metrics: Metrics,
    memory: Mutex<HashMap<Key, Memory>>,
}

/// What is remembered of an autoscaler between two looks. It is lost with the process, and then begins anew.
#[derive(Default)]
struct Memory {
    history: History,
    /// Its pods; `None` until they are known.
    selector: Option<Selector>,
}

/// What metrics say.
struct Advice {
    replicas: i32,
    /// The metric that asks for most.
    name: String,
    statuses: Vec<MetricStatus>,
}

/// A look that came to no advice.
struct NoAdvice {
    why: String,
    statuses: Vec<MetricStatus>,
}

/// What is to be done with a target.
struct Decision {
    replicas: i32,
    reason: String,
    statuses: Vec<MetricStatus>,
}

// --- Autoscaling ---

impl Reconciler for Autoscaling {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(autoscaler) = self.autoscalers.store().get(key) else {
            self.memory().remove(key);
            self.count();
            return Ok(Outcome::Done);
        };
        self.memory().entry(key.clone()).or_default();
        self.count();
        let begun = Instant::now();
        let mut standing = Standing::new(&autoscaler, self.clock.now());
        let labels = match self.look(&autoscaler, &mut standing).await {
            Some((current, replicas)) => [action(current, replicas), "none"],
            None => ["none", "internal"],
        };
        self.figures.increment(&LOOKS, &labels, 1);
        self.figures
            .observe(&LOOK_TIME, &labels, begun.elapsed().as_secs_f64());
        // Whatever came of it, it is looked at again at its time, and not earlier.
        self.write(&request, &autoscaler, &standing).await;
        Ok(Outcome::RequeueAfter(PERIOD))
    }
}

impl Autoscaling {
    pub(super) fn new(context: &Context, autoscalers: Informer<Autoscaler>) -> Self {
        let targets = Arc::new(Targets::new(&context.writer));
        Autoscaling {
            figures: context.metrics.clone(),
            writer: context.writer.clone(),
            recorder: context.recorder.clone().component("horizontal-pod-autoscaler"),
            clock: context.clock.clone(),
            autoscalers,
            pods: context.pods().store().by_namespace(),
            metrics: Metrics::new(&context.writer, &targets),
            targets,
            memory: Mutex::default(),
        }
    }

    /// Says how many autoscalers there are.
    fn count(&self) {
        let count = u32::try_from(self.memory().len()).unwrap_or(u32::MAX);
        self.figures.set_gauge(&AUTOSCALERS, &[], count.into());
    }

    /// Gives how many replicas there were, and how many there are to be; `None` if that could not be seen to.
    async fn look(&self, autoscaler: &Autoscaler, standing: &mut Standing<'_>) -> Option<(i32, i32)> {
        let (spec, namespace) = (&autoscaler.spec, &autoscaler.metadata.namespace);
        let mut target = match self.targets.find(namespace, &spec.scale_target_ref).await {
            Ok(target) => target,
            Err(why) => {
                self.warn(autoscaler, "FailedGetScale", &why);
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {why}");
                standing.set(ABLE, false, "FailedGetScale", message);
                return None;
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        standing.set(ABLE, true, "SucceededGetScale", message);
        let (current, now) = (target.wanted(), self.clock.now());
        self.remembered(autoscaler, |memory| memory.history.begin(current, now));
        let Decision {
            replicas,
            reason,
            statuses,
        } = self.decide(autoscaler, &target, standing).await?;
        if replicas == current {
            standing.found(current, current, statuses);
            return Some((current, current));
        }
        if let Err(error) = target.scale(&self.writer, namespace, replicas).await {
            let why = words(&error);
            let message = format!("New size: {replicas}; reason: {reason}; error: {why}");
            self.warn(autoscaler, "FailedRescale", message);
            let message = format!("the HPA controller was unable to update the target scale: {why}");
            standing.set(ABLE, false, "FailedUpdateScale", message);
            standing.found(current, standing.desired(), statuses);
            return None;
        }
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        standing.set(ABLE, true, "SucceededRescale", message);
        let message = format!("New size: {replicas}; reason: {reason}");
        News::normal("SuccessfulRescale", message).tell(
            &self.recorder,
            &autoscaler.metadata.reference(&HORIZONTAL_POD_AUTOSCALERS),
        );
        self.remembered(autoscaler, |memory| {
            memory
                .history
                .scaled(spec.behavior.as_ref(), current, replicas, now);
        });
        if current > 0 && replicas == 0 && least(spec) == 0 && measures_others(spec) {
            let message = "the HPA controller scaled the workload to zero";
            standing.set(TO_ZERO, true, "ScaledToZero", message);
        } else {
            let message = "the HPA controller did not scale the workload to zero";
            standing.set(TO_ZERO, false, "NotScaledToZero", message);
        }
        standing.found(current, replicas, statuses);
        standing.scaled();
        Some((current, replicas))
    }

    /// How many replicas there are to be; `None` if nobody can tell.
    async fn decide(
        &self,
        autoscaler: &Autoscaler,
        target: &Target,
        standing: &mut Standing<'_>,
    ) -> Option<Decision> {
        let spec = &autoscaler.spec;
        let (current, least) = (target.wanted(), least(spec));
        let decided = |replicas: i32, reason: &str| {
            Some(Decision {
                replicas,
                reason: reason.to_owned(),
                statuses: Vec::new(),
            })
        };
        // Whoever takes away all replicas by hand wants none; but what was taken away here is brought back here.
        let was_ours = standing.holds(TO_ZERO);
        if current == 0 {
            if !(was_ours && (least != 0 || measures_others(spec))) {
                let message = "scaling is disabled since the replica count of the target is zero";
                standing.set(ACTIVE, false, "ScalingDisabled", message);
                return decided(0, "");
            }
        } else if current > spec.max_replicas {
            return decided(
                spec.max_replicas,
                "Current number of replicas above Spec.MaxReplicas",
            );
        } else if current < least {
            return decided(least, "Current number of replicas below Spec.MinReplicas");
        }
        let advice = match self.advice(autoscaler, target, standing).await {
            Ok(advice) => advice,
            Err(NoAdvice { why, statuses }) => {
                standing.found(current, standing.desired(), statuses);
                self.warn(autoscaler, "FailedComputeMetricsReplicas", why);
                return None;
            }
        };
        let advised = advice.replicas.max(0);
        let mut reason = match advised {
            more if more > current => format!("{} above target", advice.name),
            fewer if fewer < current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        let bounds = Bounds {
            least,
            most: spec.max_replicas,
        };
        let (behavior, now) = (spec.behavior.as_ref(), self.clock.now());
        let paced = self.remembered(autoscaler, |memory| {
            memory.history.pace(behavior, current, advised, bounds, now)
        });
        standing.set(ABLE, true, paced.able.0, paced.able.1);
        standing.set(LIMITED, paced.is_limited, paced.limit.0, paced.limit.1);
        let mut replicas = paced.replicas;
        if current == 0 && was_ours && replicas < least {
            replicas = least;
            if reason.is_empty() {
                "Current number of replicas below Spec.MinReplicas".clone_into(&mut reason);
            }
        }
        Some(Decision {
            replicas,
            reason,
            statuses: advice.statuses,
        })
    }

    /// What the metrics say: the most that one of them asks for. Those that fail keep others from making it less.
    async fn advice(
        &self,
        autoscaler: &Autoscaler,
        target: &Target,
        standing: &mut Standing<'_>,
    ) -> Result<Advice, NoAdvice> {
        let specs = autoscaler.spec.metrics.as_deref().unwrap_or_default();
        let pods = self
            .pods_of(autoscaler, target.selector(), standing)
            .map_err(|why| NoAdvice {
                why,
                statuses: Vec::new(),
            })?;
        let question = Question {
            metrics: &self.metrics,
            namespace: &autoscaler.metadata.namespace,
            pods: &pods,
            selector: target.selector(),
            wanted: target.wanted(),
            actual: target.actual(),
            tolerances: Tolerances::of(autoscaler.spec.behavior.as_ref()),
            now: self.clock.now(),
        };
        let (mut statuses, mut failures) = (Vec::new(), Vec::new());
        let mut most: Option<(i32, String)> = None;
        for spec in specs {
            let begun = Instant::now();
            let answer = question.ask(spec).await;
            let (done, error) = match &answer {
                Ok(proposal) => (action(target.wanted(), proposal.replicas), "none"),
                Err(_) => ("none", "internal"),
            };
            let labels = [done, error, &*spec.type_];
            self.figures.increment(&COMPUTATIONS, &labels, 1);
            self.figures
                .observe(&COMPUTATION_TIME, &labels, begun.elapsed().as_secs_f64());
            match answer {
                Ok(Proposal {
                    replicas,
                    name,
                    status,
                }) => {
                    statuses.push(status);
                    if most
                        .as_ref()
                        .is_none_or(|(most, _)| *most == 0 || replicas > *most)
                    {
                        most = Some((replicas, name));
                    }
                }
                Err(failure) => {
                    self.warn(autoscaler, failure.reason, &failure.told);
                    statuses.push(MetricStatus::default());
                    failures.push(failure);
                }
            }
        }
        let (replicas, name) = most.unwrap_or_default();
        let Some(Failure { reason, told, whole }) = failures.first() else {
            return Ok(active(standing, replicas, name, statuses));
        };
        if failures.len() < specs.len() && replicas >= target.wanted() {
            return Ok(active(standing, replicas, name, statuses));
        }
        let message = format!("the HPA was unable to compute the replica count: {told}");
        standing.set(ACTIVE, false, reason, message);
        let (failed, all) = (failures.len(), specs.len());
        Err(NoAdvice {
            why: format!("invalid metrics ({failed} invalid out of {all}), first error is: {whole}"),
            statuses,
        })
    }

    /// The pods of a target, if they are those of one autoscaler alone.
    fn pods_of(
        &self,
        autoscaler: &Autoscaler,
        text: &str,
        standing: &mut Standing<'_>,
    ) -> Result<Vec<Arc<Pod>>, String> {
        if text.is_empty() {
            let message = "the HPA target's scale is missing a selector";
            standing.set(ACTIVE, false, "InvalidSelector", message);
            let why = "selector is required";
            self.warn(autoscaler, "SelectorRequired", why);
            return Err(why.to_owned());
        }
        let read = k3_api::selector::label::Selector::parse(text).map_err(|error| error.to_string());
        let parsed = read.and_then(|_| text.parse::<Selector>().map_err(|error| error.to_string()));
        let selector = parsed.map_err(|why| {
            let why =
                format!("couldn't convert selector into a corresponding internal selector object: {why}");
            self.warn(autoscaler, "InvalidSelector", &why);
            standing.set(ACTIVE, false, "InvalidSelector", &why);
            why
        })?;
        let namespace = &*autoscaler.metadata.namespace;
        let mut pods = self.pods.get(namespace);
        pods.retain(|pod| selector.matches(|label| pod.label(label)));
        self.remembered(autoscaler, |memory| memory.selector = Some(selector));
        let rivals = self.who_selects(namespace, &pods);
        if rivals.len() > 1 {
            let named: Vec<_> = rivals.iter().take(2).map(Key::as_str).collect();
            let named = named.join(" ");
            let why = format!("pods by selector {text} are controlled by more than one HPA (e.g. [{named}])");
            self.warn(autoscaler, "AmbiguousSelector", &why);
            standing.set(ACTIVE, false, "AmbiguousSelector", &why);
            return Err(why);
        }
        Ok(pods)
    }

    /// The autoscalers that mean one of these pods.
    fn who_selects(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<Key> {
        let memory = self.memory();
        let means = |selector: &Selector| pods.iter().any(|pod| selector.matches(|label| pod.label(label)));
        let mut keys: Vec<_> = memory
            .iter()
            .filter(|(key, _)| key.namespace() == namespace)
            .filter(|(_, memory)| memory.selector.as_ref().is_some_and(means))
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort();
        keys
    }

    async fn write(&self, request: &Request, autoscaler: &Autoscaler, standing: &Standing<'_>) {
        let Some(patch) = standing.patch() else {
            return;
        };
        let (namespace, name) = (&autoscaler.metadata.namespace, &autoscaler.metadata.name);
        let place = Place::new(&HORIZONTAL_POD_AUTOSCALERS, namespace, name).part("status");
        match self.writer.update::<Made>(place, &patch).await {
            Ok(made) => request.record_write(&self.autoscalers, &made.metadata.resource_version),
            Err(error) if is(&error, 404) => {}
            Err(error) => self.warn(autoscaler, "FailedUpdateStatus", words(&error)),
        }
    }

    fn warn(&self, autoscaler: &Autoscaler, reason: &str, message: impl std::fmt::Display) {
        let about = autoscaler.metadata.reference(&HORIZONTAL_POD_AUTOSCALERS);
        News::warning(reason, message).tell(&self.recorder, &about);
    }

    /// Does something with what is remembered of an autoscaler.
    fn remembered<T>(&self, autoscaler: &Autoscaler, work: impl FnOnce(&mut Memory) -> T) -> T {
        work(self.memory().entry(autoscaler.key()).or_default())
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn active(standing: &mut Standing<'_>, replicas: i32, name: String, statuses: Vec<MetricStatus>) -> Advice {
    let message = format!("the HPA was able to successfully calculate a replica count from {name}");
    standing.set(ACTIVE, true, "ValidMetricFound", message);
    Advice {
        replicas,
        name,
        statuses,
    }
}

/// What is done with replicas, in a word.
fn action(current: i32, replicas: i32) -> &'static str {
    match replicas.cmp(&current) {
        Ordering::Less => "scale_down",
        Ordering::Equal => "none",
        Ordering::Greater => "scale_up",
    }
}

fn least(spec: &HorizontalPodAutoscalerSpec) -> i32 {
    spec.min_replicas.unwrap_or(1)
}

/// Whether something is measured that is there without replicas.
fn measures_others(spec: &HorizontalPodAutoscalerSpec) -> bool {
    let mut metrics = spec.metrics.iter().flatten();
    metrics.any(|metric| matches!(&*metric.type_, "Object" | "External"))
}
