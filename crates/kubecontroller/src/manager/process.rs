//! The managers of a process, from the first server to the last.

use std::{collections::BTreeMap, sync::Arc};

use tokio::task::JoinSet;
use tracing::{error, info};

use super::{
    ConfigError, Manager, ManagerContext, ManagerError, Runnable, Stop,
    health::{self, Server},
    manager::OwnedRunnable,
    start_condition::StartCondition,
};

/// Runs managers, and what else belongs to the process. All end with the first that fails; the others are stopped first.
pub(super) async fn run(
    context: &ManagerContext,
    mut managers: Vec<Manager>,
    parts: Vec<Arc<dyn Runnable>>,
    stop: &Stop,
) -> Result<(), ManagerError> {
    set_gates(context, &mut managers)?;
    // Servers first: a probe that is not answered would be the end of a start that takes long.
    context.health().begin(stop, managers.iter().map(Manager::name));
    let servers = health::servers(context.config(), context);
    let mut listening = Vec::new();
    for (address, pages) in servers {
        listening.push(Server::listen(&address, pages).await?);
    }
    let (stop_servers, stop_events) = (Stop::new(), Stop::new());
    let mut serving = JoinSet::new();
    for server in listening {
        info!(address = %server.address(), "serving");
        let stop = stop_servers.clone();
        serving.spawn(async move { server.run(stop).await });
    }
    let mut telling = JoinSet::new();
    let (events, stop_telling) = (Arc::clone(context.events()), stop_events.clone());
    telling.spawn(async move { events.run(stop_telling).await });

    let result = work(context, managers, parts, stop).await;

    info!("writing the last events");
    stop_events.stop(stop.remaining() / 5 * 4);
    while telling.join_next().await.is_some() {}
    info!("stopping informers");
    stop.until_expired(context.informers().stop()).await;
    info!("stopping servers");
    stop_servers.stop(stop.remaining());
    while serving.join_next().await.is_some() {}
    match &result {
        Ok(()) => info!("stopped"),
        Err(error) => error!(%error, "stopped"),
    }
    result
}

/// Runs them until the first fails or all have ended.
async fn work(
    context: &ManagerContext,
    managers: Vec<Manager>,
    parts: Vec<Arc<dyn Runnable>>,
    stop: &Stop,
) -> Result<(), ManagerError> {
    let mut working = JoinSet::new();
    let mut names = BTreeMap::new();
    for manager in managers {
        let (name, stop) = (manager.name().to_owned(), stop.child());
        let handle = working.spawn(async move { manager.work(stop).await });
        names.insert(handle.id(), name);
    }
    for part in parts {
        let (name, stop) = (part.name().to_owned(), stop.child());
        let handle = working.spawn({
            let name = name.clone();
            async move {
                let done = stop.until_expired(part.run(stop.clone())).await;
                match done.unwrap_or(Ok(())) {
                    Ok(()) if stop.is_stopped() => Ok(()),
                    Ok(()) => Err("it ended by itself".into()),
                    Err(source) => Err(source),
                }
                .map_err(|source| ManagerError::Part { name, source })
            }
        });
        names.insert(handle.id(), name);
    }
    let mut result = Ok(());
    while let Some(done) = working.join_next_with_id().await {
        let failure = match done {
            Ok((_, done)) => done.err(),
            Err(error) => Some(ManagerError::Part {
                name: names.get(&error.id()).cloned().unwrap_or_default(),
                source: error.into(),
            }),
        };
        if let Some(failure) = failure {
            error!(error = %failure, "stopping, because a part of the program failed");
            stop.stop(context.config().grace);
            // The first failure is the reason; others may follow from it.
            result = result.and(Err(failure));
        }
    }
    // All may have ended by themselves.
    stop.stop(context.config().grace);
    result
}

/// Gives each post the gates of the configuration, and looks whether they can ever open.
fn set_gates(context: &ManagerContext, managers: &mut [Manager]) -> Result<(), ConfigError> {
    let told = &context.config().dependencies;
    let mut errors = Vec::new();
    // What a name stands for: a runnable, or all of a setup.
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for owned in managers.iter_mut().flat_map(|manager| manager.posts().iter()) {
        for name in owned.names() {
            known
                .entry(name)
                .or_default()
                .push(owned.post.runnable.name().to_owned());
        }
    }
    let mut waits: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for owned in managers.iter_mut().flat_map(Manager::posts) {
        let name = owned.post.runnable.name().to_owned();
        let mut asked = std::mem::take(&mut owned.post.gates);
        for alias in owned.names() {
            asked.extend(told.get(&alias).into_iter().flatten().cloned());
        }
        for gate in asked {
            let StartCondition::Controller(other) = &gate else {
                owned.post.gates.push(gate);
                continue;
            };
            let Some(others) = known.get(other) else {
                errors.push(format!(
                    "{name} depends on {other}, which is not there or disabled"
                ));
                continue;
            };
            waits
                .entry(name.clone())
                .or_default()
                .extend(others.iter().cloned());
            owned
                .post
                .gates
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
    /// All names that mean it, each once.
    fn names(&self) -> Vec<String> {
        let mut names = vec![self.post.runnable.name().to_owned()];
        if let Some(owner) = &self.owner {
            names.extend([owner.name.clone(), owner.resource.clone()]);
        }
        names.sort();
        names.dedup();
        names
    }
}
