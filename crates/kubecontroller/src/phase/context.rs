//! What handlers are given.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use futures_util::future::{FutureExt, select_all};
use kube::Client;
use tokio::sync::watch;

use super::{state::State, trouble::Trouble};
use crate::Clock;

/// The surroundings of a machine: what its handlers work with. Clones share.
#[derive(Clone)]
pub struct World {
    client: Client,
    clock: Clock,
    settings: Settings,
}

type Settings = Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;

/// What a handler is given. Clones share.
pub struct Context<R> {
    world: World,
    /// As the pass found it, with the changes of the children that ran before.
    resource: Arc<R>,
    phase: Arc<str>,
    last: Arc<State>,
    cancel: Cancel,
}

/// Tells handlers to stop. One is told when it, or one it was made from, is fired.
#[derive(Clone)]
pub(super) struct Cancel(Arc<Node>);

struct Node {
    fired: watch::Sender<bool>,
    parent: Option<Cancel>,
}

// --- World ---

impl World {
    /// A world with that client, the clock of the machine, and no settings.
    pub fn new(client: Client) -> Self {
        World {
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

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

// --- Context ---

impl<R> Context<R> {
    pub(super) fn new(world: World, resource: Arc<R>, phase: &str) -> Self {
        let (last, cancel) = (Arc::new(State::default()), Cancel::new());
        Context {
            world,
            resource,
            phase: phase.into(),
            last,
            cancel,
        }
    }

    /// The same for another handler of the tree.
    pub(super) fn at(&self, resource: Arc<R>, last: &State, cancel: Cancel) -> Self {
        let last = Arc::new(last.clone());
        Context {
            resource,
            last,
            cancel,
            ..self.clone()
        }
    }

    pub(super) fn cancel(&self) -> &Cancel {
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
        &self.world.client
    }

    /// The time of day.
    pub fn clock(&self) -> &Clock {
        &self.world.clock
    }

    /// What the world, or the machine's `prepare`, was given of that type. A fatal trouble if there is none.
    pub fn settings<T: Any + Send + Sync>(&self) -> Result<Arc<T>, Trouble> {
        let found = self.world.settings.get(&TypeId::of::<T>());
        let found = found.and_then(|found| Arc::clone(found).downcast().ok());
        found.ok_or_else(|| Trouble::fatal(format!("no settings of type {} were given", type_name::<T>())))
    }

    /// With something the handlers of this pass find by its type. For `prepare`.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, settings: T) -> Self {
        self.world = self.world.with(settings);
        self
    }

    /// Comes when the handler should stop: a sibling failed, or the phase's time is over. Handlers that do not listen are
    /// dropped where they wait; see [`Handler::grace`](super::Handler::grace).
    pub async fn cancelled(&self) {
        self.cancel.fired().await;
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.chain().any(|cancel| *cancel.0.fired.borrow())
    }
}

impl<R> Clone for Context<R> {
    fn clone(&self) -> Self {
        Context {
            world: self.world.clone(),
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

// --- Cancel ---

impl Cancel {
    fn new() -> Self {
        Cancel(Arc::new(Node {
            fired: watch::Sender::new(false),
            parent: None,
        }))
    }

    pub(super) fn child(&self) -> Self {
        Cancel(Arc::new(Node {
            fired: watch::Sender::new(false),
            parent: Some(self.clone()),
        }))
    }

    pub(super) fn fire(&self) {
        self.0.fired.send_replace(true);
    }

    fn chain(&self) -> impl Iterator<Item = &Cancel> {
        std::iter::successors(Some(self), |cancel| cancel.0.parent.as_ref())
    }

    pub(super) async fn fired(&self) {
        let fired = self.chain().map(|cancel| {
            let mut seen = cancel.0.fired.subscribe();
            // The sender lives as long as the chain that is borrowed here, so the wait ends by firing only.
            async move { seen.wait_for(|fired| *fired).await.is_ok() }.boxed()
        });
        select_all(fired).await;
    }
}
