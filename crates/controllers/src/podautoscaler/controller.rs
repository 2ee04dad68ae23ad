//! Reconciles HorizontalPodAutoscalers: target, metrics, and the decision.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use k3_api::selector::label;
use k3_workloads::{ConditionStatus, Pod};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerSpec, MetricStatus};
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    metrics::{MetricDesc, Metrics, exponential_buckets},
    object::Object,
    selector::Selector,
    store::Index,
    writer::{ApiWriter, ObjectRef, WrittenObject, error_message, has_status_code},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    AutoscalerProjection, PERIOD,
    error::SelectPodsError,
    metrics_client::MetricsClient,
    proposal::{MetricError, MetricEvaluation, MetricProposal},
    replica_calculator::Tolerances,
    scaling_behavior::{ReplicaBounds, ScaleHistory},
    status::{ABLE, ACTIVE, AutoscalerStatus, LIMITED, TO_ZERO},
    target::{ScaleTarget, TargetFinder},
};
use crate::{context::ControllerContext, event_message::EventMessage, resource::HORIZONTAL_POD_AUTOSCALERS};

const RECONCILIATIONS: MetricDesc = MetricDesc::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    "Number of reconciliations of HPA controller. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
    &["action", "error"],
);
const RECONCILIATION_TIME: MetricDesc = MetricDesc::histogram(
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

// upstream: pkg/controller/podautoscaler/horizontal.go HorizontalController
pub(super) struct HorizontalPodAutoscalerController {
    own_metrics: Metrics,
    writer: ApiWriter,
    recorder: EventRecorder,
    clock: Clock,
    autoscalers: Informer<AutoscalerProjection>,
    /// By namespace.
    pods: Index<Pod>,
    targets: Arc<TargetFinder>,
    metrics: MetricsClient,
    memory: Mutex<HashMap<Key, AutoscalerMemory>>,
}

/// What is remembered of an autoscaler between two syncs. It is lost on restart.
#[derive(Default)]
struct AutoscalerMemory {
    history: ScaleHistory,
    /// Selector of its pods; `None` until it is known.
    selector: Option<Selector>,
}

/// The recommendation from all metrics.
struct ReplicaRecommendation {
    replicas: i32,
    /// The metric with the highest recommendation.
    name: String,
    statuses: Vec<MetricStatus>,
}

/// No recommendation could be computed.
struct NoRecommendation {
    why: String,
    statuses: Vec<MetricStatus>,
}

/// The decision about a target.
struct ScaleDecision {
    replicas: i32,
    reason: String,
    statuses: Vec<MetricStatus>,
}

// --- HorizontalPodAutoscalerController ---

impl Reconciler for HorizontalPodAutoscalerController {
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
        let mut status_update = AutoscalerStatus::new(&autoscaler, self.clock.now());
        let labels = match self.reconcile_autoscaler(&autoscaler, &mut status_update).await {
            Some((current, replicas)) => [action(current, replicas), "none"],
            None => ["none", "internal"],
        };
        self.own_metrics.increment(&RECONCILIATIONS, &labels, 1);
        self.own_metrics
            .observe(&RECONCILIATION_TIME, &labels, begun.elapsed().as_secs_f64());
        // Requeued after the sync period in any case, as upstream does.
        self.write_status(&request, &autoscaler, &status_update).await;
        Ok(Outcome::RequeueAfter(PERIOD))
    }
}

impl HorizontalPodAutoscalerController {
    pub(super) fn new(context: &ControllerContext, autoscalers: Informer<AutoscalerProjection>) -> Self {
        let targets = Arc::new(TargetFinder::new(&context.writer));
        HorizontalPodAutoscalerController {
            own_metrics: context.metrics.clone(),
            writer: context.writer.clone(),
            recorder: context.recorder.clone().component("horizontal-pod-autoscaler"),
            clock: context.clock.clone(),
            autoscalers,
            pods: context.pods().store().by_namespace(),
            metrics: MetricsClient::new(&context.writer, &targets),
            targets,
            memory: Mutex::default(),
        }
    }

    /// Updates the metric for the number of autoscalers.
    fn count(&self) {
        let count = u32::try_from(self.memory().len()).unwrap_or(u32::MAX);
        self.own_metrics.set_gauge(&AUTOSCALERS, &[], count.into());
    }

    /// Returns current and desired replicas; `None` if they are unknown.
    // upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler
    async fn reconcile_autoscaler(
        &self,
        autoscaler: &AutoscalerProjection,
        status_update: &mut AutoscalerStatus<'_>,
    ) -> Option<(i32, i32)> {
        let spec = &autoscaler.spec;
        let namespace = &autoscaler.metadata.namespace;
        let mut target = match self.targets.find(namespace, &spec.scale_target_ref).await {
            Ok(target) => target,
            Err(why) => {
                self.warn(autoscaler, "FailedGetScale", &why);
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {why}");
                status_update.set(ABLE, ConditionStatus::False, "FailedGetScale", message);
                return None;
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        status_update.set(ABLE, ConditionStatus::True, "SucceededGetScale", message);
        let current = target.spec_replicas();
        let now = self.clock.now();
        self.with_memory(autoscaler, |memory| {
            memory.history.record_initial_recommendation(current, now);
        });
        let ScaleDecision {
            replicas,
            reason,
            statuses,
        } = self.decide(autoscaler, &target, status_update).await?;
        if replicas == current {
            status_update.set_status(current, current, statuses);
            return Some((current, current));
        }
        if let Err(error) = target.scale(&self.writer, namespace, replicas).await {
            let why = error_message(&error);
            let message = format!("New size: {replicas}; reason: {reason}; error: {why}");
            self.warn(autoscaler, "FailedRescale", message);
            let message = format!("the HPA controller was unable to update the target scale: {why}");
            status_update.set(ABLE, ConditionStatus::False, "FailedUpdateScale", message);
            status_update.set_status(current, status_update.desired(), statuses);
            return None;
        }
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        status_update.set(ABLE, ConditionStatus::True, "SucceededRescale", message);
        let message = format!("New size: {replicas}; reason: {reason}");
        EventMessage::normal("SuccessfulRescale", message).record(
            &self.recorder,
            &autoscaler.metadata.reference(&HORIZONTAL_POD_AUTOSCALERS),
        );
        self.with_memory(autoscaler, |memory| {
            memory
                .history
                .record_scale_event(spec.behavior.as_ref(), current, replicas, now);
        });
        if current > 0 && replicas == 0 && min_replicas(spec) == 0 && has_object_or_external_metrics(spec) {
            let message = "the HPA controller scaled the workload to zero";
            status_update.set(TO_ZERO, ConditionStatus::True, "ScaledToZero", message);
        } else {
            let message = "the HPA controller did not scale the workload to zero";
            status_update.set(TO_ZERO, ConditionStatus::False, "NotScaledToZero", message);
        }
        status_update.set_status(current, replicas, statuses);
        status_update.record_scale_event();
        Some((current, replicas))
    }

    /// Desired replicas; `None` if they cannot be computed.
    // upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler
    async fn decide(
        &self,
        autoscaler: &AutoscalerProjection,
        target: &ScaleTarget,
        status_update: &mut AutoscalerStatus<'_>,
    ) -> Option<ScaleDecision> {
        let spec = &autoscaler.spec;
        let current = target.spec_replicas();
        let min_replicas = min_replicas(spec);
        let decided = |replicas: i32, reason: &str| {
            Some(ScaleDecision {
                replicas,
                reason: reason.to_owned(),
                statuses: Vec::new(),
            })
        };
        // A user who scales to zero disables autoscaling; replicas that the autoscaler removed are added back by it.
        let was_ours = status_update.is_condition_true(TO_ZERO);
        if current == 0 {
            if !(was_ours && (min_replicas != 0 || has_object_or_external_metrics(spec))) {
                let message = "scaling is disabled since the replica count of the target is zero";
                status_update.set(ACTIVE, ConditionStatus::False, "ScalingDisabled", message);
                return decided(0, "");
            }
        } else if current > spec.max_replicas {
            return decided(
                spec.max_replicas,
                "Current number of replicas above Spec.MaxReplicas",
            );
        } else if current < min_replicas {
            return decided(min_replicas, "Current number of replicas below Spec.MinReplicas");
        }
        let recommendation = match self.recommendation(autoscaler, target, status_update).await {
            Ok(recommendation) => recommendation,
            Err(NoRecommendation { why, statuses }) => {
                status_update.set_status(current, status_update.desired(), statuses);
                self.warn(autoscaler, "FailedComputeMetricsReplicas", why);
                return None;
            }
        };
        let advised = recommendation.replicas.max(0);
        let mut reason = match advised {
            more if more > current => format!("{} above target", recommendation.name),
            fewer if fewer < current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        let bounds = ReplicaBounds {
            min_replicas,
            max_replicas: spec.max_replicas,
        };
        let behavior = spec.behavior.as_ref();
        let now = self.clock.now();
        let paced = self.with_memory(autoscaler, |memory| {
            memory.history.normalize(behavior, current, advised, bounds, now)
        });
        status_update.set(ABLE, ConditionStatus::True, paced.able.0, paced.able.1);
        let limited = ConditionStatus::from(paced.is_limited);
        status_update.set(LIMITED, limited, paced.limit.0, paced.limit.1);
        let mut replicas = paced.replicas;
        if current == 0 && was_ours && replicas < min_replicas {
            replicas = min_replicas;
            if reason.is_empty() {
                "Current number of replicas below Spec.MinReplicas".clone_into(&mut reason);
            }
        }
        Some(ScaleDecision {
            replicas,
            reason,
            statuses: recommendation.statuses,
        })
    }

    /// The highest recommendation of all metrics. If a metric fails, the target is not scaled down.
    // upstream: pkg/controller/podautoscaler/horizontal.go computeReplicasForMetrics
    async fn recommendation(
        &self,
        autoscaler: &AutoscalerProjection,
        target: &ScaleTarget,
        status_update: &mut AutoscalerStatus<'_>,
    ) -> Result<ReplicaRecommendation, NoRecommendation> {
        let specs = autoscaler.spec.metrics.as_deref().unwrap_or_default();
        let pods = self
            .pods_of(autoscaler, target.selector(), status_update)
            .map_err(|error| NoRecommendation {
                why: error.to_string(),
                statuses: Vec::new(),
            })?;
        let question = MetricEvaluation {
            metrics: &self.metrics,
            namespace: &autoscaler.metadata.namespace,
            pods: &pods,
            selector: target.selector(),
            spec_replicas: target.spec_replicas(),
            status_replicas: target.status_replicas(),
            tolerances: Tolerances::of(autoscaler.spec.behavior.as_ref()),
            now: self.clock.now(),
        };
        let mut statuses = Vec::new();
        let mut failures = Vec::new();
        let mut best_proposal: Option<(i32, String)> = None;
        for spec in specs {
            let begun = Instant::now();
            let answer = question.evaluate(spec).await;
            let (done, error) = match &answer {
                Ok(proposal) => (action(target.spec_replicas(), proposal.replicas), "none"),
                Err(_) => ("none", "internal"),
            };
            let labels = [done, error, &*spec.type_];
            self.own_metrics.increment(&COMPUTATIONS, &labels, 1);
            self.own_metrics
                .observe(&COMPUTATION_TIME, &labels, begun.elapsed().as_secs_f64());
            match answer {
                Ok(MetricProposal {
                    replicas,
                    name,
                    status,
                }) => {
                    statuses.push(status);
                    if best_proposal
                        .as_ref()
                        .is_none_or(|(max, _)| *max == 0 || replicas > *max)
                    {
                        best_proposal = Some((replicas, name));
                    }
                }
                Err(failure) => {
                    self.warn(autoscaler, failure.reason, &failure.error_text);
                    statuses.push(MetricStatus::default());
                    failures.push(failure);
                }
            }
        }
        let (replicas, name) = best_proposal.unwrap_or_default();
        let Some(MetricError {
            reason,
            error_text,
            summary,
        }) = failures.first()
        else {
            return Ok(active(status_update, replicas, name, statuses));
        };
        if failures.len() < specs.len() && replicas >= target.spec_replicas() {
            return Ok(active(status_update, replicas, name, statuses));
        }
        let message = format!("the HPA was unable to compute the replica count: {error_text}");
        status_update.set(ACTIVE, ConditionStatus::False, reason, message);
        let failed = failures.len();
        let all = specs.len();
        Err(NoRecommendation {
            why: format!("invalid metrics ({failed} invalid out of {all}), first error is: {summary}"),
            statuses,
        })
    }

    /// The pods of a target, unless another autoscaler selects them too.
    // upstream: pkg/controller/podautoscaler/horizontal.go validateAndParseSelector
    fn pods_of(
        &self,
        autoscaler: &AutoscalerProjection,
        text: &str,
        status_update: &mut AutoscalerStatus<'_>,
    ) -> Result<Vec<Arc<Pod>>, SelectPodsError> {
        if text.is_empty() {
            let message = "the HPA target's scale is missing a selector";
            status_update.set(ACTIVE, ConditionStatus::False, "InvalidSelector", message);
            let error = SelectPodsError::Missing;
            self.warn(autoscaler, "SelectorRequired", &error);
            return Err(error);
        }
        let selector = label::parse(text)
            .map_err(SelectPodsError::from)
            .inspect_err(|error| {
                self.warn(autoscaler, "InvalidSelector", error);
                status_update.set(ACTIVE, ConditionStatus::False, "InvalidSelector", error);
            })?;
        let namespace = &*autoscaler.metadata.namespace;
        let mut pods = self.pods.get(namespace);
        pods.retain(|pod| selector.matches_with(|label| pod.label(label)));
        self.with_memory(autoscaler, |memory| memory.selector = Some(selector));
        let rivals = self.autoscalers_selecting(namespace, &pods);
        if rivals.len() > 1 {
            let named: Vec<_> = rivals.iter().take(2).map(Key::as_str).collect();
            let error = SelectPodsError::Ambiguous {
                selector: text.to_owned(),
                autoscalers: named.join(" "),
            };
            self.warn(autoscaler, "AmbiguousSelector", &error);
            status_update.set(ACTIVE, ConditionStatus::False, "AmbiguousSelector", &error);
            return Err(error);
        }
        Ok(pods)
    }

    /// The autoscalers that select one of these pods.
    // upstream: pkg/controller/podautoscaler/hpa_selector_store.go HPAsMatchingPods
    fn autoscalers_selecting(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<Key> {
        let memory = self.memory();
        let means = |selector: &Selector| {
            pods.iter()
                .any(|pod| selector.matches_with(|label| pod.label(label)))
        };
        let mut keys: Vec<_> = memory
            .iter()
            .filter(|(key, _)| key.namespace() == namespace)
            .filter(|(_, memory)| memory.selector.as_ref().is_some_and(means))
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort();
        keys
    }

    // upstream: pkg/controller/podautoscaler/horizontal.go updateStatusIfNeeded
    async fn write_status(
        &self,
        request: &Request,
        autoscaler: &AutoscalerProjection,
        status_update: &AutoscalerStatus<'_>,
    ) {
        let Some(patch) = status_update.patch() else {
            return;
        };
        let namespace = &autoscaler.metadata.namespace;
        let name = &autoscaler.metadata.name;
        let object_ref = ObjectRef::new(&HORIZONTAL_POD_AUTOSCALERS, namespace, name).subresource("status");
        match self.writer.merge_patch::<WrittenObject>(object_ref, &patch).await {
            Ok(written) => request.record_write(&self.autoscalers, &written.metadata.resource_version),
            Err(error) if has_status_code(&error, 404) => {}
            Err(error) => self.warn(autoscaler, "FailedUpdateStatus", error_message(&error)),
        }
    }

    fn warn(&self, autoscaler: &AutoscalerProjection, reason: &str, message: impl std::fmt::Display) {
        let about = autoscaler.metadata.reference(&HORIZONTAL_POD_AUTOSCALERS);
        EventMessage::warning(reason, message).record(&self.recorder, &about);
    }

    /// Runs `work` with what is remembered of an autoscaler.
    fn with_memory<T>(
        &self,
        autoscaler: &AutoscalerProjection,
        work: impl FnOnce(&mut AutoscalerMemory) -> T,
    ) -> T {
        work(self.memory().entry(autoscaler.key()).or_default())
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, AutoscalerMemory>> {
        self.memory.lock()
    }
}

fn active(
    status_update: &mut AutoscalerStatus<'_>,
    replicas: i32,
    name: String,
    statuses: Vec<MetricStatus>,
) -> ReplicaRecommendation {
    let message = format!("the HPA was able to successfully calculate a replica count from {name}");
    status_update.set(ACTIVE, ConditionStatus::True, "ValidMetricFound", message);
    ReplicaRecommendation {
        replicas,
        name,
        statuses,
    }
}

/// The metric label `action`.
fn action(current: i32, replicas: i32) -> &'static str {
    match replicas.cmp(&current) {
        Ordering::Less => "scale_down",
        Ordering::Equal => "none",
        Ordering::Greater => "scale_up",
    }
}

fn min_replicas(spec: &HorizontalPodAutoscalerSpec) -> i32 {
    spec.min_replicas.unwrap_or(1)
}

/// Whether a metric exists that does not depend on replicas (Object or External).
// upstream: pkg/controller/podautoscaler/horizontal.go hasObjectOrExternalMetrics
fn has_object_or_external_metrics(spec: &HorizontalPodAutoscalerSpec) -> bool {
    let mut metrics = spec.metrics.iter().flatten();
    metrics.any(|metric| matches!(&*metric.type_, "Object" | "External"))
}
