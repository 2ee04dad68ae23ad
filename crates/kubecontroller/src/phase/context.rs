//! What handlers are given.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{error::PhaseError, state::State};
use crate::Clock;

/// The surroundings of a machine: what its handlers work with. Clones share.
#[derive(Clone)]
pub struct MachineEnvironment {
    client: Client,
    clock: Clock,
    settings: Settings,
}

type Settings = Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;

/// What a handler is given. Clones share.
pub struct Context<R> {
    environment: MachineEnvironment,
    /// As the pass found it, with the changes of the children that ran before.
    resource: Arc<R>,
    phase: Arc<str>,
    last: Arc<State>,
    cancel: CancellationToken,
}

// --- MachineEnvironment ---

impl MachineEnvironment {
    /// A environment with that client, the clock of the machine, and no settings.
    pub fn new(client: Client) -> Self {
        MachineEnvironment {
            client,
            clock: Clock::system(),
            settings: Settings::default(),
        }
    }

    /// With another clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// With something handlers find by its type: settings, a client of something else, a pool. One per type; the last wins.
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

// --- Context ---

impl<R> Context<R> {
    pub(super) fn new(environment: MachineEnvironment, resource: Arc<R>, phase: &str) -> Self {
        let (last, cancel) = (Arc::new(State::default()), CancellationToken::new());
        Context {
            environment,
            resource,
            phase: phase.into(),
            last,
            cancel,
        }
    }

    /// The same for another handler of the tree.
    pub(super) fn at(&self, resource: Arc<R>, last: &State, cancel: CancellationToken) -> Self {
        let last = Arc::new(last.clone());
        Context {
            resource,
            last,
            cancel,
            ..self.clone()
        }
    }

    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// The object. It does not change under the handler; what is to be changed in it is answered with
    /// [`Step::change`](super::Step::change).
    pub fn resource(&self) -> &R {
        &self.resource
    }

    /// The same, to be kept.
    pub fn shared_resource(&self) -> Arc<R> {
        Arc::clone(&self.resource)
    }

    /// The phase.
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// What was known of this handler after its last run. Of the first run: nothing.
    pub fn last(&self) -> &State {
        &self.last
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.environment.client
    }

    /// The time of day.
    pub fn clock(&self) -> &Clock {
        &self.environment.clock
    }

    /// What the environment, or the machine's `prepare`, was given of that type. A fatal error if there is none.
    pub fn settings<T: Any + Send + Sync>(&self) -> Result<Arc<T>, PhaseError> {
        let found = self.environment.settings.get(&TypeId::of::<T>());
        let found = found.and_then(|found| Arc::clone(found).downcast().ok());
        found.ok_or_else(|| PhaseError::fatal(format!("no settings of type {} were given", type_name::<T>())))
    }

    /// With something the handlers of this pass find by its type. For `prepare`.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, settings: T) -> Self {
        self.environment = self.environment.with(settings);
        self
    }

    /// Comes when the handler should stop: a sibling failed, or the phase's time is over. Handlers that do not listen are
    /// dropped where they wait; see [`Handler::grace`](super::Handler::grace).
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl<R> Clone for Context<R> {
    fn clone(&self) -> Self {
        Context {
            environment: self.environment.clone(),
            resource: Arc::clone(&self.resource),
            phase: Arc::clone(&self.phase),
            last: Arc::clone(&self.last),
            cancel: self.cancel.clone(),
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for Context<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Context");
        out.field("phase", &self.phase)
            .field("resource", &self.resource)
            .field("last", &self.last);
        out.finish_non_exhaustive()
    }
}
