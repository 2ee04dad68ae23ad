//! Starts, waits for and stops a database.

use std::{pin::pin, time::Duration};

use k3_node::runtime::{
    Runtime, RuntimeError,
    detect::detect_docker,
    docker::{DockerRuntime, ServiceContainer, ServiceContainerSpec, ServiceContainerState},
};
use k3_storage::{
    OpenError,
    backend::{DatabaseConfig, StorageConfig},
};
use tokio::time::{sleep, timeout};

use super::{
    Autostart, DatabaseSettings,
    container_spec::{self, DATABASE_LABEL},
    endpoint::{LocalEndpoint, local_endpoint},
    password,
    settings::database_images,
};
use crate::{command_error::CommandError, prose::and, signals::StopSignals};

/// Timeout from the start of a database to its first response.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// Age at which a created container that was never started counts as abandoned.
const CREATED_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks.
const PAUSE: Duration = Duration::from_millis(300);
/// Grace period in which a database writes its data.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts when another process starts the same database concurrently.
const ATTEMPTS: usize = 3;
/// Number of log lines of a failed database in an error.
const LOG_LINES: u64 = 10;

/// The database of a store: started by this process, or not managed.
#[must_use = "the container runs until `stop` is called"]
struct DatabaseHandle {
    container: Option<Box<DatabaseContainer>>,
}

/// The result of ensuring that a database runs.
enum EnsureOutcome {
    /// The database responds, or is not managed by k3.
    Ready(DatabaseHandle),
    /// Stopped while waiting. The container was removed.
    Stopped(&'static str),
}

/// The container of a database.
struct DatabaseContainer {
    engine: DockerRuntime,
    service: ServiceContainerSpec,
    id: String,
    /// Whether this process started the container, and so must stop it.
    is_ours: bool,
}

/// What exists before the start.
enum ExistingDatabase {
    /// A database that k3 does not manage or cannot start.
    Others,
    /// A container that runs or is starting.
    Running(Box<DatabaseContainer>),
    /// Nothing: the database can be started.
    Nothing(Box<(DockerRuntime, ServiceContainerSpec)>),
}

/// Runs `work` with the database of a store, which is started before if necessary and stopped after.
pub(crate) async fn with_database(
    settings: &DatabaseSettings,
    mut storage: Box<dyn StorageConfig>,
    signals: &mut StopSignals,
    work: impl AsyncFnOnce(Box<dyn StorageConfig>, &mut StopSignals) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let database = match ensure(settings, &mut *storage, signals.next()).await? {
        EnsureOutcome::Ready(database) => database,
        EnsureOutcome::Stopped(name) => {
            tracing::info!("{name}: stopped before the database was ready");
            return Ok(());
        }
    };
    let outcome = work(storage, signals).await;
    tokio::select! {
        () = database.stop() => {}
        name = signals.next() => tracing::warn!("{name}: stopping without waiting for the database"),
    }
    outcome
}

/// Starts the database of a store if necessary, and waits until it responds. A generated password is written into `storage`.
/// `stopped` ends the wait.
async fn ensure(
    settings: &DatabaseSettings,
    storage: &mut dyn StorageConfig,
    stopped: impl Future<Output = &'static str>,
) -> Result<EnsureOutcome, CommandError> {
    let mut stopped = pin!(stopped);
    let endpoint = storage.database().and_then(local_endpoint);
    let Some(endpoint) = endpoint.filter(|_| settings.autostart == Autostart::On) else {
        return Ok(EnsureOutcome::Ready(DatabaseHandle { container: None }));
    };
    let mut container = None;
    for _ in 0..ATTEMPTS {
        let found = tokio::select! {
            found = find_existing(settings, storage, &endpoint) => found?,
            name = &mut stopped => return Ok(EnsureOutcome::Stopped(name)),
        };
        container = match found {
            ExistingDatabase::Others => return Ok(EnsureOutcome::Ready(DatabaseHandle { container: None })),
            ExistingDatabase::Running(container) => Some(container),
            // Not interrupted by `stopped`: a container whose start was abandoned could not be stopped later.
            ExistingDatabase::Nothing(plan) => start_container(plan.0, plan.1, &endpoint).await?,
        };
        if container.is_some() {
            break;
        }
    }
    let Some(container) = container else {
        return Err(CommandError::new(
            format!(
                "cannot start the database at {endpoint}: other processes start and remove its container at the same time"
            ),
            "stop other k3 processes on this machine that use the same database, and try again",
        ));
    };
    let answered = tokio::select! {
        answered = container.wait_until_ready(storage, &endpoint) => answered.map(|()| None),
        name = &mut stopped => Ok(Some(name)),
    };
    let database = DatabaseHandle {
        container: Some(container),
    };
    match answered {
        Ok(None) => Ok(EnsureOutcome::Ready(database)),
        Ok(Some(name)) => {
            database.stop().await;
            Ok(EnsureOutcome::Stopped(name))
        }
        Err(failure) => {
            database.stop().await;
            Err(failure)
        }
    }
}

/// Determines what exists, and prepares a start.
async fn find_existing(
    settings: &DatabaseSettings,
    storage: &mut dyn StorageConfig,
    endpoint: &LocalEndpoint,
) -> Result<ExistingDatabase, CommandError> {
    let is_in_use = endpoint.is_in_use().await;
    let engine = match detect_docker(&settings.runtime).await {
        Ok(engine) => engine,
        Err(reason) if is_in_use => {
            tracing::warn!("databases cannot be started here ({reason}); using what listens at {endpoint}");
            return Ok(ExistingDatabase::Others);
        }
        Err(reason) => {
            let advice = "start the database yourself; or start Docker or Podman, and it is started as a container;\n\
                          or choose a store that needs none with --storage";
            let what = format!("nothing listens at {endpoint}, and no database can be started");
            return Err(CommandError::new(what, advice).caused_by(reason));
        }
    };
    let spec = build_spec(settings, storage, endpoint);
    let found = engine
        .service_container(&spec.name)
        .await
        .map_err(|error| runtime_failure(&engine, "look for the database", error))?;
    match found {
        Some(found) if found.state == ServiceContainerState::Running => {
            if found.ports.contains(&endpoint.port) {
                if is_ours(&found)
                    && let Some(password) = password::load(&settings.directory, storage.backend())?
                {
                    fill_password(storage, password);
                }
                tracing::info!("using the database in the container {}", spec.name);
                return Ok(ExistingDatabase::Running(Box::new(DatabaseContainer {
                    service: spec,
                    id: found.id,
                    engine,
                    is_ours: false,
                })));
            }
            if is_in_use {
                return Ok(ExistingDatabase::Others);
            }
            Err(CommandError::new(
                format!("the container {} runs, but does not serve {endpoint}", spec.name),
                "stop it, or configure the port that it serves",
            ))
        }
        _ if is_in_use => Ok(ExistingDatabase::Others),
        Some(found) if !is_ours(&found) => Err(CommandError::new(
            format!("the container {} exists and was not created by k3", spec.name),
            "start it if it serves the database; otherwise remove or rename it",
        )),
        found => {
            if let Some(found) = found {
                remove_stopped(&engine, &spec.name, found).await?;
            }
            if let Some(database) = storage.database().and_then(DatabaseConfig::unsupported) {
                tracing::warn!("k3 does not start {database}: start the one at {endpoint} yourself");
                return Ok(ExistingDatabase::Others);
            }
            if storage.database().is_some_and(DatabaseConfig::lacks_password) {
                let password = password::load_or_create(&settings.directory, storage.backend())?;
                fill_password(storage, password);
            }
            let spec = build_spec(settings, storage, endpoint);
            pull_image_if_missing(&engine, &spec.image).await?;
            Ok(ExistingDatabase::Nothing(Box::new((engine, spec))))
        }
    }
}

fn build_spec(
    settings: &DatabaseSettings,
    storage: &dyn StorageConfig,
    endpoint: &LocalEndpoint,
) -> ServiceContainerSpec {
    container_spec::service(settings, storage, endpoint)
        .expect("a store with an endpoint has a database and an image")
}

fn is_ours(found: &ServiceContainer) -> bool {
    found.labels.contains_key(DATABASE_LABEL)
}

fn fill_password(storage: &mut dyn StorageConfig, password: String) {
    if let Some(database) = storage.database_mut() {
        database.fill_password(password);
    }
}

/// Removes an exited container of k3. A created container may be about to be started by another process.
async fn remove_stopped(
    engine: &DockerRuntime,
    name: &str,
    mut found: ServiceContainer,
) -> Result<(), CommandError> {
    let failed = |error| runtime_failure(engine, "remove the exited container of a database", error);
    let waited = timeout(CREATED_TIMEOUT, async {
        while found.state == ServiceContainerState::Created {
            sleep(PAUSE).await;
            match engine.service_container(name).await? {
                Some(now) => found = now,
                None => break,
            }
        }
        Ok(())
    });
    // Created long ago and never started: abandoned.
    waited.await.unwrap_or(Ok(())).map_err(failed)?;
    if found.state == ServiceContainerState::Running {
        // Another process is starting it: check again.
        return Ok(());
    }
    tracing::info!("removing the exited database container {name}");
    engine.remove_service_container(&found.id).await.map_err(failed)
}

async fn pull_image_if_missing(engine: &DockerRuntime, image: &str) -> Result<(), CommandError> {
    let failed = |error| {
        let flags = database_images().map(|image| format!("--{}", image.id.replace('_', "-")));
        let advice = format!(
            "see that the image exists and that the registry can be reached; {} choose another;\n\
             or start the database yourself",
            and(flags)
        );
        CommandError::new(format!("cannot get the image {image} for the database"), advice).caused_by(error)
    };
    if engine.image_status(image).await.map_err(failed)?.is_none() {
        tracing::info!("pulling {image} for the database");
        engine.pull_image(image, None).await.map_err(failed)?;
    }
    Ok(())
}

/// Starts the container. `None` if another process started it concurrently.
async fn start_container(
    engine: DockerRuntime,
    service: ServiceContainerSpec,
    endpoint: &LocalEndpoint,
) -> Result<Option<Box<DatabaseContainer>>, CommandError> {
    match engine.run_service_container(&service).await {
        Ok(id) => {
            tracing::info!(
                "started {} as the container {} for {endpoint} ({}): it stops with this process; its data stays in the volume {}",
                service.image,
                service.name,
                engine.endpoint(),
                service.volume.name,
            );
            Ok(Some(Box::new(DatabaseContainer {
                engine,
                service,
                id,
                is_ours: true,
            })))
        }
        Err(RuntimeError::NameTaken { .. }) => Ok(None),
        Err(error) => Err(runtime_failure(&engine, "start the database", error)),
    }
}

fn runtime_failure(engine: &DockerRuntime, what: &str, error: RuntimeError) -> CommandError {
    CommandError::new(
        format!("cannot {what} ({})", engine.endpoint()),
        "check the log of the container runtime; or start the database yourself, and use --database-autostart=false",
    )
    .caused_by(error)
}

// --- DatabaseHandle ---

impl DatabaseHandle {
    /// Stops the container if this process started it. The data stays.
    async fn stop(self) {
        let Some(container) = self.container.filter(|container| container.is_ours) else {
            return;
        };
        let DatabaseContainer {
            engine, service, id, ..
        } = *container;
        match engine.stop_service_container(&id, STOP_TIMEOUT).await {
            Ok(()) => tracing::info!(
                "stopped the database in the container {}; its data are in the volume {}",
                service.name,
                service.volume.name
            ),
            Err(error) => {
                tracing::warn!(%error, "failed to stop the database in the container {}", service.name);
            }
        }
    }
}

// --- DatabaseContainer ---

impl DatabaseContainer {
    /// Waits until the store can be opened, which requires everything that a database must do.
    async fn wait_until_ready(
        &self,
        storage: &dyn StorageConfig,
        endpoint: &LocalEndpoint,
    ) -> Result<(), CommandError> {
        let mut last = None;
        let waited = timeout(START_TIMEOUT, async {
            loop {
                match storage.open().await {
                    Ok(store) => {
                        store.close().await;
                        return Ok(());
                    }
                    // Opening the store reports the error.
                    Err(OpenError::InvalidSetting { .. }) => return Ok(()),
                    Err(error) => last = Some(error),
                }
                self.check_running().await?;
                sleep(PAUSE).await;
            }
        })
        .await;
        if let Ok(outcome) = waited {
            return outcome;
        }
        let what = format!(
            "the database in the container {} did not respond at {endpoint} within {} s",
            self.service.name,
            START_TIMEOUT.as_secs()
        );
        let advice = format!(
            "{}a changed password does not match the data in the volume {}",
            self.last_log_lines().await,
            self.service.volume.name
        );
        let failure = CommandError::new(what, advice);
        Err(match last {
            Some(error) => failure.caused_by(error),
            None => failure,
        })
    }

    async fn check_running(&self) -> Result<(), CommandError> {
        let found = self.engine.service_container(&self.id).await;
        let found = found.map_err(|error| runtime_failure(&self.engine, "inspect the database", error))?;
        let how = match found.map(|found| found.state) {
            Some(ServiceContainerState::Running | ServiceContainerState::Created) => return Ok(()),
            Some(ServiceContainerState::Exited(code)) => format!("exited with {code}"),
            None => "was removed".to_owned(),
        };
        Err(CommandError::new(
            format!(
                "the database in the container {} {how} before it responded",
                self.service.name
            ),
            format!(
                "{}check whether the image {} is suitable",
                self.last_log_lines().await,
                self.service.image
            ),
        ))
    }

    /// The last log lines, for an error.
    async fn last_log_lines(&self) -> String {
        match self.engine.log_tail(&self.id, LOG_LINES).await {
            Ok(lines) if !lines.is_empty() => format!("its last log lines:\n{lines}"),
            _ => String::new(),
        }
    }
}
