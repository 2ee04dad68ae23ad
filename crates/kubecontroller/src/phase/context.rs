//! The context of a handler's run.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{error::PhaseError, state::HandlerState};
use crate::Clock;

/// What the handlers of a machine share: a client, a clock, and values by type. Cloning is cheap.
#[derive(Clone)]
pub struct MachineEnvironment {
    client: Client,
    clock: Clock,
    settings: Settings,
}

type Settings = Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;

/// The arguments of a handler's run. Cloning is cheap.
pub struct HandlerContext<R> {
    environment: MachineEnvironment,
    /// The object as the pass found it, with the changes of serial siblings that ran before.
    resource: Arc<R>,
    phase: Arc<str>,
    last: Arc<HandlerState>,
    cancel: CancellationToken,
}

// --- MachineEnvironment ---

impl MachineEnvironment {
    /// Creates an environment with the system clock and no values.
    pub fn new(client: Client) -> Self {
        MachineEnvironment {
            client,
            clock: Clock::system(),
            settings: Settings::default(),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a value that handlers look up by its type, e.g. a configuration or a client. A second value of the type replaces
    /// the first.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, settings: T) -> Self {
        Arc::make_mut(&mut self.settings).insert(TypeId::of::<T>(), Arc::new(settings));
        self
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn now(&self) -> k8s_openapi::jiff::Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for MachineEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineEnvironment")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl From<Client> for MachineEnvironment {
    fn from(client: Client) -> Self {
        MachineEnvironment::new(client)
    }
}

// --- HandlerContext ---

impl<R> HandlerContext<R> {
    pub(super) fn new(environment: MachineEnvironment, resource: Arc<R>, phase: &str) -> Self {
        let last = Arc::new(HandlerState::default());
        let cancel = CancellationToken::new();
        HandlerContext {
            environment,
            resource,
            phase: phase.into(),
            last,
            cancel,
        }
    }

    /// The context of another handler in the tree.
    pub(super) fn at(&self, resource: Arc<R>, last: &HandlerState, cancel: CancellationToken) -> Self {
        let last = Arc::new(last.clone());
        HandlerContext {
            resource,
            last,
            cancel,
            ..self.clone()
        }
    }

    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// The object. Handlers change its status with [`Step::change`](super::Step::change).
    pub fn resource(&self) -> &R {
        &self.resource
    }

    /// The object as a shared pointer, for spawned tasks.
    pub fn shared_resource(&self) -> Arc<R> {
        Arc::clone(&self.resource)
    }

    /// The phase whose handler runs.
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// The state of this handler after its last run; empty in the first run.
    pub fn last(&self) -> &HandlerState {
        &self.last
    }

    /// The client of the environment.
    pub fn client(&self) -> &Client {
        &self.environment.client
    }

    /// The clock of the environment.
    pub fn clock(&self) -> &Clock {
        &self.environment.clock
    }

    /// The value of a type that was added to the environment or by `prepare`. Its absence is a fatal error.
    pub fn settings<T: Any + Send + Sync>(&self) -> Result<Arc<T>, PhaseError> {
        let found = self.environment.settings.get(&TypeId::of::<T>());
        let found = found.and_then(|found| Arc::clone(found).downcast().ok());
        found.ok_or_else(|| {
            PhaseError::fatal(format!(
                "the environment has no value of type {}",
                type_name::<T>()
            ))
        })
    }

    /// Adds a value for the handlers of this pass. For use in `prepare`.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, settings: T) -> Self {
        self.environment = self.environment.with(settings);
        self
    }

    /// Completes when the handler should stop: a sibling failed, or the phase timed out. A handler that does not await it is
    /// dropped at its next await point; see [`PhaseHandler::grace`](super::PhaseHandler::grace).
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl<R> Clone for HandlerContext<R> {
    fn clone(&self) -> Self {
        HandlerContext {
            environment: self.environment.clone(),
            resource: Arc::clone(&self.resource),
            phase: Arc::clone(&self.phase),
            last: Arc::clone(&self.last),
            cancel: self.cancel.clone(),
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for HandlerContext<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Context");
        out.field("phase", &self.phase)
            .field("resource", &self.resource)
            .field("last", &self.last);
        out.finish_non_exhaustive()
    }
}
