//! The manager of controllers and other runnables.

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use kube::Client;
use tokio::{task::JoinSet, time::timeout};
use tracing::{debug, info};

use super::{
    Config, ConfigError, ManagerContext, ManagerError, Runnable, Setup, Stop, process, setup::ErasedSetup,
    start_condition::StartCondition, supervisor::SupervisedRunnable,
};
use crate::{
    controller::{Controller, KeyFilter},
    events::EventRecorder,
    leader_election::{LeaderElectionConfig, LeaderElector},
};

/// Runs controllers and other runnables: first informers, then hooks, then runnables without leader election, then leader-only
/// runnables.
///
/// A manager dereferences to its [`ManagerContext`], which provides client, informers, metrics and events.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), kubecontroller::manager::ManagerError> {
/// use kubecontroller::manager::{BoxError, Config, Manager, Setup, Stop, task};
///
/// struct Greeter;
///
/// impl Setup for Greeter {
///     fn name(&self) -> &str { "greeter" }
///     fn resource(&self) -> &str { "greetings" }
///     async fn setup(&self, manager: &mut Manager) -> Result<(), BoxError> {
///         manager.add(task("greeter", |stop: Stop| async move { stop.stopped().await; Ok(()) }));
///         Ok(())
///     }
/// }
///
/// let mut manager = Manager::new(Config::default(), client);
/// manager.with(Greeter);
/// manager.setup().await?;
/// manager.run(Stop::new()).await
/// # }
/// ```
pub struct Manager {
    name: String,
    context: ManagerContext,
    setups: Vec<Arc<dyn ErasedSetup>>,
    /// The setups of enabled controllers.
    installed: Vec<Arc<dyn ErasedSetup>>,
    runnables: Vec<OwnedRunnable>,
    /// The setup that runs at the moment.
    installing: Option<SetupInProgress>,
    errors: Vec<String>,
}

/// A runnable and the setup that added it.
pub(super) struct OwnedRunnable {
    pub(super) supervised: SupervisedRunnable,
    pub(super) owner: Option<SetupOwner>,
}

/// The name and the resource of a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetupOwner {
    pub(super) name: String,
    pub(super) resource: String,
}

struct SetupInProgress {
    owner: SetupOwner,
    /// Whether the setup read the filter of its resource.
    is_filtered: bool,
}

// --- Manager ---

impl Manager {
    /// Creates the only manager of a process.
    pub fn new(config: Config, client: Client) -> Self {
        Manager::with_context("manager", ManagerContext::new(config, client))
    }

    /// Creates one of several managers of a process.
    pub fn with_context(name: &str, context: ManagerContext) -> Self {
        Manager {
            name: name.to_owned(),
            context,
            setups: Vec::new(),
            installed: Vec::new(),
            runnables: Vec::new(),
            installing: None,
            errors: Vec::new(),
        }
    }

    /// The name of the manager in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a reconciler. Setups run later, in the order in which they were added.
    pub fn with(&mut self, setup: impl Setup) -> &mut Self {
        self.with_any(Box::new(setup))
    }

    pub(super) fn with_any(&mut self, setup: Box<dyn ErasedSetup>) -> &mut Self {
        self.setups.push(setup.into());
        self
    }

    /// Adds a runnable. It is supervised: if it fails or panics, it is restarted while the others continue.
    pub fn add(&mut self, runnable: impl Runnable) -> &mut Self {
        self.add_when(runnable, Vec::new())
    }

    /// Adds a runnable that starts when all conditions hold.
    pub fn add_when(&mut self, runnable: impl Runnable, conditions: Vec<StartCondition>) -> &mut Self {
        let runnable: Arc<dyn Runnable> = Arc::new(runnable);
        let owner = self
            .installing
            .as_ref()
            .map(|installing| installing.owner.clone());
        if !self.context.board().insert(Arc::clone(&runnable)) {
            self.errors
                .push(format!("two runnables have the name {}", runnable.name()));
        }
        let supervised = SupervisedRunnable { runnable, conditions };
        self.runnables.push(OwnedRunnable { supervised, owner });
        self
    }

    /// Creates a controller with the configured workers, limits, queue and metrics, and with the filter of the resource whose
    /// setup runs.
    pub fn controller(&mut self, name: &str) -> Controller {
        let config = self.context.config();
        let settings = config.controller.clone();
        let workers = settings
            .max_concurrent
            .map_or(settings.workers, |max| max.min(settings.workers));
        let mut controller = Controller::new(name)
            .workers(workers)
            .cache_sync_timeout(config.informer.sync_timeout)
            .metrics(self.context.metrics())
            .clock(self.context.clock())
            .queue(|mut options| {
                options.backoff.base = settings.base_delay;
                options.backoff.max = settings.max_delay;
                options.max_retries = settings.max_retries;
                options
            });
        if let Some(rate) = settings.qps {
            // The rate limits retries too, so they need no token bucket of their own.
            controller = controller.rate(rate).queue(|mut options| {
                options.bucket = None;
                options
            });
        }
        if let Some(timeout) = settings.timeout {
            controller = controller.timeout(timeout);
        }
        match self.filter() {
            Some(filter) => controller.filter(filter),
            None => controller,
        }
    }

    /// The configured filter of the resource whose setup runs. [`Manager::controller`] applies it automatically.
    pub fn filter(&mut self) -> Option<KeyFilter> {
        let installing = self.installing.as_mut()?;
        installing.is_filtered = true;
        let text = self.context.config().filters.get(&installing.owner.resource)?;
        Some(text.parse().expect("the configuration validates filters"))
    }

    /// Creates an event recorder for a component.
    pub fn recorder(&self, component: &str) -> EventRecorder {
        self.context.events().recorder(component)
    }

    /// Runs the setups of all enabled controllers, in order. Ends with the first error.
    pub async fn setup(&mut self) -> Result<(), ManagerError> {
        check_names(&[self])?;
        self.install().await
    }

    /// Runs until `stop` is triggered or an error ends the manager. Starts servers, informers until they are synced, hooks,
    /// runnables without leader election, and leader-only runnables; stops them in reverse order, by the deadline of `stop`.
    pub async fn run(self, stop: Stop) -> Result<(), ManagerError> {
        let context = self.context.clone();
        process::run(&context, vec![self], Vec::new(), &stop).await
    }

    pub(super) async fn install(&mut self) -> Result<(), ManagerError> {
        for setup in self.setups.clone() {
            let owner = SetupOwner {
                name: setup.name().to_owned(),
                resource: setup.resource().to_owned(),
            };
            if let Some(reason) = self.disabled_reason(&owner) {
                info!(
                    controller = owner.name,
                    resource = owner.resource,
                    reason,
                    "controller is disabled"
                );
                continue;
            }
            let is_filtered = false;
            self.installing = Some(SetupInProgress { owner, is_filtered });
            let result = setup.setup(self).await;
            let installing = self.installing.take().expect("set above");
            let SetupOwner { name, resource } = installing.owner;
            result.map_err(|source| ManagerError::Setup {
                name: name.clone(),
                source,
            })?;
            if self.context.config().filters.contains_key(&resource) && !installing.is_filtered {
                let why =
                    format!("resource-filter.{resource}: the controller {name} does not support filters");
                return Err(ConfigError { errors: vec![why] }.into());
            }
            debug!(controller = name, resource, "controller is set up");
            self.installed.push(setup);
        }
        match self.errors.first() {
            None => Ok(()),
            Some(error) => Err(ManagerError::Setup {
                name: self.name.clone(),
                source: error.clone().into(),
            }),
        }
    }

    /// Why a controller is disabled.
    fn disabled_reason(&self, owner: &SetupOwner) -> Option<&'static str> {
        let config = self.context.config();
        if !config.selection.has(&owner.name, &owner.resource) {
            return Some("disabled by configuration");
        }
        let mut registered = super::Registration::all().into_iter();
        let needs_cluster = registered
            .any(|registration| registration.name() == owner.name && registration.metadata().no_portable);
        (config.portable && needs_cluster).then_some("not available in portable mode")
    }

    /// Runs informers, hooks and runnables until `stop` is triggered, and then stops the runnables.
    pub(super) async fn run_until_stopped(mut self, stop: Stop) -> Result<(), ManagerError> {
        let limit = self.config().informer.sync_timeout;
        debug!(manager = self.name, "starting informers");
        self.informers().start();
        match stop
            .unless_stopped(timeout(limit, self.informers().wait_for_sync()))
            .await
        {
            None => return Ok(()),
            Some(Err(_)) => return Err(ManagerError::CacheSyncTimeout(limit)),
            Some(Ok(())) => debug!(manager = self.name, "informers are synced"),
        }
        self.health().synced(&self.name);
        for setup in &self.installed {
            let Some(done) = stop.unless_stopped(setup.after_sync(&self)).await else {
                return Ok(());
            };
            let name = || setup.name().to_owned();
            done.map_err(|source| ManagerError::AfterSync { name: name(), source })?;
        }
        let runnables = std::mem::take(&mut self.runnables)
            .into_iter()
            .map(|owned| owned.supervised);
        let (leaders, everyone): (Vec<_>, Vec<_>) =
            runnables.partition(|supervised| supervised.runnable.leader_only());
        let supervisor = self.supervisor();
        // Two stops, because leader-only runnables stop before the others.
        let stop_leaders = Stop::new();
        let stop_everyone = Stop::new();
        let elector = self.elector()?;
        let everyone = {
            let supervisor = supervisor.clone();
            let stop = stop_everyone.clone();
            async move { supervisor.run(everyone, stop, &mut JoinSet::new()).await }
        };
        let leaders = {
            let stop = stop_leaders.clone();
            async move {
                match elector {
                    None => supervisor.run(leaders, stop, &mut JoinSet::new()).await,
                    Some(elector) => {
                        // Declared outside of `lead`, so that tasks aborted at the end of one term are joined before the next.
                        let tasks = tokio::sync::Mutex::new(JoinSet::new());
                        let lead = |stop: Stop| {
                            let supervisor = &supervisor;
                            let leaders = leaders.clone();
                            let tasks = &tasks;
                            async move {
                                let mut tasks = tasks.lock().await;
                                tasks.shutdown().await;
                                let turn = LeaderTasks(&mut tasks);
                                supervisor.run(leaders, stop, turn.0).await;
                            }
                        };
                        elector.run(&stop, lead).await;
                    }
                }
            }
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(everyone);
        let mut leading = JoinSet::new();
        leading.spawn(leaders);
        stop.stopped().await;
        info!(manager = self.name, "stopping leader tasks");
        // The later stages of the shutdown need a share of the remaining time.
        stop_leaders.stop(stop.remaining() / 5 * 4);
        while leading.join_next().await.is_some() {}
        info!(manager = self.name, "stopping other tasks");
        stop_everyone.stop(stop.remaining() / 5 * 4);
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    fn elector(&self) -> Result<Option<LeaderElector>, ManagerError> {
        let leader = &self.config().leader;
        if !leader.elect {
            return Ok(None);
        }
        let namespace = leader
            .namespace
            .as_deref()
            .unwrap_or(self.client().default_namespace());
        let mut options = LeaderElectionConfig::new(namespace, leader.name.as_deref().unwrap_or(&self.name));
        options.duration = leader.duration;
        options.renew_deadline = leader.renew_deadline;
        options.retry = leader.retry;
        let elector = LeaderElector::new(self.client().clone(), options).map_err(|bad| ConfigError {
            errors: vec![format!("leader election: {bad}")],
        })?;
        Ok(Some(elector.clock(self.clock().clone()).metrics(self.metrics())))
    }

    pub(super) fn runnables(&mut self) -> &mut Vec<OwnedRunnable> {
        &mut self.runnables
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = (&str, &str)> {
        self.setups.iter().map(|setup| (setup.name(), setup.resource()))
    }
}

impl Deref for Manager {
    type Target = ManagerContext;

    fn deref(&self) -> &ManagerContext {
        &self.context
    }
}

/// The tasks of a term as leader. They are aborted when the term is dropped, and joined before the next one.
struct LeaderTasks<'t>(&'t mut JoinSet<()>);

impl Drop for LeaderTasks<'_> {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}

/// Validates that every name in the configuration is that of a controller or a resource of the program.
pub(super) fn check_names(managers: &[&Manager]) -> Result<(), ConfigError> {
    let Some(context) = managers.first().map(|manager| &manager.context) else {
        return Ok(());
    };
    let owners: Vec<_> = managers.iter().flat_map(|manager| manager.owners()).collect();
    let resources: BTreeSet<&str> = owners.iter().map(|(_, resource)| *resource).collect();
    let names: BTreeSet<&str> = owners
        .iter()
        .flat_map(|(name, resource)| [*name, *resource])
        .collect();
    let added = managers.iter().flat_map(|manager| &manager.runnables);
    let added: BTreeSet<&str> = added.map(|owned| owned.supervised.runnable.name()).collect();
    let config = context.config();
    let list = |known: &BTreeSet<&str>| known.iter().copied().collect::<Vec<_>>().join(", ");
    let mut errors = Vec::new();
    for name in config.selection.unknown(|name| names.contains(name)) {
        errors.push(format!("unknown controller {name:?}; known: {}", list(&names)));
    }
    for resource in config
        .filters
        .keys()
        .filter(|resource| !resources.contains(resource.as_str()))
    {
        errors.push(format!(
            "resource-filter.{resource}: no controller handles this resource; known: {}",
            list(&resources)
        ));
    }
    for name in config.dependencies.keys() {
        if !names.contains(name.as_str()) && !added.contains(name.as_str()) {
            errors.push(format!(
                "dependencies.{name}: unknown controller; known: {}",
                list(&names)
            ));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ConfigError { errors })
    }
}
