//! From nothing to a database that answers, and to its end.

use std::{pin::pin, time::Duration};

use k3_node::runtime::{
    Runtime, RuntimeError,
    detect::detect_engine,
    engine::{Engine, FoundService, Service, ServiceState},
};
use k3_storage::{OpenError, StorageConfig};
use tokio::time::{sleep, timeout};

use super::{
    Autostart, Settings,
    address::{Place, local_place},
    password,
    plan::{self, DATABASE_LABEL},
};
use crate::{failure::Failure, signals::Signals};

/// How long a database may take from its start to its first answer.
const LIMIT: Duration = Duration::from_mins(2);
/// How long a container that was made may take until somebody starts it: longer, and nobody will.
const BETWEEN: Duration = Duration::from_secs(10);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a database may take to write what it holds when it is told to end.
const GRACE: Duration = Duration::from_secs(30);
/// How often the start is tried when another process starts the same at the same time.
const ATTEMPTS: usize = 3;
/// How much of the log of a database that failed is shown.
const LOG_LINES: u64 = 10;

/// The database of a store: one that was started here, or one that others look after.
#[must_use = "what was started runs until it is ended"]
struct Database {
    container: Option<Box<Container>>,
}

/// What became of the wish for a database.
enum Ensured {
    /// It answers, as far as it is ours to say.
    Ready(Database),
    /// The wait was given up for this reason, and nothing is left of what was started.
    Stopped(&'static str),
}

/// A container that serves a database.
struct Container {
    engine: Engine,
    service: Service,
    id: String,
    /// Only what we started is ours to stop.
    is_ours: bool,
}

/// What is there before anything is started.
enum Found {
    /// Somebody who is none of our business, or nobody who could be helped.
    Others,
    /// A container that serves, or is about to.
    Running(Box<Container>),
    /// Nothing: this can be started.
    Nothing(Box<(Engine, Service)>),
}

/// Does something with a store whose database is there: started before, if it is missing and may be started, and ended after.
pub(crate) async fn with_database(
    settings: &Settings,
    mut storage: StorageConfig,
    signals: &mut Signals,
    work: impl AsyncFnOnce(StorageConfig, &mut Signals) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let database = match ensure(settings, &mut storage, signals.next()).await? {
        Ensured::Ready(database) => database,
        Ensured::Stopped(name) => {
            tracing::info!("{name}: stopped before the database was ready");
            return Ok(());
        }
    };
    let outcome = work(storage, signals).await;
    tokio::select! {
        () = database.end() => {}
        name = signals.next() => tracing::warn!("{name}: the database was not waited for"),
    }
    outcome
}

/// Sees that the database of a store is there: starts it if it is missing and may be started, and waits until it answers. A
/// password that nobody gave is written into `storage`. `stopped` ends the wait.
async fn ensure(
    settings: &Settings,
    storage: &mut StorageConfig,
    stopped: impl Future<Output = &'static str>,
) -> Result<Ensured, Failure> {
    let mut stopped = pin!(stopped);
    let Some(place) = local_place(storage).filter(|_| settings.autostart == Autostart::On) else {
        return Ok(Ensured::Ready(Database { container: None }));
    };
    let mut container = None;
    for _ in 0..ATTEMPTS {
        let found = tokio::select! {
            found = look(settings, storage, &place) => found?,
            name = &mut stopped => return Ok(Ensured::Stopped(name)),
        };
        container = match found {
            Found::Others => return Ok(Ensured::Ready(Database { container: None })),
            Found::Running(container) => Some(container),
            // Not given up half way: what is started is known, and can be ended.
            Found::Nothing(plan) => begin(plan.0, plan.1, &place).await?,
        };
        if container.is_some() {
            break;
        }
    }
    let Some(container) = container else {
        return Err(Failure::new(
            format!(
                "cannot start the database at {place}: others start and remove its container at the same time"
            ),
            "see which other k3 on this machine uses the same database, and try again",
        ));
    };
    let answered = tokio::select! {
        answered = container.answers(storage, &place) => answered.map(|()| None),
        name = &mut stopped => Ok(Some(name)),
    };
    let database = Database {
        container: Some(container),
    };
    match answered {
        Ok(None) => Ok(Ensured::Ready(database)),
        Ok(Some(name)) => {
            database.end().await;
            Ok(Ensured::Stopped(name))
        }
        Err(failure) => {
            database.end().await;
            Err(failure)
        }
    }
}

/// Looks what is there, and makes ready what a start needs.
async fn look(settings: &Settings, storage: &mut StorageConfig, place: &Place) -> Result<Found, Failure> {
    let is_taken = place.is_taken().await;
    let engine = match detect_engine(&settings.runtime).await {
        Ok(engine) => engine,
        Err(reason) if is_taken => {
            tracing::warn!("databases cannot be started here ({reason}); using what listens at {place}");
            return Ok(Found::Others);
        }
        Err(reason) => {
            let advice = "start the database yourself; or start Docker or Podman, and it is started as a container;\n\
                          or choose a store that needs none with --storage";
            let what = format!("nothing listens at {place}, and no database can be started");
            return Err(Failure::new(what, advice).caused_by(reason));
        }
    };
    let planned = planned(settings, storage, place);
    let found = engine
        .service(&planned.name)
        .await
        .map_err(|error| unable(&engine, "look for the database", error))?;
    match found {
        Some(found) if found.state == ServiceState::Running => {
            if found.ports.contains(&place.port) {
                if is_ours(&found)
                    && let Some(password) = password::kept(&settings.directory)?
                {
                    fill_password(storage, password);
                }
                tracing::info!("using the database in the container {}", planned.name);
                return Ok(Found::Running(Box::new(Container {
                    service: planned,
                    id: found.id,
                    engine,
                    is_ours: false,
                })));
            }
            if is_taken {
                return Ok(Found::Others);
            }
            Err(Failure::new(
                format!("the container {} runs, but does not serve {place}", planned.name),
                "stop it, or configure the port that it serves",
            ))
        }
        _ if is_taken => Ok(Found::Others),
        Some(found) if !is_ours(&found) => Err(Failure::new(
            format!("a container that k3 did not make has the name {}", planned.name),
            "start it, if it serves the database; else remove or rename it",
        )),
        found => {
            if let Some(found) = found {
                clear_away(&engine, &planned.name, found).await?;
            }
            if let StorageConfig::Etcd(options) = storage
                && (options.login.is_some() || options.tls.is_some())
            {
                tracing::warn!(
                    "an etcd with log-in or TLS is not started on demand: start the one at {place} yourself"
                );
                return Ok(Found::Others);
            }
            if matches!(storage, StorageConfig::Mysql(options) if options.password.is_empty()) {
                fill_password(storage, password::kept_or_new(&settings.directory)?);
            }
            let planned = self::planned(settings, storage, place);
            bring_image(&engine, &planned.image).await?;
            Ok(Found::Nothing(Box::new((engine, planned))))
        }
    }
}

fn planned(settings: &Settings, storage: &StorageConfig, place: &Place) -> Service {
    let address = place.loopback().expect("a place is on this machine");
    plan::service(settings, storage, address, place.port).expect("a store with a place needs a database")
}

fn is_ours(found: &FoundService) -> bool {
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
async fn clear_away(engine: &Engine, name: &str, mut found: FoundService) -> Result<(), Failure> {
    let failed = |error| unable(engine, "remove the container of a database that has ended", error);
    let waited = timeout(BETWEEN, async {
        while found.state == ServiceState::Made {
            sleep(PAUSE).await;
            match engine.service(name).await? {
                Some(now) => found = now,
                None => break,
            }
        }
        Ok(())
    });
    // Nobody started it in all this time: it was left behind.
    waited.await.unwrap_or(Ok(())).map_err(failed)?;
    if found.state == ServiceState::Running {
        // The name is taken then, which leads to another look.
        return Ok(());
    }
    tracing::info!("removing the container {name} of a database that has ended");
    engine.remove_service(&found.id).await.map_err(failed)
}

async fn bring_image(engine: &Engine, image: &str) -> Result<(), Failure> {
    let failed = |error| {
        let advice = "see that the image exists and that the registry can be reached; --mysql-image and --etcd-image choose another;\n\
                      or start the database yourself";
        Failure::new(format!("cannot get the image {image} for the database"), advice).caused_by(error)
    };
    if engine.image(image).await.map_err(failed)?.is_none() {
        tracing::info!("pulling {image} for the database");
        engine.pull_image(image, None).await.map_err(failed)?;
    }
    Ok(())
}

/// Starts the container. `None` if somebody else was quicker.
async fn begin(engine: Engine, service: Service, place: &Place) -> Result<Option<Box<Container>>, Failure> {
    match engine.run_service(&service).await {
        Ok(id) => {
            tracing::info!(
                "started {} as the container {} for {place} ({}): it ends with this process, its data stay in the volume {}",
                service.image,
                service.name,
                engine.place(),
                service.volume.name,
            );
            Ok(Some(Box::new(Container {
                engine,
                service,
                id,
                is_ours: true,
            })))
        }
        Err(RuntimeError::NameTaken { .. }) => Ok(None),
        Err(error) => Err(unable(&engine, "start the database", error)),
    }
}

fn unable(engine: &Engine, what: &str, error: RuntimeError) -> Failure {
    Failure::new(
        format!("cannot {what} ({})", engine.place()),
        "check the log of the container runtime; or start the database yourself, and use --database-autostart=false",
    )
    .caused_by(error)
}

// --- Database ---

impl Database {
    /// Ends what was started here, when the store is closed. The data stay.
    async fn end(self) {
        let Some(container) = self.container.filter(|container| container.is_ours) else {
            return;
        };
        let Container {
            engine, service, id, ..
        } = *container;
        match engine.end_service(&id, GRACE).await {
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

// --- Container ---

impl Container {
    /// Waits until the store can be opened: that asks for everything a database must do.
    async fn answers(&self, storage: &StorageConfig, place: &Place) -> Result<(), Failure> {
        let mut last = None;
        let waited = timeout(LIMIT, async {
            loop {
                match k3_storage::open(storage.clone()).await {
                    Ok(store) => {
                        store.close().await;
                        return Ok(());
                    }
                    // It is told by whoever opens the store.
                    Err(OpenError::Setting { .. }) => return Ok(()),
                    Err(error) => last = Some(error),
                }
                self.still_runs().await?;
                sleep(PAUSE).await;
            }
        })
        .await;
        if let Ok(outcome) = waited {
            return outcome;
        }
        let what = format!(
            "the database in the container {} does not answer at {place} within {} s",
            self.service.name,
            LIMIT.as_secs()
        );
        let advice = format!(
            "{}a password that was changed does not fit the data in the volume {}",
            self.words().await,
            self.service.volume.name
        );
        let failure = Failure::new(what, advice);
        Err(match last {
            Some(error) => failure.caused_by(error),
            None => failure,
        })
    }

    async fn still_runs(&self) -> Result<(), Failure> {
        let found = self.engine.service(&self.id).await;
        let found = found.map_err(|error| unable(&self.engine, "look after the database", error))?;
        let how = match found.map(|found| found.state) {
            Some(ServiceState::Running | ServiceState::Made) => return Ok(()),
            Some(ServiceState::Ended(code)) => format!("ended with {code}"),
            None => "was removed".to_owned(),
        };
        Err(Failure::new(
            format!(
                "the database in the container {} {how} before it answered",
                self.service.name
            ),
            format!(
                "{}see whether the image {} fits",
                self.words().await,
                self.service.image
            ),
        ))
    }

    /// What it said last, for people.
    async fn words(&self) -> String {
        match self.engine.last_words(&self.id, LOG_LINES).await {
            Ok(words) if !words.is_empty() => format!("its last words:\n{words}"),
            _ => String::new(),
        }
    }
}
