//! A state machine as a reconciler.
//!
//! Guarantees:
//! - A stale informer cache does not make a finished handler run again: the reconciler remembers the object it wrote last and
//!   works on the newer of the two.
//! - The result of a pass is not lost when it cannot be written: it is remembered and written before anything else. The pass
//!   is repeated only if another client changed the same fields meanwhile, or if the program restarts.
//! - The machine's own writes do not trigger an early pass: the defer interval is kept unless another client changes the
//!   object.
//! - Events and metrics report only what was written.
//! - A pass costs at most two writes, unless other clients write at the same time: either what must be stored before a handler
//!   runs (the finalizer, or the beginning of a phase), or the status after the run and the label.

use std::{fmt, sync::Arc, time::Duration};

use kube::ResourceExt;
use tracing::warn;

use super::{
    annotations::{ongoing_finalizer, phase_label},
    context::MachineEnvironment,
    error::PhaseError,
    metrics::PhaseMetrics,
    object_client::{ObjectClient, WriteResult},
    pass::{NextPass, PassResult, PassStep},
    pass_cache::{PassCache, Unsaved},
    phase_event::{PhaseEvent, PhaseEventSink},
    state_machine::StateMachine,
    status::Phased,
};
use crate::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    metrics::Metrics,
    store::Store,
};

/// The minimal delay before a failed write is retried.
const SOON: Duration = Duration::from_secs(1);

/// Reads, processes and writes the objects of a state machine.
///
/// A write contains only the fields that the pass changed, so edits of the spec, or of parts of the status that belong to
/// other clients, are never lost. If another client changed the same fields meanwhile, its values win and the pass is
/// repeated. A result that cannot be written is remembered and written later, without running the handler again.
pub struct PhaseReconciler<R> {
    machine: Arc<StateMachine<R>>,
    environment: MachineEnvironment,
    /// The source of objects; without it, each pass reads from the API server.
    store: Option<Store<R>>,
    memory: PassCache<R>,
    event_sink: Option<Arc<dyn PhaseEventSink>>,
    metrics: Option<PhaseMetrics>,
}

/// The result of a pass over an object of the server.
struct PassOutcome<R> {
    object: Arc<R>,
    then: NextPass,
    unsaved: Option<Arc<Unsaved<R>>>,
}

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// Creates a reconciler that reads objects from the store of an informer.
    pub fn into_reconciler(
        self,
        environment: impl Into<MachineEnvironment>,
        store: &Store<R>,
    ) -> PhaseReconciler<R> {
        PhaseReconciler {
            store: Some(store.clone()),
            ..PhaseReconciler::new(self, environment)
        }
    }
}

// --- PhaseReconciler ---

impl<R: Phased> PhaseReconciler<R> {
    /// Creates a reconciler that reads the object from the API server in each pass.
    pub fn new(machine: StateMachine<R>, environment: impl Into<MachineEnvironment>) -> Self {
        let machine = Arc::new(machine);
        let environment = environment.into();
        PhaseReconciler {
            machine,
            environment,
            store: None,
            memory: PassCache::default(),
            event_sink: None,
            metrics: None,
        }
    }

    /// Sends events to a sink, e.g. an [`EventRecorder`](crate::events::EventRecorder).
    #[must_use]
    pub fn event_sink(mut self, event_sink: impl PhaseEventSink) -> Self {
        self.event_sink = Some(Arc::new(event_sink));
        self
    }

    /// Counts transitions, failures and durations in these metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(PhaseMetrics(metrics.clone()));
        self
    }

    #[cfg(test)]
    pub(super) fn remembers_nothing(&self) -> bool {
        self.memory.is_empty()
    }

    /// The state machine.
    pub fn machine(&self) -> &Arc<StateMachine<R>> {
        &self.machine
    }

    /// The predicate that passes changes of objects that need work, and all deletions. For
    /// [`Controller::for_where`](crate::controller::Controller::for_where).
    pub fn predicate(&self) -> Predicate<R> {
        let machine = Arc::clone(&self.machine);
        Predicate::new(move |delta: &Delta<R>| delta.new().is_none_or(|object| machine.needs_work(object)))
    }

    /// Runs one pass over an object of the server.
    pub async fn pass(&self, key: &Key) -> Result<NextPass, Error> {
        let Some(seen) = self.fetch(key).await? else {
            self.memory.forget(key);
            return Ok(NextPass::Stop);
        };
        let memo = self.memory.recall(key, &seen);
        let object = memo.newest(seen);
        let remote = ObjectClient::new::<R>(self.environment.client(), key);
        let ended = if let Some(unsaved) = memo.unsaved {
            self.save(&remote, Arc::clone(&unsaved.base), unsaved.pass.clone())
                .await
        } else if let Some(then) = memo.not_yet(&object) {
            return Ok(then);
        } else if object.meta().deletion_timestamp.is_some() {
            self.clean(&remote, object).await?
        } else {
            self.drive(&remote, object).await?
        };
        let stored = self.store.as_ref().and_then(|store| store.get(key));
        let PassOutcome {
            object,
            then,
            unsaved,
        } = ended;
        self.memory.remember(key, object, then, unsaved, stored.as_ref());
        Ok(then)
    }

    /// Either stores what must be stored before the handler runs, or runs the handler and stores its result: in each case at
    /// most two writes.
    async fn drive(&self, remote: &ObjectClient<'_>, object: Arc<R>) -> Result<PassOutcome<R>, Error> {
        let machine = &self.machine;
        let finalizer = machine.cleanup.as_ref().map(|_| ongoing_finalizer::<R>());
        let step = machine.next_step(&self.environment, &object, finalizer.as_deref());
        match step.await.map_err(|error| prepare_error(&error))? {
            PassStep::Wait(then) => Ok(PassOutcome::new(object, then)),
            PassStep::AddFinalizer(finalizer) => {
                let written = remote.add_finalizer(&*object, &finalizer).await?;
                Ok(PassOutcome::stored(object, written))
            }
            PassStep::Ended => {
                let object = self.label(remote, object).await?;
                Ok(PassOutcome::new(object, NextPass::Stop))
            }
            PassStep::Begin {
                object: begun, event, ..
            } => {
                let written = remote.write_status(&*object, &begun).await?;
                if let WriteResult::Written(now) = &written {
                    if now.meta().resource_version == object.meta().resource_version {
                        let why = "the server did not keep the state: its schema of the status may lack it";
                        warn!(machine = self.machine.name(), object = object.name_any(), "{why}");
                        return Ok(PassOutcome::new(
                            object,
                            NextPass::After(self.machine.defer.max(SOON)),
                        ));
                    }
                    self.record(now, event.as_slice());
                }
                Ok(PassOutcome::stored(object, written))
            }
            PassStep::Run(context) => {
                let pass = machine.run_phase(&context, R::clone(&object)).await;
                Ok(self.save(remote, object, pass).await)
            }
        }
    }

    /// Writes the result of a pass. A failed write is not a failure of the object: the result is kept and written later.
    async fn save(&self, remote: &ObjectClient<'_>, base: Arc<R>, pass: PassResult<R>) -> PassOutcome<R> {
        let wait = self.machine.defer.max(SOON);
        let object = match remote.write_status(&*base, &pass.object).await {
            Ok(WriteResult::Unchanged) => base,
            Ok(WriteResult::Written(now)) => Arc::new(now),
            Ok(WriteResult::Conflict(now)) => return PassOutcome::repeat(now),
            Ok(WriteResult::NotFound) => return PassOutcome::new(base, NextPass::Stop),
            Err(error) => {
                warn!(machine = self.machine.name(), object = base.name_any(), %error, "failed to write status");
                if let Some(metrics) = &self.metrics {
                    metrics.unsaved(&self.machine);
                }
                let unsaved = Some(Arc::new(Unsaved {
                    base: Arc::clone(&base),
                    pass,
                }));
                return PassOutcome {
                    object: base,
                    then: NextPass::After(wait),
                    unsaved,
                };
            }
        };
        self.record(&object, &pass.events);
        if let (Some(metrics), Some(run)) = (&self.metrics, &pass.run) {
            metrics.worked(&self.machine, run);
        }
        match self.label(remote, Arc::clone(&object)).await {
            Ok(object) => PassOutcome::new(object, pass.then),
            Err(error) => {
                warn!(machine = self.machine.name(), object = object.name_any(), %error, "failed to write label");
                PassOutcome::new(object, NextPass::After(wait))
            }
        }
    }

    async fn clean(&self, remote: &ObjectClient<'_>, object: Arc<R>) -> Result<PassOutcome<R>, Error> {
        let finalizer = ongoing_finalizer::<R>();
        if !object.finalizers().contains(&finalizer) {
            return Ok(PassOutcome::new(object, NextPass::Stop));
        }
        let (pass, done) = self
            .machine
            .clean(&self.environment, &object)
            .await
            .map_err(|error| prepare_error(&error))?;
        if !done {
            return Ok(self.save(remote, object, pass).await);
        }
        let object = match remote.remove_finalizer(&*object, &finalizer).await? {
            WriteResult::Unchanged | WriteResult::NotFound => object,
            WriteResult::Written(now) => Arc::new(now),
            WriteResult::Conflict(now) => return Ok(PassOutcome::repeat(now)),
        };
        Ok(PassOutcome::new(object, NextPass::Stop))
    }

    /// Writes the phase as a label, for label selectors.
    async fn label(&self, remote: &ObjectClient<'_>, object: Arc<R>) -> Result<Arc<R>, kube::Error> {
        Ok(
            match remote
                .label(&*object, &phase_label::<R>(), object.phase())
                .await?
            {
                WriteResult::Written(now) => Arc::new(now),
                WriteResult::Unchanged | WriteResult::Conflict(_) | WriteResult::NotFound => object,
            },
        )
    }

    fn record(&self, object: &R, events: &[PhaseEvent]) {
        let Some(event_sink) = self.event_sink.as_ref().filter(|_| !events.is_empty()) else {
            return;
        };
        let about = object.object_ref(&());
        for event in events {
            event_sink.record(&about, event);
        }
    }

    async fn fetch(&self, key: &Key) -> Result<Option<Arc<R>>, Error> {
        match &self.store {
            Some(store) => Ok(store.get(key)),
            None => Ok(ObjectClient::new::<R>(self.environment.client(), key)
                .get()
                .await?
                .map(Arc::new)),
        }
    }
}

impl<R: Phased> Reconciler for PhaseReconciler<R> {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        Ok(match self.pass(&request.key).await? {
            NextPass::Stop => Outcome::Done,
            NextPass::After(wait) => Outcome::RequeueAfter(wait),
        })
    }
}

fn prepare_error(error: &PhaseError) -> Error {
    let text = format!("prepare failed: {error}");
    if error.is_fatal_by_default() {
        Error::unknown(text)
    } else {
        Error::transient(text)
    }
}

// --- PassOutcome ---

impl<R> PassOutcome<R> {
    fn new(object: Arc<R>, then: NextPass) -> Self {
        PassOutcome {
            object,
            then,
            unsaved: None,
        }
    }

    /// Another pass at once, after a write that precedes the handler's run.
    fn stored(before: Arc<R>, written: WriteResult<R>) -> Self {
        match written {
            WriteResult::Unchanged => PassOutcome::new(before, NextPass::After(Duration::ZERO)),
            WriteResult::Written(now) | WriteResult::Conflict(now) => PassOutcome::repeat(now),
            WriteResult::NotFound => PassOutcome::new(before, NextPass::Stop),
        }
    }

    /// Another pass at once, on the object as the server has it.
    fn repeat(now: R) -> Self {
        PassOutcome::new(Arc::new(now), NextPass::After(Duration::ZERO))
    }
}

impl<R> fmt::Debug for PhaseReconciler<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseReconciler")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}
