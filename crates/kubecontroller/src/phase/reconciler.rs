//! A machine as a reconciler.
//!
//! Promises:
//! - A handler that has ended is not run again because the informer is behind: what was written last is remembered, and the
//!   newer of the two is worked on.
//! - What a pass came to is not lost when it cannot be written: it is kept, and written before anything else is done. Only if
//!   somebody changed the same fields meanwhile, or the program ends, is the pass repeated.
//! - The machine's own writes do not make it run early: between two passes is the defer, unless somebody else changes the
//!   object.
//! - Users are told, and figures count, what was written.

use std::{fmt, sync::Arc, time::Duration};

use kube::ResourceExt;
use tracing::warn;

use super::{
    annotations::{ongoing_finalizer, phase_label},
    context::MachineEnvironment,
    error::PhaseError,
    machine::Machine,
    memory::{Memory, Unsaved},
    metrics::PhaseMetrics,
    pass::{NextPass, Pass},
    persist::{Remote, WriteResult},
    phase_event::{PhaseEvent, PhaseEventSink},
    status::Phased,
};
use crate::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    metrics::Metrics,
    store::Store,
};

/// How soon a write is tried again at most.
const SOON: Duration = Duration::from_secs(1);

/// A machine that fetches, works on and writes the objects of a server.
///
/// What is written is what the pass changed and nothing else, so an edit of the spec, or of parts of the status that belong to
/// others, is never lost. If others changed the same fields meanwhile, theirs stay, and the pass is repeated upon them. What
/// cannot be written is kept and written later; a handler that has ended is not run again for it.
pub struct PhaseReconciler<R> {
    machine: Arc<Machine<R>>,
    environment: MachineEnvironment,
    /// Where objects are read; without it the server is asked each time.
    store: Option<Store<R>>,
    memory: Memory<R>,
    event_sink: Option<Arc<dyn PhaseEventSink>>,
    metrics: Option<PhaseMetrics>,
}

/// How a pass over an object of the server ended.
struct Ended<R> {
    object: Arc<R>,
    then: NextPass,
    unsaved: Option<Arc<Unsaved<R>>>,
}

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// The machine as a reconciler of the objects in the store of an informer.
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
    /// A reconciler that asks the server for the object in each pass.
    pub fn new(machine: Machine<R>, environment: impl Into<MachineEnvironment>) -> Self {
        let (machine, environment) = (Arc::new(machine), environment.into());
        PhaseReconciler {
            machine,
            environment,
            store: None,
            memory: Memory::default(),
            event_sink: None,
            metrics: None,
        }
    }

    /// Tells users what happens; a [`Recorder`](crate::events::EventRecorder) does.
    #[must_use]
    pub fn event_sink(mut self, event_sink: impl PhaseEventSink) -> Self {
        self.event_sink = Some(Arc::new(event_sink));
        self
    }

    /// Counts there.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.phases().clone());
        self
    }

    #[cfg(test)]
    pub(super) fn remembers_nothing(&self) -> bool {
        self.memory.is_empty()
    }

    /// The machine.
    pub fn machine(&self) -> &Arc<Machine<R>> {
        &self.machine
    }

    /// Which changes matter: of objects that have not ended, or are going or gone. For
    /// [`Controller::for_where`](crate::controller::Controller::for_where).
    pub fn interest(&self) -> Predicate<R> {
        let machine = Arc::clone(&self.machine);
        Predicate::new(move |delta: &Delta<R>| delta.new().is_none_or(|object| machine.wants(object)))
    }

    /// One pass over an object of the server.
    pub async fn pass(&self, key: &Key) -> Result<NextPass, Error> {
        let Some(seen) = self.fetch(key).await? else {
            self.memory.forget(key);
            return Ok(NextPass::Stop);
        };
        let memo = self.memory.recall(key, &seen);
        let object = memo.newest(seen);
        let remote = Remote::new::<R>(self.environment.client(), key);
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
        let Ended {
            object,
            then,
            unsaved,
        } = ended;
        self.memory.remember(key, object, then, unsaved, stored.as_ref());
        Ok(then)
    }

    async fn drive(&self, remote: &Remote<'_>, mut object: Arc<R>) -> Result<Ended<R>, Error> {
        let machine = &self.machine;
        if let Some(then) = machine.held(&object, self.environment.now()) {
            return Ok(Ended::new(object, then));
        }
        let ended = machine.is_terminal(&object);
        if machine.cleanup.is_some() && !ended {
            let finalizer = ongoing_finalizer::<R>();
            object = match remote.finalizer(&*object, &finalizer, true).await? {
                WriteResult::Same => object,
                WriteResult::Now(now) => Arc::new(now),
                WriteResult::Overtaken(now) => return Ok(Ended::again(now)),
                WriteResult::Gone => return Ok(Ended::new(object, NextPass::Stop)),
            };
        }
        let context = machine
            .prepared(&self.environment, &object)
            .await
            .map_err(|error| unprepared(&error))?;
        if ended {
            object = self.label(remote, object).await?;
            return Ok(Ended::new(object, NextPass::Stop));
        }
        let mut begun = R::clone(&object);
        let told = machine.begin(&mut begun, self.environment.now());
        object = match remote.write_status(&*object, &begun).await? {
            WriteResult::Same => object,
            WriteResult::Now(now) => Arc::new(now),
            WriteResult::Overtaken(now) => return Ok(Ended::again(now)),
            WriteResult::Gone => return Ok(Ended::new(object, NextPass::Stop)),
        };
        self.tell(&object, told.as_slice());
        let pass = machine.work(&context, R::clone(&object)).await;
        Ok(self.save(remote, object, pass).await)
    }

    /// Writes what a pass came to. That it cannot be written is no failure of the object: the pass is kept.
    async fn save(&self, remote: &Remote<'_>, base: Arc<R>, pass: Pass<R>) -> Ended<R> {
        let wait = self.machine.defer.max(SOON);
        let object = match remote.write_status(&*base, &pass.object).await {
            Ok(WriteResult::Same) => base,
            Ok(WriteResult::Now(now)) => Arc::new(now),
            Ok(WriteResult::Overtaken(now)) => return Ended::again(now),
            Ok(WriteResult::Gone) => return Ended::new(base, NextPass::Stop),
            Err(error) => {
                warn!(machine = self.machine.name(), object = base.name_any(), %error, "cannot write the status");
                if let Some(metrics) = &self.metrics {
                    metrics.unsaved(&self.machine);
                }
                let unsaved = Some(Arc::new(Unsaved {
                    base: Arc::clone(&base),
                    pass,
                }));
                return Ended {
                    object: base,
                    then: NextPass::After(wait),
                    unsaved,
                };
            }
        };
        self.tell(&object, &pass.notices);
        if let (Some(metrics), Some(worked)) = (&self.metrics, &pass.worked) {
            metrics.worked(&self.machine, worked);
        }
        match self.label(remote, Arc::clone(&object)).await {
            Ok(object) => Ended::new(object, pass.then),
            Err(error) => {
                warn!(machine = self.machine.name(), object = object.name_any(), %error, "cannot write the label");
                Ended::new(object, NextPass::After(wait))
            }
        }
    }

    async fn clean(&self, remote: &Remote<'_>, object: Arc<R>) -> Result<Ended<R>, Error> {
        let finalizer = ongoing_finalizer::<R>();
        if !object.finalizers().contains(&finalizer) {
            return Ok(Ended::new(object, NextPass::Stop));
        }
        let (pass, done) = self
            .machine
            .clean(&self.environment, &object)
            .await
            .map_err(|error| unprepared(&error))?;
        if !done {
            return Ok(self.save(remote, object, pass).await);
        }
        let object = match remote.finalizer(&*object, &finalizer, false).await? {
            WriteResult::Same | WriteResult::Gone => object,
            WriteResult::Now(now) => Arc::new(now),
            WriteResult::Overtaken(now) => return Ok(Ended::again(now)),
        };
        Ok(Ended::new(object, NextPass::Stop))
    }

    /// Writes the phase where selectors find it.
    async fn label(&self, remote: &Remote<'_>, object: Arc<R>) -> Result<Arc<R>, kube::Error> {
        Ok(
            match remote
                .label(&*object, &phase_label::<R>(), object.phase())
                .await?
            {
                WriteResult::Now(now) => Arc::new(now),
                WriteResult::Same | WriteResult::Overtaken(_) | WriteResult::Gone => object,
            },
        )
    }

    fn tell(&self, object: &R, notices: &[PhaseEvent]) {
        let Some(event_sink) = self.event_sink.as_ref().filter(|_| !notices.is_empty()) else {
            return;
        };
        let about = object.object_ref(&());
        for notice in notices {
            event_sink.tell(&about, notice);
        }
    }

    async fn fetch(&self, key: &Key) -> Result<Option<Arc<R>>, Error> {
        match &self.store {
            Some(store) => Ok(store.get(key)),
            None => Ok(Remote::new::<R>(self.environment.client(), key)
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

fn unprepared(error: &PhaseError) -> Error {
    let text = format!("cannot prepare: {error}");
    if error.looks_fatal() {
        Error::unknown(text)
    } else {
        Error::transient(text)
    }
}

// --- Ended ---

impl<R> Ended<R> {
    fn new(object: Arc<R>, then: NextPass) -> Self {
        Ended {
            object,
            then,
            unsaved: None,
        }
    }

    /// The same once more, upon what others made of the object.
    fn again(now: R) -> Self {
        Ended::new(Arc::new(now), NextPass::After(Duration::ZERO))
    }
}

impl<R> fmt::Debug for PhaseReconciler<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseReconciler")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}
