//! From nothing to a database that answers, and to its end.

use std::{pin::pin, time::Duration};

use k3_node::runtime::{
    Runtime, RuntimeError,
    detect::detect_docker,
    docker::{DockerRuntime, ServiceContainer, ServiceContainerSpec, ServiceContainerState},
};
use k3_storage::{OpenError, StorageConfig};
use tokio::time::{sleep, timeout};

use super::{
    Autostart, Settings,
    container_spec::{self, DATABASE_LABEL},
    endpoint::{LocalEndpoint, local_endpoint},
    password,
};
use crate::{failure::Failure, signals::Signals};

/// How long a database may take from its start to its first answer.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a created container may wait for its start before it counts as abandoned.
const CREATED_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(300);
/// Grace period in which a database writes its data.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the start is tried when another process starts the same at the same time.
const ATTEMPTS: usize = 3;
/// How much of the log of a database that failed is shown.
const LOG_LINES: u64 = 10;

/// The database of a store: one that was started here, or one that others look after.
#[must_use = "what was started runs until it is ended"]
struct DatabaseHandle {
    container: Option<Box<DatabaseContainer>>,
}

/// What became of the wish for a database.
enum EnsureOutcome {
    /// It answers, as far as it is ours to say.
    Ready(DatabaseHandle),
    /// The wait was given up for this reason, and nothing is left of what was started.
    Stopped(&'static str),
}

/// A container that serves a database.
struct DatabaseContainer {
    engine: DockerRuntime,
    service: ServiceContainerSpec,
    id: String,
    /// Only what we started is ours to stop.
    is_ours: bool,
}

/// What is there before anything is started.
enum ExistingDatabase {
    /// A database that k3 does not manage, or none that it could start.
    Others,
    /// A container that serves, or is about to.
    Running(Box<DatabaseContainer>),
    /// Nothing: this can be started.
    Nothing(Box<(DockerRuntime, ServiceContainerSpec)>),
}

/// Does something with a store whose database is there: started before, if it is missing and may be started, and ended after.
pub(crate) async fn with_database(
    settings: &Settings,
    mut storage: StorageConfig,
    signals: &mut Signals,
    work: impl AsyncFnOnce(StorageConfig, &mut Signals) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let database = match ensure(settings, &mut storage, signals.next()).await? {
        EnsureOutcome::Ready(database) => database,
        EnsureOutcome::Stopped(name) => {
            tracing::info!("{name}: stopped before the database was ready");
            return Ok(());
        }
    };
    let outcome = work(storage, signals).await;
    tokio::select! {
        () = database.stop() => {}
        name = signals.next() => tracing::warn!("{name}: the database was not waited for"),
    }
    outcome
}

/// Sees that the database of a store is there: starts it if it is missing and may be started, and waits until it answers. A
/// generated password is written into `storage`. `stopped` ends the wait.
async fn ensure(
    settings: &Settings,
    storage: &mut StorageConfig,
    stopped: impl Future<Output = &'static str>,
) -> Result<EnsureOutcome, Failure> {
    let mut stopped = pin!(stopped);
    let Some(endpoint) = local_endpoint(storage).filter(|_| settings.autostart == Autostart::On) else {
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
            // Not given up half way: what is started is known, and can be ended.
            ExistingDatabase::Nothing(plan) => start_container(plan.0, plan.1, &endpoint).await?,
        };
        if container.is_some() {
            break;
        }
    }
    let Some(container) = container else {
        return Err(Failure::new(
            format!(
                "cannot start the database at {endpoint}: others start and remove its container at the same time"
            ),
            "see which other k3 on this machine uses the same database, and try again",
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

/// Looks what is there, and makes ready what a start needs.
async fn find_existing(
    settings: &Settings,
    storage: &mut StorageConfig,
    endpoint: &LocalEndpoint,
) -> Result<ExistingDatabase, Failure> {
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
            return Err(Failure::new(what, advice).caused_by(reason));
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
                    && let Some(password) = password::load(&settings.directory)?
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
            Err(Failure::new(
                format!("the container {} runs, but does not serve {endpoint}", spec.name),
                "stop it, or configure the port that it serves",
            ))
        }
        _ if is_in_use => Ok(ExistingDatabase::Others),
        Some(found) if !is_ours(&found) => Err(Failure::new(
            format!("a container that k3 did not make has the name {}", spec.name),
            "start it, if it serves the database; else remove or rename it",
        )),
        found => {
            if let Some(found) = found {
                remove_stopped(&engine, &spec.name, found).await?;
            }
            if let StorageConfig::Etcd(options) = storage
                && (options.login.is_some() || options.tls.is_some())
            {
                tracing::warn!(
                    "an etcd with log-in or TLS is not started on demand: start the one at {endpoint} yourself"
                );
                return Ok(ExistingDatabase::Others);
            }
            if matches!(storage, StorageConfig::Mysql(options) if options.password.is_empty()) {
                fill_password(storage, password::load_or_create(&settings.directory)?);
            }
            let spec = self::build_spec(settings, storage, endpoint);
            pull_image_if_missing(&engine, &spec.image).await?;
            Ok(ExistingDatabase::Nothing(Box::new((engine, spec))))
        }
    }
}

fn build_spec(
    settings: &Settings,
    storage: &StorageConfig,
    endpoint: &LocalEndpoint,
) -> ServiceContainerSpec {
    let address = endpoint.loopback().expect("a endpoint is on this machine");
    container_spec::service(settings, storage, address, endpoint.port)
        .expect("a store with a endpoint needs a database")
}

fn is_ours(found: &ServiceContainer) -> bool {
    found.labels.contains_key(DATABASE_LABEL)
}

fn fill_password(storage: &mut StorageConfig, password: String) {
    if let StorageConfig::Mysql(options) = storage
        && options.password.is_empty()
    {
        options.password = password;
    }
}

/// Removes a container of ours that has ended. One that was only made may be about to be started by another process.
async fn remove_stopped(
    engine: &DockerRuntime,
    name: &str,
    mut found: ServiceContainer,
) -> Result<(), Failure> {
    let failed = |error| runtime_failure(engine, "remove the container of a database that has ended", error);
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
    // It was not started in this time: it is abandoned.
    waited.await.unwrap_or(Ok(())).map_err(failed)?;
    if found.state == ServiceContainerState::Running {
        // The name is taken then, which leads to another look.
        return Ok(());
    }
    tracing::info!("removing the container {name} of a database that has ended");
    engine.remove_service_container(&found.id).await.map_err(failed)
}

async fn pull_image_if_missing(engine: &DockerRuntime, image: &str) -> Result<(), Failure> {
    let failed = |error| {
        let advice = "see that the image exists and that the registry can be reached; --mysql-image and --etcd-image choose another;\n\
                      or start the database yourself";
        Failure::new(format!("cannot get the image {image} for the database"), advice).caused_by(error)
    };
    if engine.image_status(image).await.map_err(failed)?.is_none() {
        tracing::info!("pulling {image} for the database");
        engine.pull_image(image, None).await.map_err(failed)?;
    }
    Ok(())
}

/// Starts the container. `None` if another process did so at the same time.
async fn start_container(
    engine: DockerRuntime,
    service: ServiceContainerSpec,
    endpoint: &LocalEndpoint,
) -> Result<Option<Box<DatabaseContainer>>, Failure> {
    match engine.run_service_container(&service).await {
        Ok(id) => {
            tracing::info!(
                "started {} as the container {} for {endpoint} ({}): it ends with this process, its data stay in the volume {}",
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

fn runtime_failure(engine: &DockerRuntime, what: &str, error: RuntimeError) -> Failure {
    Failure::new(
        format!("cannot {what} ({})", engine.endpoint()),
        "check the log of the container runtime; or start the database yourself, and use --database-autostart=false",
    )
    .caused_by(error)
}

// --- DatabaseHandle ---

impl DatabaseHandle {
    /// Ends what was started here, when the store is closed. The data stay.
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
                tracing::warn!(%error, "the database in the container {} could not be stopped", service.name);
            }
        }
    }
}

// --- DatabaseContainer ---

impl DatabaseContainer {
    /// Waits until the store can be opened: that asks for everything a database must do.
    async fn wait_until_ready(
        &self,
        storage: &StorageConfig,
        endpoint: &LocalEndpoint,
    ) -> Result<(), Failure> {
        let mut last = None;
        let waited = timeout(START_TIMEOUT, async {
            loop {
                match k3_storage::open(storage.clone()).await {
                    Ok(store) => {
                        store.close().await;
                        return Ok(());
                    }
                    // Opening the store reports it.
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
            "the database in the container {} does not answer at {endpoint} within {} s",
            self.service.name,
            START_TIMEOUT.as_secs()
        );
        let advice = format!(
            "{}a password that was changed does not fit the data in the volume {}",
            self.last_log_lines().await,
            self.service.volume.name
        );
        let failure = Failure::new(what, advice);
        Err(match last {
            Some(error) => failure.caused_by(error),
            None => failure,
        })
    }

    async fn check_running(&self) -> Result<(), Failure> {
        let found = self.engine.service_container(&self.id).await;
        let found = found.map_err(|error| runtime_failure(&self.engine, "look after the database", error))?;
        let how = match found.map(|found| found.state) {
            Some(ServiceContainerState::Running | ServiceContainerState::Created) => return Ok(()),
            Some(ServiceContainerState::Exited(code)) => format!("ended with {code}"),
            None => "was removed".to_owned(),
        };
        Err(Failure::new(
            format!(
                "the database in the container {} {how} before it answered",
                self.service.name
            ),
            format!(
                "{}see whether the image {} fits",
                self.last_log_lines().await,
                self.service.image
            ),
        ))
    }

    /// What it said last, for people.
    async fn last_log_lines(&self) -> String {
        match self.engine.log_tail(&self.id, LOG_LINES).await {
            Ok(lines) if !lines.is_empty() => format!("its last log lines:\n{lines}"),
            _ => String::new(),
        }
    }
}
