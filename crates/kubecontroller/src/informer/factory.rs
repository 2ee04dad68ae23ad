//! The shared informers of a process.

use std::{
    any::{Any, TypeId},
    fmt,
    hash::BuildHasher,
    sync::{Arc, Weak},
};

use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    api_list_watch::ApiListWatch,
    decode::Decoder,
    event_handlers::InformerCommand,
    health::{InformerProgress, InformerStats},
    identity::{InformerIdentity, WireFormat},
    list_watch::ListWatch,
    options::{InformerDefaults, InformerOptions},
    reflector::{JitterSource, Reflector, TypedReflectorTarget},
    scope::InformerScope,
    shared_informer::{Informer, InformerCore, KeepAlive},
    store_updater::StoreUpdater,
};
use crate::{metrics::Metrics, object::Object};

/// Creates the informers of a process and shares them: one for each kind, stored type and scope. Clones share everything.
///
/// An informer runs while a handle, a registration or a stream of it exists. The factory itself keeps none alive, so a kind
/// that no controller reads any more is no longer watched.
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: kube::Client,
    jitter: JitterSource,
    metrics: Option<Metrics>,
    defaults: InformerDefaults,
    shared: Arc<FactoryShared>,
}

/// An informer was requested with other options than the shared informer has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer {informer} already exists with a different {setting}")]
pub struct InformerOptionsConflict {
    /// The name of the informer.
    pub informer: String,
    /// The first field of [`InformerOptions`] that differs.
    pub setting: &'static str,
}

struct FactoryShared {
    table: Mutex<InformerTable>,
    /// Set once, by [`SharedInformerFactory::stop`].
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct InformerTable {
    entries: HashMap<InformerIdentity, InformerEntry>,
    tasks: JoinSet<()>,
    /// The runtime for the tasks. `None` before [`SharedInformerFactory::start`].
    runtime: Option<Handle>,
    /// How many informers [`SharedInformerFactory::from_list_watch`] has created; makes their names unique.
    custom_sources: usize,
}

/// What the factory keeps of an informer: weak references only, so that it does not keep the informer alive.
struct InformerEntry {
    /// A [`RegisteredInformer`].
    registered: Box<dyn Any + Send>,
    /// `None` once the last handle is dropped.
    stats: Box<dyn Fn() -> Option<InformerStats> + Send>,
    progress: watch::Receiver<InformerProgress>,
    /// The task of the informer, until it is spawned.
    task: Option<BoxFuture<'static, ()>>,
}

/// The weak counterpart of an [`Informer`].
struct RegisteredInformer<T> {
    core: Weak<InformerCore<T>>,
    commands: mpsc::WeakUnboundedSender<InformerCommand<T>>,
}

// --- SharedInformerFactory ---

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactory")
            .field("informers", &self.stats())
            .finish_non_exhaustive()
    }
}

impl SharedInformerFactory {
    /// A factory for informers that list and watch with `client`.
    pub fn new(client: kube::Client) -> Self {
        SharedInformerFactory {
            client,
            jitter: Arc::new(random_fraction),
            metrics: None,
            defaults: InformerDefaults::default(),
            shared: Arc::new(FactoryShared {
                table: Mutex::default(),
                stop: watch::Sender::new(false),
            }),
        }
    }

    /// Replaces the source of randomness that spreads the backoff: numbers from 0 to 1. For tests.
    #[must_use]
    pub fn with_random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.jitter = Arc::new(random);
        self
    }

    /// Exports metrics of every informer that is created from now on.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Changes the options of informers that are requested without any.
    #[must_use]
    pub fn with_defaults(mut self, defaults: InformerDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// The options of informers that are requested without any.
    pub fn default_options<T>(&self) -> InformerOptions<T> {
        self.defaults.options()
    }

    /// The client that the informers list and watch with.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// An informer over another source than the API of the cluster. It is not shared with later calls.
    pub fn from_list_watch<T: Object>(
        &self,
        name: impl Into<String>,
        source: impl ListWatch<T>,
        options: InformerOptions<T>,
    ) -> Informer<T> {
        let name = name.into();
        let identity = {
            let mut table = self.table();
            table.custom_sources += 1;
            InformerIdentity {
                path: format!("{name} ({})", table.custom_sources),
                scope: InformerScope::default(),
                wire_format: WireFormat::Objects,
                stored_type: TypeId::of::<T>(),
            }
        };
        let transform = options.transform.clone();
        let core = self.core(name, options);
        let updater = StoreUpdater::new(Arc::clone(&core), transform);
        self.register(identity, core, updater, source)
    }

    /// Starts all informers, those that exist and those that are requested later. Their tasks run on the current tokio
    /// runtime.
    pub fn start(&self) {
        let mut table = self.table();
        let InformerTable {
            entries,
            tasks,
            runtime,
            ..
        } = &mut *table;
        let runtime = runtime.get_or_insert_with(Handle::current);
        for entry in entries.values_mut() {
            if let Some(task) = entry.task.take() {
                tasks.spawn_on(task, runtime);
            }
        }
    }

    /// Waits until every informer that exists now has synced. An informer that is dropped meanwhile does not count.
    pub async fn wait_for_sync(&self) {
        let all: Vec<_> = {
            let mut table = self.table();
            table.remove_dropped();
            table
                .entries
                .values()
                .map(|entry| entry.progress.clone())
                .collect()
        };
        for mut progress in all {
            // An error means that the informer was dropped.
            let _ = progress.wait_for(|progress| progress.is_synced).await;
        }
    }

    /// Ends all watches and waits for their tasks. Informers that are requested later never start.
    pub async fn stop(&self) {
        self.shared.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut self.table().tasks);
        while tasks.join_next().await.is_some() {}
    }

    /// What each informer has done so far, ordered by name.
    pub fn stats(&self) -> Vec<InformerStats> {
        let table = self.table();
        let mut stats: Vec<_> = table
            .entries
            .values()
            .filter_map(|entry| (entry.stats)())
            .collect();
        stats.sort_by(|one, other| one.name.cmp(&other.name));
        stats
    }

    /// The existing informer, whatever its options are, or a new one with the default options.
    pub(super) fn get_or_create<T: Object + DeserializeOwned>(
        &self,
        identity: InformerIdentity,
    ) -> Informer<T> {
        self.find(&identity)
            .unwrap_or_else(|| self.create(identity, self.default_options()))
    }

    pub(super) fn get_or_create_with<T: Object + DeserializeOwned>(
        &self,
        identity: InformerIdentity,
        options: InformerOptions<T>,
    ) -> Result<Informer<T>, InformerOptionsConflict> {
        let Some(informer) = self.find::<T>(&identity) else {
            return Ok(self.create(identity, options));
        };
        match informer.core.options.difference(&options) {
            None => Ok(informer),
            Some(setting) => Err(InformerOptionsConflict {
                informer: informer.name().to_owned(),
                setting,
            }),
        }
    }

    pub(super) fn find<T: Object>(&self, identity: &InformerIdentity) -> Option<Informer<T>> {
        let table = self.table();
        let registered: &RegisteredInformer<T> = table.entries.get(identity)?.registered.downcast_ref()?;
        registered.upgrade(self.keep_alive())
    }

    pub(super) fn create<T: Object + DeserializeOwned>(
        &self,
        identity: InformerIdentity,
        options: InformerOptions<T>,
    ) -> Informer<T> {
        let core = self.core(identity.to_string(), options);
        let decoder = Decoder::new(core.options.transform.clone(), Arc::clone(&core.counters.decoded));
        let source = ApiListWatch::new(self.client.clone(), identity.clone(), decoder, &core.options);
        // The decoder has applied the transform already.
        let updater = StoreUpdater::new(Arc::clone(&core), None);
        self.register(identity, core, updater, source)
    }

    fn core<T>(&self, name: String, options: InformerOptions<T>) -> Arc<InformerCore<T>> {
        let metrics = self.metrics.as_ref().map(|metrics| metrics.informer(&name));
        Arc::new(InformerCore::new(name, options, metrics.unwrap_or_default()))
    }

    fn register<T: Object>(
        &self,
        identity: InformerIdentity,
        core: Arc<InformerCore<T>>,
        updater: StoreUpdater<T>,
        source: impl ListWatch<T>,
    ) -> Informer<T> {
        let (sender, commands) = mpsc::unbounded_channel();
        let target = Box::new(TypedReflectorTarget::new(updater, source, commands));
        let reflector = Reflector::new(target, Arc::clone(&self.jitter));
        let task = run_until_stopped(reflector, self.shared.stop.subscribe());
        let registered = RegisteredInformer {
            core: Arc::downgrade(&core),
            commands: sender.downgrade(),
        };
        let mut entry = InformerEntry {
            registered: Box::new(registered.clone()),
            stats: Box::new(move || registered.core().map(|core| core.stats())),
            progress: core.progress.subscribe(),
            task: Some(task),
        };
        let mut table = self.table();
        table.remove_dropped();
        // Another thread may have created the informer since `find` released the lock. Its informer wins: two tasks for one
        // identity would watch twice.
        if let Some(existing) = table.entries.get(&identity)
            && let Some(registered) = existing.registered.downcast_ref::<RegisteredInformer<T>>()
            && let Some(informer) = registered.upgrade(self.keep_alive())
        {
            return informer;
        }
        if let Some(runtime) = table.runtime.clone()
            && let Some(task) = entry.task.take()
        {
            table.tasks.spawn_on(task, &runtime);
        }
        table.entries.insert(identity, entry);
        Informer {
            core,
            commands: sender,
            keep_alive: self.keep_alive(),
        }
    }

    fn keep_alive(&self) -> KeepAlive {
        self.shared.clone()
    }

    fn table(&self) -> MutexGuard<'_, InformerTable> {
        self.shared.table.lock()
    }
}

fn run_until_stopped(reflector: Reflector, mut stop: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = reflector.run() => {}
        }
    })
}

/// A random number from 0 to 1. Hash tables are seeded at random, which saves a dependency.
fn random_fraction() -> f64 {
    let number = std::hash::RandomState::new().hash_one(0_u8);
    let upper = u32::try_from(number >> 32).expect("the upper half of a u64 has 32 bits");
    f64::from(upper) / f64::from(u32::MAX)
}

// --- InformerTable ---

impl InformerTable {
    /// Removes informers whose last handle was dropped, and tasks that have ended.
    fn remove_dropped(&mut self) {
        self.entries.retain(|_, entry| (entry.stats)().is_some());
        while self.tasks.try_join_next().is_some() {}
    }
}

// --- RegisteredInformer ---

impl<T> Clone for RegisteredInformer<T> {
    fn clone(&self) -> Self {
        RegisteredInformer {
            core: Weak::clone(&self.core),
            commands: self.commands.clone(),
        }
    }
}

impl<T> RegisteredInformer<T> {
    /// The core, if a handle still exists.
    fn core(&self) -> Option<Arc<InformerCore<T>>> {
        (self.commands.strong_count() > 0).then(|| self.core.upgrade())?
    }

    fn upgrade(&self, keep_alive: KeepAlive) -> Option<Informer<T>> {
        Some(Informer {
            commands: self.commands.upgrade()?,
            core: self.core.upgrade()?,
            keep_alive,
        })
    }
}
