//! All informers of a process.

use std::{
    any::{Any, TypeId},
    fmt,
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use serde::de::DeserializeOwned;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    api::Api,
    apply::State,
    decode::Decoder,
    health::{InformerStats, Progress},
    identity::{Identity, Wire},
    informer::{Core, Informer, KeepAlive},
    list_watch::ListWatch,
    options::{InformerDefaults, InformerOptions},
    reflector::{Random, Reflection, Reflector},
    scope::InformerScope,
    subscribers::Command,
};
use crate::{metrics::Metrics, object::Object};

/// All informers of a process, one for each kind, stored type and scope. Clones are the same.
///
/// Each lives as long as somebody holds a handle or a subscription of it. Nothing here starts one that was not asked for.
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: kube::Client,
    random: Random,
    metrics: Option<Metrics>,
    defaults: InformerDefaults,
    shared: Arc<Shared>,
}

/// Two that want the same informer with other settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer of {informer} is there already, with another {setting}")]
pub struct InformerOptionsConflict {
    /// The informer.
    pub informer: String,
    /// The setting.
    pub setting: &'static str,
}

struct Shared {
    table: Mutex<Table>,
    /// Whether all of them have to stop.
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Identity, Entry>,
    tasks: JoinSet<()>,
    /// Where tasks run, once they may.
    runtime: Option<Handle>,
    /// How many came from sources of their own.
    sources: usize,
}

/// An informer, without a say in how long it lives.
struct Entry {
    /// A [`RegisteredInformer`].
    known: Box<dyn Any + Send>,
    /// `None` when nobody holds it any more.
    figures: Box<dyn Fn() -> Option<InformerStats> + Send>,
    progress: watch::Receiver<Progress>,
    /// Its task, until it is started.
    task: Option<BoxFuture<'static, ()>>,
}

/// What a handle is made of.
struct RegisteredInformer<T> {
    core: Weak<Core<T>>,
    commands: mpsc::WeakUnboundedSender<Command<T>>,
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
    /// SharedInformerFactory of a cluster.
    pub fn new(client: kube::Client) -> Self {
        SharedInformerFactory {
            client,
            random: Arc::new(random),
            metrics: None,
            defaults: InformerDefaults::default(),
            shared: Arc::new(Shared {
                table: Mutex::default(),
                stop: watch::Sender::new(false),
            }),
        }
    }

    /// With numbers from 0 to 1 that spread the waits after failures.
    #[must_use]
    pub fn with_random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(random);
        self
    }

    /// With figures of each informer that is asked for from now on.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// With other settings for those that are asked for without any.
    #[must_use]
    pub fn with_defaults(mut self, defaults: InformerDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// The settings of those that are asked for without any.
    pub fn default_options<T>(&self) -> InformerOptions<T> {
        self.defaults.options()
    }

    /// The client.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Objects that come from elsewhere. The informer is not shared but by its handles.
    pub fn from_list_watch<T: Object>(
        &self,
        name: impl Into<String>,
        source: impl ListWatch<T>,
        options: InformerOptions<T>,
    ) -> Informer<T> {
        let name = name.into();
        let identity = {
            let mut table = self.table();
            table.sources += 1;
            Identity {
                path: format!("{name} ({})", table.sources),
                scope: InformerScope::default(),
                wire: Wire::Objects,
                stored: TypeId::of::<T>(),
            }
        };
        let transform = options.transform.clone();
        let core = self.core(name, options);
        let state = State::new(Arc::clone(&core), transform);
        self.enter(identity, core, state, source)
    }

    /// Lets the informers begin, those that have been asked for and those that will be. Tasks run on the runtime that this is
    /// called in.
    pub fn start(&self) {
        let mut table = self.table();
        let Table {
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

    /// Waits until all that are there now are synced. One that is dropped meanwhile is not waited for.
    pub async fn wait_for_sync(&self) {
        let all: Vec<_> = {
            let mut table = self.table();
            table.sweep();
            table
                .entries
                .values()
                .map(|entry| entry.progress.clone())
                .collect()
        };
        for mut progress in all {
            // An error says that it is gone.
            let _ = progress.wait_for(|progress| progress.is_synced).await;
        }
    }

    /// Ends all watches and tasks, and waits for them. None starts again.
    pub async fn stop(&self) {
        self.shared.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut self.table().tasks);
        while tasks.join_next().await.is_some() {}
    }

    /// What each informer has done so far.
    pub fn stats(&self) -> Vec<InformerStats> {
        let table = self.table();
        let mut figures: Vec<_> = table
            .entries
            .values()
            .filter_map(|entry| (entry.figures)())
            .collect();
        figures.sort_by(|one, other| one.name.cmp(&other.name));
        figures
    }

    /// The informer that is there, with whatever settings; or one with those by default.
    pub(super) fn any<T: Object + DeserializeOwned>(&self, identity: Identity) -> Informer<T> {
        self.find(&identity)
            .unwrap_or_else(|| self.make(identity, self.default_options()))
    }

    pub(super) fn with<T: Object + DeserializeOwned>(
        &self,
        identity: Identity,
        options: InformerOptions<T>,
    ) -> Result<Informer<T>, InformerOptionsConflict> {
        let Some(informer) = self.find::<T>(&identity) else {
            return Ok(self.make(identity, options));
        };
        match informer.core.options.difference(&options) {
            None => Ok(informer),
            Some(setting) => Err(InformerOptionsConflict {
                informer: informer.name().to_owned(),
                setting,
            }),
        }
    }

    pub(super) fn find<T: Object>(&self, identity: &Identity) -> Option<Informer<T>> {
        let table = self.table();
        let known: &RegisteredInformer<T> = table.entries.get(identity)?.known.downcast_ref()?;
        known.informer(self.keep_alive())
    }

    pub(super) fn make<T: Object + DeserializeOwned>(
        &self,
        identity: Identity,
        options: InformerOptions<T>,
    ) -> Informer<T> {
        let core = self.core(identity.to_string(), options);
        let decoder = Decoder::new(core.options.transform.clone(), Arc::clone(&core.counts.decoded));
        let source = Api::new(self.client.clone(), identity.clone(), decoder, &core.options);
        let state = State::new(Arc::clone(&core), None);
        self.enter(identity, core, state, source)
    }

    fn core<T>(&self, name: String, options: InformerOptions<T>) -> Arc<Core<T>> {
        let metrics = self.metrics.as_ref().map(|metrics| metrics.informer(&name));
        Arc::new(Core::new(name, options, metrics.unwrap_or_default()))
    }

    fn enter<T: Object>(
        &self,
        identity: Identity,
        core: Arc<Core<T>>,
        state: State<T>,
        source: impl ListWatch<T>,
    ) -> Informer<T> {
        let (sender, commands) = mpsc::unbounded_channel();
        let reflected = Box::new(Reflection::new(state, source, commands));
        let reflector = Reflector::new(reflected, Arc::clone(&self.random));
        let task = run(reflector, self.shared.stop.subscribe());
        let known = RegisteredInformer {
            core: Arc::downgrade(&core),
            commands: sender.downgrade(),
        };
        let mut entry = Entry {
            known: Box::new(known.clone()),
            figures: Box::new(move || known.core().map(|core| core.figures())),
            progress: core.progress.subscribe(),
            task: Some(task),
        };
        let mut table = self.table();
        table.sweep();
        // Somebody may have been quicker.
        if let Some(there) = table.entries.get(&identity)
            && let Some(known) = there.known.downcast_ref::<RegisteredInformer<T>>()
            && let Some(informer) = known.informer(self.keep_alive())
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

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of an informer.
fn run(reflector: Reflector, mut stop: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = reflector.run() => {}
        }
    })
}

/// A number from 0 to 1, of the randomness that hash tables get.
fn random() -> f64 {
    let number = std::hash::RandomState::new().hash_one(0_u8);
    let upper = u32::try_from(number >> 32).expect("the upper half of a number has 32 bits");
    f64::from(upper) / f64::from(u32::MAX)
}

// --- Table ---

impl Table {
    /// Forgets informers that are gone, and tasks that have ended.
    fn sweep(&mut self) {
        self.entries.retain(|_, entry| (entry.figures)().is_some());
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
    /// What is there of it, if anybody holds it.
    fn core(&self) -> Option<Arc<Core<T>>> {
        (self.commands.strong_count() > 0).then(|| self.core.upgrade())?
    }

    fn informer(&self, keep_alive: KeepAlive) -> Option<Informer<T>> {
        Some(Informer {
            commands: self.commands.upgrade()?,
            core: self.core.upgrade()?,
            keep_alive,
        })
    }
}
