//! The audit log backend: a queue, and a thread that writes.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use k3_api::time::Time;
use k3_task::Clock;
use parking_lot::Mutex;

use super::{
    AuditConfig,
    context::{AuditAttributes, AuditContext},
    event::{AuditEvent, RequestFacts},
    file::AuditSink,
    policy::{AuditPolicy, AuditStage},
};
use crate::metrics::Metrics;

/// So many events wait at most, and so many bytes of what was sent and answered.
const MAX_EVENTS: usize = 10_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How long the server waits at its end for the log to be written.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lost events are logged once per this number.
const LOG_EVERY: u64 = 1000;

/// The audit log backend: a queue and the thread that writes the file.
// upstream: staging/src/k8s.io/apiserver/plugin/pkg/audit/log/backend.go backend, ProcessEvents
pub(crate) struct Auditor {
    policy: AuditPolicy,
    clock: Clock,
    metrics: Arc<Metrics>,
    queue: AuditQueue,
}

struct AuditQueue {
    /// `None` at the end.
    events: Option<SyncSender<AuditEvent>>,
    /// What waits, in bytes.
    weight: Arc<AtomicUsize>,
    /// Closed by the writer thread when everything is written.
    written: Mutex<Receiver<()>>,
}

// --- Auditor ---

impl Auditor {
    /// Opens the log.
    pub(crate) fn new(config: AuditConfig, clock: Clock, metrics: Arc<Metrics>) -> io::Result<Arc<Self>> {
        let sink = AuditSink::open(config.log, clock.clone())?;
        let (sender, events) = mpsc::sync_channel(MAX_EVENTS);
        let (done, written) = mpsc::channel();
        let weight = Arc::new(AtomicUsize::new(0));
        let held = Arc::clone(&weight);
        let counted = Arc::clone(&metrics);
        thread::Builder::new()
            .name("audit".to_owned())
            .stack_size(8 << 20)
            .spawn(move || {
                write(&events, sink, &held, &counted);
                drop(done);
            })?;
        Ok(Arc::new(Auditor {
            policy: config.policy,
            clock,
            metrics,
            queue: AuditQueue {
                events: Some(sender),
                weight,
                written: Mutex::new(written),
            },
        }))
    }

    /// Starts auditing a request, if the policy matches.
    pub(crate) fn begin(self: &Arc<Self>, attributes: AuditAttributes<'_>) -> Option<Box<AuditContext>> {
        let mut context = self.new_context(attributes)?;
        context.process_event_stage(AuditStage::RequestReceived);
        Some(context)
    }

    /// Audits a request that was rejected before authentication completed.
    pub(crate) fn audit_authentication_failure(
        self: &Arc<Self>,
        attributes: AuditAttributes<'_>,
        code: u16,
        message: String,
    ) {
        if let Some(context) = self.new_context(attributes) {
            context.authentication_failed(code, message);
        }
    }

    fn new_context(self: &Arc<Self>, attributes: AuditAttributes<'_>) -> Option<Box<AuditContext>> {
        let audit_config = self.policy.evaluate(&attributes);
        let level = audit_config.map_or(0, |audit_config| audit_config.level as usize);
        self.metrics.audit.levels[level].count();
        Some(Box::new(AuditContext::new(
            Arc::clone(self),
            RequestFacts::new(attributes),
            audit_config?,
        )))
    }

    /// Queues an event unless the queue is full.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/types.go Sink
    pub(super) fn write(&self, event: AuditEvent) {
        let metrics = &self.metrics.audit;
        metrics.events.count();
        let weight = event.weight();
        let waiting = self.queue.weight.fetch_add(weight, Ordering::Relaxed);
        let sent = match &self.queue.events {
            Some(events) if waiting + weight <= MAX_BYTES => events.try_send(event),
            _ => Err(TrySendError::Full(event)),
        };
        if sent.is_err() {
            self.queue.weight.fetch_sub(weight, Ordering::Relaxed);
            lost(&self.metrics, "the queue is full");
        }
    }

    pub(super) fn now(&self) -> Time {
        Time::from(self.clock.system_time())
    }
}

/// Writes events until there will be no more.
fn write(events: &Receiver<AuditEvent>, mut sink: AuditSink, weight: &AtomicUsize, metrics: &Metrics) {
    while let Ok(event) = events.recv() {
        let mut next = Some(event);
        while let Some(event) = next {
            if let Err(error) = sink.write(&event.line()) {
                lost(metrics, &error.to_string());
            }
            weight.fetch_sub(event.weight(), Ordering::Relaxed);
            next = events.try_recv().ok();
        }
        // The queue is empty: flush, so that readers of the file see the event.
        if let Err(error) = sink.flush() {
            lost(metrics, &error.to_string());
        }
    }
}

fn lost(metrics: &Metrics, why: &str) {
    let lost = &metrics.audit.lost;
    if lost.get().is_multiple_of(LOG_EVERY) {
        tracing::error!(%why, lost = lost.get() + 1, "audit events lost");
    }
    lost.count();
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.queue.events = None;
        let written = self.queue.written.lock();
        if written.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("audit log not flushed within the shutdown timeout");
        }
    }
}

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auditor").finish_non_exhaustive()
    }
}
