//! Decisions are made and carried out.

use std::sync::Arc;

use kubecontroller::manager::Stop;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    task::JoinSet,
    time::{Duration, Instant, MissedTickBehavior, interval},
};

use super::{
    ClaimStore,
    apply::apply,
    bind,
    figures::{Became, Figures},
    told::Told,
    write::Writer,
};
use crate::{
    core::{Core, Decision, Nominate},
    queue::Moment,
};

/// How many requests may be under way.
const REQUESTS: usize = 256;
/// How many decisions are made before others have their turn.
const AT_ONCE: u32 = 16;
/// How often it is looked whether somebody has waited long enough.
const TICK: Duration = Duration::from_secs(1);

/// A run of the scheduler.
pub(super) struct Work {
    core: Core,
    writer: Arc<Writer>,
    claims: ClaimStore,
    figures: Figures,
    tell: UnboundedSender<Told>,
    told: UnboundedReceiver<Told>,
    requests: JoinSet<()>,
    start: Instant,
}

impl Work {
    /// What was told so far is read first.
    pub(super) fn new(
        core: Core,
        writer: Writer,
        claims: ClaimStore,
        figures: Figures,
        (tell, told): (UnboundedSender<Told>, UnboundedReceiver<Told>),
    ) -> Self {
        Work {
            core,
            writer: Arc::new(writer),
            claims,
            figures,
            tell,
            told,
            requests: JoinSet::new(),
            start: Instant::now(),
        }
    }

    /// Until it is told to stop; then what is under way is finished, as far as the deadline allows.
    pub(super) async fn run(mut self, stop: &Stop) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut made = 0;
        while !stop.is_stopped() {
            while let Ok(told) = self.told.try_recv() {
                self.hear(told);
            }
            while self.requests.try_join_next().is_some() {}
            if self.requests.len() < REQUESTS && self.decide() {
                made += 1;
                if made % AT_ONCE == 0 {
                    self.figures.stands(&mut self.core);
                    tokio::task::yield_now().await;
                }
                continue;
            }
            self.figures.stands(&mut self.core);
            tokio::select! {
                Some(told) = self.told.recv() => self.hear(told),
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

    /// A moment of this run. It begins late, so that nobody seems to have waited since before.
    fn now(&self) -> Moment {
        self.start.elapsed() + Duration::from_hours(1)
    }

    /// Makes the next decision, if there is one to make.
    fn decide(&mut self) -> bool {
        let (begun, now) = (Instant::now(), self.now());
        let Some(decision) = self.core.next(now) else {
            return false;
        };
        self.figures.decided(begun.elapsed());
        self.carry_out(decision, begun);
        true
    }

    fn hear(&mut self, told: Told) {
        let now = self.now();
        match told {
            Told::Bound(uid, Ok(())) => self.core.bound(&uid),
            Told::Bound(uid, Err(message)) => {
                self.core.not_bound(&uid, now);
                // Who has it now, or nobody any more, needs no telling.
                if let Some(pod) = self.core.waiting_pod(&uid).cloned() {
                    // What it was promised while it was to be bound does not hold.
                    self.refuse(&pod, &message, false, &Nominate::Nowhere);
                }
            }
            Told::Preempted(uid, done) => self.core.preempted(&uid, done, now),
            told => apply(&mut self.core, told, now),
        }
    }

    fn carry_out(&mut self, decision: Decision, begun: Instant) {
        match decision {
            Decision::Bind {
                pod,
                node,
                volumes,
                attempt,
            } => {
                let figures = self.figures.clone();
                let waited = self.now().saturating_sub(attempt.came);
                let (writer, claims, tell) =
                    (Arc::clone(&self.writer), self.claims.clone(), self.tell.clone());
                self.requests.spawn(async move {
                    let result = bind::bind(&writer, &claims, &pod, &node, &volumes).await;
                    let became = if result.is_ok() {
                        writer.tell_bound(&pod, &node);
                        figures.bound(attempt, waited + begun.elapsed());
                        Became::Scheduled
                    } else {
                        Became::Error
                    };
                    figures.tried(&pod.spec.scheduler, became, begun.elapsed());
                    let _ = tell.send(Told::Bound(pod.uid.clone(), result));
                });
            }
            Decision::Refuse {
                pod,
                message,
                unschedulable,
                nominate,
                tried,
                preemption,
            } => {
                let became = if unschedulable {
                    Became::Unschedulable
                } else {
                    Became::Error
                };
                self.figures.tried(&pod.spec.scheduler, became, begun.elapsed());
                if tried {
                    self.figures.preempted(preemption.as_ref());
                }
                if let Some(preempt) = preemption {
                    let (writer, tell, pod) = (Arc::clone(&self.writer), self.tell.clone(), Arc::clone(&pod));
                    self.requests.spawn(async move {
                        let done = writer.preempt(&pod, &preempt).await;
                        let _ = tell.send(Told::Preempted(pod.uid.clone(), done));
                    });
                }
                self.refuse(&pod, &message, unschedulable, &nominate);
            }
            Decision::Skip(pod) => self.writer.tell_skipped(&pod),
        }
    }

    fn refuse(
        &mut self,
        pod: &Arc<crate::object::Pod>,
        message: &str,
        unschedulable: bool,
        nominate: &Nominate,
    ) {
        self.writer.tell_refused(pod, message);
        if let Some(patch) = self.writer.refusal(pod, message, unschedulable, nominate) {
            let (writer, pod) = (Arc::clone(&self.writer), Arc::clone(pod));
            self.requests
                .spawn(async move { writer.patch_status(&pod, &patch).await });
        }
    }
}
