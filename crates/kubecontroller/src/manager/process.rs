//! Runs the managers of a process, with servers and events around them.

use std::{collections::BTreeMap, sync::Arc};

use tokio::task::JoinSet;
use tracing::{error, info};

use super::{
    ConfigError, Manager, ManagerContext, ManagerError, Runnable, Stop,
    controller_manager::OwnedRunnable,
    health::{self, HealthServer},
    start_condition::StartCondition,
};

/// Runs all managers and runnables. The first failure stops all of them.
pub(super) async fn run(
    context: &ManagerContext,
    mut managers: Vec<Manager>,
    runnables: Vec<Arc<dyn Runnable>>,
    stop: &Stop,
) -> Result<(), ManagerError> {
    set_conditions(context, &mut managers)?;
    // Servers start first: an unanswered liveness probe would kill a program whose caches take long to sync.
    context.health().begin(stop, managers.iter().map(Manager::name));
    let servers = health::servers(context.config(), context);
    let mut listening = Vec::new();
    for (address, endpoints) in servers {
        listening.push(HealthServer::listen(&address, endpoints).await?);
    }
    let stop_servers = Stop::new();
    let stop_events = Stop::new();
    let mut serving = JoinSet::new();
    for server in listening {
        info!(address = %server.address(), "serving health and metrics");
        let stop = stop_servers.clone();
        serving.spawn(async move { server.run(stop).await });
    }
    let mut events_task = JoinSet::new();
    let events = Arc::clone(context.events());
    let events_stop = stop_events.clone();
    events_task.spawn(async move { events.run(events_stop).await });

    let result = run_all(context, managers, runnables, stop).await;

    info!("flushing events");
    stop_events.stop(stop.remaining() / 5 * 4);
    while events_task.join_next().await.is_some() {}
    info!("stopping informers");
    stop.until_expired(context.informers().stop()).await;
    info!("stopping servers");
    stop_servers.stop(stop.remaining());
    while serving.join_next().await.is_some() {}
    match &result {
        Ok(()) => info!("stopped"),
        Err(error) => error!(%error, "stopped after an error"),
    }
    result
}

/// Runs managers and runnables until the first fails or all have ended.
async fn run_all(
    context: &ManagerContext,
    managers: Vec<Manager>,
    runnables: Vec<Arc<dyn Runnable>>,
    stop: &Stop,
) -> Result<(), ManagerError> {
    let mut running = JoinSet::new();
    let mut names = BTreeMap::new();
    for manager in managers {
        let name = manager.name().to_owned();
        let stop = stop.child();
        let handle = running.spawn(async move { manager.run_until_stopped(stop).await });
        names.insert(handle.id(), name);
    }
    for runnable in runnables {
        let name = runnable.name().to_owned();
        let stop = stop.child();
        let handle = running.spawn({
            let name = name.clone();
            async move {
                let done = stop.until_expired(runnable.run(stop.clone())).await;
                match done.unwrap_or(Ok(())) {
                    Ok(()) if stop.is_stopped() => Ok(()),
                    Ok(()) => Err("ended before the program was stopped".into()),
                    Err(source) => Err(source),
                }
                .map_err(|source| ManagerError::Runnable { name, source })
            }
        });
        names.insert(handle.id(), name);
    }
    let mut result = Ok(());
    while let Some(done) = running.join_next_with_id().await {
        let failure = match done {
            Ok((_, done)) => done.err(),
            Err(error) => Some(ManagerError::Runnable {
                name: names.get(&error.id()).cloned().unwrap_or_default(),
                source: error.into(),
            }),
        };
        if let Some(failure) = failure {
            error!(error = %failure, "stopping the program after a failure");
            stop.stop(context.config().grace);
            // The first failure is the cause; later ones may be its consequences.
            result = result.and(Err(failure));
        }
    }
    // All managers may have ended without a stop.
    stop.stop(context.config().grace);
    result
}

/// Adds the configured start conditions to each runnable, and rejects unknown names and cycles.
fn set_conditions(context: &ManagerContext, managers: &mut [Manager]) -> Result<(), ConfigError> {
    let dependencies = &context.config().dependencies;
    let mut errors = Vec::new();
    // The runnables that a name refers to: one runnable, or all of a setup.
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for owned in managers.iter_mut().flat_map(|manager| manager.runnables().iter()) {
        for name in owned.names() {
            known
                .entry(name)
                .or_default()
                .push(owned.supervised.runnable.name().to_owned());
        }
    }
    let mut waits: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for owned in managers.iter_mut().flat_map(Manager::runnables) {
        let name = owned.supervised.runnable.name().to_owned();
        let mut conditions = std::mem::take(&mut owned.supervised.conditions);
        for alias in owned.names() {
            conditions.extend(dependencies.get(&alias).into_iter().flatten().cloned());
        }
        for condition in conditions {
            let StartCondition::Controller(other) = &condition else {
                owned.supervised.conditions.push(condition);
                continue;
            };
            let Some(others) = known.get(other) else {
                errors.push(format!(
                    "{name} depends on {other}, which does not exist or is disabled"
                ));
                continue;
            };
            waits
                .entry(name.clone())
                .or_default()
                .extend(others.iter().cloned());
            owned
                .supervised
                .conditions
                .extend(others.iter().cloned().map(StartCondition::Controller));
        }
    }
    errors.extend(
        waits
            .keys()
            .filter(|name| waits_for_itself(name, &waits))
            .map(|name| format!("{name} depends on itself")),
    );
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ConfigError { errors })
    }
}

fn waits_for_itself(name: &str, waits: &BTreeMap<String, Vec<String>>) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    let mut next: Vec<&str> = vec![name];
    while let Some(one) = next.pop() {
        for other in waits.get(one).into_iter().flatten() {
            if other == name {
                return true;
            }
            if !seen.contains(&other.as_str()) {
                seen.push(other);
                next.push(other);
            }
        }
    }
    false
}

impl OwnedRunnable {
    /// The distinct names that refer to the runnable.
    fn names(&self) -> Vec<String> {
        let mut names = vec![self.supervised.runnable.name().to_owned()];
        if let Some(owner) = &self.owner {
            names.extend([owner.name.clone(), owner.resource.clone()]);
        }
        names.sort();
        names.dedup();
        names
    }
}
