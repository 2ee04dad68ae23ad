//! Controllers together.

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

/// Runs controllers together: informers first, then hooks, then tasks, then what only a leader does.
///
/// It gives its setups what they need: see [`ManagerContext`], to which it dereferences.
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
    /// Those of the setups that run here.
    installed: Vec<Arc<dyn ErasedSetup>>,
    posts: Vec<OwnedRunnable>,
    /// What is set up at the moment.
    installing: Option<Installing>,
    errors: Vec<String>,
}

/// A post, and whose it is.
pub(super) struct OwnedRunnable {
    pub(super) post: SupervisedRunnable,
    pub(super) owner: Option<Owner>,
}

/// Name and resource of a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) resource: String,
}

struct Installing {
    owner: Owner,
    /// Whether somebody asked for the filter of the resource.
    is_filtered: bool,
}

// --- Manager ---

impl Manager {
    /// A manager on its own.
    pub fn new(config: Config, client: Client) -> Self {
        Manager::with_context("manager", ManagerContext::new(config, client))
    }

    /// One of several managers of a process.
    pub fn with_context(name: &str, context: ManagerContext) -> Self {
        Manager {
            name: name.to_owned(),
            context,
            setups: Vec::new(),
            installed: Vec::new(),
            posts: Vec::new(),
            installing: None,
            errors: Vec::new(),
        }
    }

    /// What it is called in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With a reconciler, which is set up later, in the order in which they came.
    pub fn with(&mut self, setup: impl Setup) -> &mut Self {
        self.with_any(Box::new(setup))
    }

    pub(super) fn with_any(&mut self, setup: Box<dyn ErasedSetup>) -> &mut Self {
        self.setups.push(setup.into());
        self
    }

    /// Adds something to run. It is supervised: if it fails or panics it is started again, and the others go on.
    pub fn add(&mut self, runnable: impl Runnable) -> &mut Self {
        self.add_when(runnable, Vec::new())
    }

    /// The same, begun when these gates are open.
    pub fn add_when(&mut self, runnable: impl Runnable, gates: Vec<StartCondition>) -> &mut Self {
        let runnable: Arc<dyn Runnable> = Arc::new(runnable);
        let owner = self
            .installing
            .as_ref()
            .map(|installing| installing.owner.clone());
        if !self.context.board().enter(Arc::clone(&runnable)) {
            self.errors
                .push(format!("there are two runnables called {}", runnable.name()));
        }
        let post = SupervisedRunnable { runnable, gates };
        self.posts.push(OwnedRunnable { post, owner });
        self
    }

    /// A controller that works as the configuration says: workers, limits, queue, figures, and the filter of the resource
    /// that is being set up.
    pub fn controller(&mut self, name: &str) -> Controller {
        let config = self.context.config();
        let told = config.controller.clone();
        let workers = told
            .max_concurrent
            .map_or(told.workers, |max| max.min(told.workers));
        let mut controller = Controller::new(name)
            .workers(workers)
            .cache_sync_timeout(config.informer.sync_timeout)
            .metrics(self.context.metrics())
            .clock(self.context.clock())
            .queue(|mut options| {
                options.backoff.base = told.base_delay;
                options.backoff.max = told.max_delay;
                options.max_retries = told.max_retries;
                options
            });
        if let Some(rate) = told.qps {
            // Retries are among them, and need no limit of their own.
            controller = controller.rate(rate).queue(|mut options| {
                options.bucket = None;
                options
            });
        }
        if let Some(timeout) = told.timeout {
            controller = controller.timeout(timeout);
        }
        match self.filter() {
            Some(filter) => controller.filter(filter),
            None => controller,
        }
    }

    /// The filter of the resource that is being set up, if there is one. [`Manager::controller`] takes it by itself.
    pub fn filter(&mut self) -> Option<KeyFilter> {
        let installing = self.installing.as_mut()?;
        installing.is_filtered = true;
        let text = self.context.config().filters.get(&installing.owner.resource)?;
        Some(text.parse().expect("filters are checked with the configuration"))
    }

    /// A recorder of events for a component.
    pub fn recorder(&self, component: &str) -> EventRecorder {
        self.context.events().recorder(component)
    }

    /// Sets up all reconcilers that are enabled, in order. The first that fails ends it.
    pub async fn setup(&mut self) -> Result<(), ManagerError> {
        check_names(&[self])?;
        self.install().await
    }

    /// Runs until it is stopped, or cannot go on. Start order: servers, informers until they are synced, hooks, tasks of
    /// everyone, tasks of the leader. Stop order: the other way round, by the deadline of `stop`.
    pub async fn run(self, stop: Stop) -> Result<(), ManagerError> {
        let context = self.context.clone();
        process::run(&context, vec![self], Vec::new(), &stop).await
    }

    pub(super) async fn install(&mut self) -> Result<(), ManagerError> {
        for setup in self.setups.clone() {
            let owner = Owner {
                name: setup.name().to_owned(),
                resource: setup.resource().to_owned(),
            };
            if let Some(why) = self.why_not(&owner) {
                info!(
                    controller = owner.name,
                    resource = owner.resource,
                    why,
                    "disabled"
                );
                continue;
            }
            let is_filtered = false;
            self.installing = Some(Installing { owner, is_filtered });
            let result = setup.setup(self).await;
            let installing = self.installing.take().expect("it was put there above");
            let Owner { name, resource } = installing.owner;
            result.map_err(|source| ManagerError::Setup {
                name: name.clone(),
                source,
            })?;
            if self.context.config().filters.contains_key(&resource) && !installing.is_filtered {
                let why = format!("resource-filter.{resource}: the controller {name} does not filter");
                return Err(ConfigError { errors: vec![why] }.into());
            }
            info!(controller = name, resource, "set up");
            self.installed.push(setup);
        }
        match self.errors.first() {
            None => Ok(()),
            Some(fault) => Err(ManagerError::Setup {
                name: self.name.clone(),
                source: fault.clone().into(),
            }),
        }
    }

    /// Why a reconciler does not run here.
    fn why_not(&self, owner: &Owner) -> Option<&'static str> {
        let config = self.context.config();
        if !config.selection.has(&owner.name, &owner.resource) {
            return Some("by configuration");
        }
        let mut registered = super::Registration::all().into_iter();
        let needs_cluster =
            registered.any(|known| known.name() == owner.name && known.metadata().no_portable);
        (config.portable && needs_cluster).then_some("not in portable mode")
    }

    /// From informers to leader tasks, and back.
    pub(super) async fn work(mut self, stop: Stop) -> Result<(), ManagerError> {
        let limit = self.config().informer.sync_timeout;
        debug!(manager = self.name, "starting informers");
        self.informers().start();
        match stop
            .unless_stopped(timeout(limit, self.informers().wait_for_sync()))
            .await
        {
            None => return Ok(()),
            Some(Err(_)) => return Err(ManagerError::NotSynced(limit)),
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
        let posts = std::mem::take(&mut self.posts)
            .into_iter()
            .map(|owned| owned.post);
        let (leaders, everyone): (Vec<_>, Vec<_>) = posts.partition(|post| post.runnable.leader_only());
        let supervisor = self.supervisor();
        // Two stops, for they are stopped one after the other.
        let (stop_leaders, stop_everyone) = (Stop::new(), Stop::new());
        let elector = self.elector()?;
        let everyone = {
            let (supervisor, stop) = (supervisor.clone(), stop_everyone.clone());
            async move { supervisor.run(everyone, stop, &mut JoinSet::new()).await }
        };
        let leaders = {
            let stop = stop_leaders.clone();
            async move {
                match elector {
                    None => supervisor.run(leaders, stop, &mut JoinSet::new()).await,
                    Some(elector) => {
                        // Out here, so that what was dropped at the end of one turn is joined before the next.
                        let tasks = tokio::sync::Mutex::new(JoinSet::new());
                        let lead = |stop: Stop| {
                            let (supervisor, leaders, tasks) = (&supervisor, leaders.clone(), &tasks);
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
        // Those who come later need some of the time too.
        stop_leaders.stop(stop.remaining() / 5 * 4);
        while leading.join_next().await.is_some() {}
        info!(manager = self.name, "stopping other tasks");
        stop_everyone.stop(stop.remaining() / 5 * 4);
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    fn elector(&self) -> Result<Option<LeaderElector>, ManagerError> {
        let told = &self.config().leader;
        if !told.elect {
            return Ok(None);
        }
        let namespace = told
            .namespace
            .as_deref()
            .unwrap_or(self.client().default_namespace());
        let mut options = LeaderElectionConfig::new(namespace, told.name.as_deref().unwrap_or(&self.name));
        options.duration = told.duration;
        options.renew_deadline = told.renew_deadline;
        options.retry = told.retry;
        let elector = LeaderElector::new(self.client().clone(), options).map_err(|bad| ConfigError {
            errors: vec![format!("leader election: {bad}")],
        })?;
        Ok(Some(elector.clock(self.clock().clone()).metrics(self.metrics())))
    }

    pub(super) fn posts(&mut self) -> &mut Vec<OwnedRunnable> {
        &mut self.posts
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

/// The tasks of a turn: aborted when the turn is dropped, joined before the next.
struct LeaderTasks<'t>(&'t mut JoinSet<()>);

impl Drop for LeaderTasks<'_> {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}

/// Whether every name in the configuration is that of something the program has.
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
    let added = managers.iter().flat_map(|manager| &manager.posts);
    let added: BTreeSet<&str> = added.map(|owned| owned.post.runnable.name()).collect();
    let config = context.config();
    let list = |known: &BTreeSet<&str>| known.iter().copied().collect::<Vec<_>>().join(", ");
    let mut errors = Vec::new();
    for name in config.selection.unknown(|name| names.contains(name)) {
        errors.push(format!(
            "there is no controller {name:?}; there are: {}",
            list(&names)
        ));
    }
    for resource in config
        .filters
        .keys()
        .filter(|resource| !resources.contains(resource.as_str()))
    {
        errors.push(format!(
            "resource-filter.{resource}: no controller is for that; there are: {}",
            list(&resources)
        ));
    }
    for name in config.dependencies.keys() {
        if !names.contains(name.as_str()) && !added.contains(name.as_str()) {
            errors.push(format!(
                "dependencies.{name}: there is no such controller; there are: {}",
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
