//! The event loop: applies informer events, schedules pods, writes decisions.

use std::sync::Arc;

use kubecontroller::manager::Stop;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    task::JoinSet,
    time::{Duration, Instant, MissedTickBehavior, interval},
};

use super::{
    ClaimStore,
    api_writer::SchedulerWriter,
    bind,
    event_handlers::apply,
    informer_event::InformerEvent,
    metrics::{AttemptResult, SchedulerMetrics},
};
use crate::{
    queue::Moment,
    scheduler_core::{Decision, FailureReason, NominatingInfo, SchedulerCore},
};

/// How many requests may be under way.
const REQUESTS: usize = 256;
/// How many decisions are made before others have their turn.
const AT_ONCE: u32 = 16;
/// How often backoff and unschedulable timeouts are checked.
const TICK: Duration = Duration::from_secs(1);

/// A run of the scheduler.
pub(super) struct EventLoop {
    core: SchedulerCore,
    writer: Arc<SchedulerWriter>,
    claims: ClaimStore,
    metrics: SchedulerMetrics,
    events: UnboundedSender<InformerEvent>,
    event: UnboundedReceiver<InformerEvent>,
    requests: JoinSet<()>,
    start: Instant,
}

impl EventLoop {
    /// What was event so far is read first.
    pub(super) fn new(
        core: SchedulerCore,
        writer: SchedulerWriter,
        claims: ClaimStore,
        metrics: SchedulerMetrics,
        (events, event): (UnboundedSender<InformerEvent>, UnboundedReceiver<InformerEvent>),
    ) -> Self {
        EventLoop {
            core,
            writer: Arc::new(writer),
            claims,
            metrics,
            events,
            event,
            requests: JoinSet::new(),
            start: Instant::now(),
        }
    }

    /// Until it is event to stop; then what is under way is finished, as far as the deadline allows.
    pub(super) async fn run(mut self, stop: &Stop) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut made = 0;
        while !stop.is_stopped() {
            while let Ok(event) = self.event.try_recv() {
                self.handle_informer_event(event);
            }
            while self.requests.try_join_next().is_some() {}
            if self.requests.len() < REQUESTS && self.schedule_one() {
                made += 1;
                if made % AT_ONCE == 0 {
                    self.metrics.set_pending_pods(&mut self.core);
                    tokio::task::yield_now().await;
                }
                continue;
            }
            self.metrics.set_pending_pods(&mut self.core);
            tokio::select! {
                Some(event) = self.event.recv() => self.handle_informer_event(event),
                Some(_) = self.requests.join_next(), if !self.requests.is_empty() => {}
                _ = tick.tick(), if self.core.is_ticking() => {
                    let now = self.now();
                    self.core.tick(now);
                }
                () = stop.stopped() => {}
            }
        }
        let requests = &mut self.requests;
        stop.until_expired(async move { while requests.join_next().await.is_some() {} })
            .await;
    }

    /// The time of this run. It starts late, so that no pod appears to have waited since before the start.
    fn now(&self) -> Moment {
        self.start.elapsed() + Duration::from_hours(1)
    }

    /// Makes the next decision, if there is one to make.
    fn schedule_one(&mut self) -> bool {
        let begun = Instant::now();
        let now = self.now();
        let Some(decision) = self.core.next(now) else {
            return false;
        };
        self.metrics.observe_algorithm(begun.elapsed());
        self.apply_decision(decision, begun);
        true
    }

    fn handle_informer_event(&mut self, event: InformerEvent) {
        let now = self.now();
        match event {
            InformerEvent::Bound(uid, Ok(())) => self.core.bound(&uid),
            InformerEvent::Bound(uid, Err(error)) => {
                self.core.not_bound(&uid, now);
                // A pod that was deleted, or bound by another scheduler, needs no event.
                if let Some(pod) = self.core.waiting_pod(&uid).cloned() {
                    // What it was promised while it was to be bound does not hold.
                    self.handle_scheduling_failure(
                        &pod,
                        &error.to_string(),
                        FailureReason::SchedulerError,
                        &NominatingInfo::Clear,
                    );
                }
            }
            InformerEvent::Preempted(uid, outcome) => self.core.preempted(&uid, outcome, now),
            event => apply(&mut self.core, event, now),
        }
    }

    fn apply_decision(&mut self, decision: Decision, begun: Instant) {
        match decision {
            Decision::Bind {
                pod,
                node,
                volumes,
                attempt,
            } => {
                let metrics = self.metrics.clone();
                let waited = self.now().saturating_sub(attempt.queued_at);
                let writer = Arc::clone(&self.writer);
                let claims = self.claims.clone();
                let events = self.events.clone();
                self.requests.spawn(async move {
                    let bound = bind::bind(&writer, &claims, &pod, &node, &volumes).await;
                    let result = if bound.is_ok() {
                        writer.record_scheduled(&pod, &node);
                        metrics.observe_scheduled_pod(attempt, waited + begun.elapsed());
                        AttemptResult::Scheduled
                    } else {
                        AttemptResult::Error
                    };
                    metrics.observe_attempt(&pod.spec.scheduler, result, begun.elapsed());
                    let _ = events.send(InformerEvent::Bound(pod.uid.clone(), bound));
                });
            }
            Decision::Fail {
                pod,
                message,
                reason,
                nominating_info,
                preemption_attempted,
                preemption,
            } => {
                let result = match reason {
                    FailureReason::Unschedulable => AttemptResult::Unschedulable,
                    FailureReason::SchedulerError => AttemptResult::Error,
                };
                self.metrics
                    .observe_attempt(&pod.spec.scheduler, result, begun.elapsed());
                if preemption_attempted {
                    self.metrics.observe_preemption(preemption.as_ref());
                }
                if let Some(preempt) = preemption {
                    let writer = Arc::clone(&self.writer);
                    let events = self.events.clone();
                    let pod = Arc::clone(&pod);
                    self.requests.spawn(async move {
                        let outcome = writer.preempt(&pod, &preempt).await;
                        let _ = events.send(InformerEvent::Preempted(pod.uid.clone(), outcome));
                    });
                }
                self.handle_scheduling_failure(&pod, &message, reason, &nominating_info);
            }
            Decision::Skip(pod) => self.writer.record_skipped(&pod),
        }
    }

    fn handle_scheduling_failure(
        &mut self,
        pod: &Arc<crate::object::Pod>,
        message: &str,
        reason: FailureReason,
        nominating_info: &NominatingInfo,
    ) {
        self.writer.record_failed_scheduling(pod, message);
        if let Some(patch) = self
            .writer
            .pod_condition_patch(pod, message, reason, nominating_info)
        {
            let writer = Arc::clone(&self.writer);
            let pod = Arc::clone(pod);
            self.requests
                .spawn(async move { writer.patch_status(&pod, &patch).await });
        }
    }
}
