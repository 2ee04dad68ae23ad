//! Everything together.

use std::{collections::BTreeMap, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use kube::Client;
use kubecontroller::{
    Clock,
    events::{EventApi, EventBroadcaster},
    manager::{BoxError, Runnable, Stop},
};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    Config, cluster,
    keepers::{Given, Shared},
    link::Link,
    pressure::{FolderUse, MeasureVolumes},
    search,
    serving::{self, CertificateKeeper},
    tls,
    view::View,
};
use crate::{
    pod::{self, PodManager, ShutdownPriorityBand},
    probes::Prober,
    runtime::AdoptedPods,
    server::{NodeServer, ServerConfig},
    sources::{ApiSources, Sources},
    volumes::Volumes,
};

/// What a node says while it goes down.
const LEAVING: &str = "node is shutting down";
/// What is kept of the time to stop for writing the last events.
const LAST: Duration = Duration::from_secs(1);

/// The agent of a node. Runs until it is stopped; its pods go on, and are found again by the next one.
pub struct Agent {
    config: Config,
    client: Client,
    clock: Clock,
}

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Its folder cannot be made.
    #[error("cannot make the folder {0}: {1}")]
    Folder(PathBuf, #[source] io::Error),
    /// Its API cannot listen.
    #[error("the node's API cannot listen at {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Its API cannot be served.
    #[error("the node's API cannot be served: {0}")]
    Tls(#[source] rustls::Error),
    /// The certificate of the cluster's authority makes no sense.
    #[error("the certificate of the cluster's authority cannot be used: {0}")]
    Authority(String),
    /// It has no certificate to serve with.
    #[error("there is no certificate for the node's API: {0}")]
    Certificate(String),
    /// A part of it ended that should not.
    #[error("a part of the node agent ended: {0}")]
    Ended(String),
}

/// What runs, and what has to be known of it to stop it.
struct Running {
    tasks: JoinSet<()>,
    stop: Stop,
    pods: PodManager,
    shared: Shared,
}

// --- Agent ---

impl Agent {
    /// An agent that is to be run, and writes with the rights of that client: those of `system:node:NAME`.
    pub fn new(config: Config, client: Client) -> Self {
        Agent {
            config,
            client,
            clock: Clock::system(),
        }
    }

    /// With another clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// If it cannot begin, or if a part of it panicked.
    pub async fn run(&self, stop: Stop) -> Result<(), AgentError> {
        let events = EventBroadcaster::new(self.client.clone()).clock(self.clock.clone());
        // Events are written until everything else has ended.
        let told = Stop::new();
        let mut writer = JoinSet::new();
        let recorder = events
            .recorder("kubelet")
            .style(EventApi::Core)
            .host(&self.config.node_name);
        let shared = Shared::new(
            self.config.clone(),
            self.client.clone(),
            self.clock.clone(),
            recorder,
        );
        let mut running = self.start(shared).await?;
        let writing = told.clone();
        writer.spawn(async move {
            // It ends when it is told to, and never fails.
            let _ = events.run(writing).await;
        });
        let ended = tokio::select! {
            () = stop.stopped() => Ok(()),
            ended = running.tasks.join_next() => Err(AgentError::Ended(match ended {
                Some(Err(error)) => error.to_string(),
                _ => "nobody told it to".to_owned(),
            })),
        };
        running.end(&stop).await;
        told.stop(stop.remaining().min(LAST));
        writer.join_next().await;
        ended
    }

    /// Begins everything.
    async fn start(&self, shared: Shared) -> Result<Running, AgentError> {
        let config = Arc::clone(&shared.config);
        make_folder(&config.data_dir).await?;
        let (listener, port) = tls::listen(&config).await?;
        let certificates = CertificateKeeper::new(serving::Parts {
            config: Arc::clone(&config),
            client: self.client.clone(),
            clock: self.clock.clone(),
            registered: shared.uid.subscribe(),
        });
        let certificates = certificates.map_err(|error| AgentError::Certificate(error.to_string()))?;
        let tls = tls::server(&config, certificates.resolver())?;
        let adopted = cluster::adopted_pods(&config.data_dir);
        let link = Link::new(search::detect(&config, &self.client, &shared.networks, &adopted));
        let sources: Arc<dyn Sources> = Arc::new(ApiSources::new(self.client.clone(), self.clock.clone()));
        let volumes = Volumes::new(config.data_dir.clone(), Arc::clone(&sources), self.clock.clone());
        let volumes = Arc::new(volumes);
        let pods = self.pods(&shared, &link, sources, &volumes, adopted);
        let view = Arc::new(View {
            config: Arc::clone(&config),
            pods: pods.clone(),
            state: link.state(),
        });
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        let given = Given {
            link,
            certificates,
            tenants: view.clone(),
            volumes: measure(volumes),
            port,
        };
        shared.start(given, &mut tasks, &stop);
        let running = pods.clone();
        let until = stop.clone();
        tasks.spawn(async move { running.run(until).await });
        tasks.spawn(self.serve(view, listener, tls, stop.clone()));
        Ok(Running {
            tasks,
            stop,
            pods,
            shared,
        })
    }

    fn pods(
        &self,
        shared: &Shared,
        link: &Link,
        sources: Arc<dyn Sources>,
        volumes: &Arc<Volumes>,
        adopted: AdoptedPods,
    ) -> PodManager {
        let config = &shared.config;
        let facts = shared.facts.subscribe();
        let prober = Prober::new(
            link.runtime(),
            facts.clone(),
            self.clock.clone(),
            shared.recorder.clone(),
        );
        let mut settings = pod::PodSettings::new(config.data_dir.clone(), config.log_dir.clone());
        settings.manifests.clone_from(&config.static_pods);
        settings.start_limit = config.start_limit;
        settings.stop_limit = config.stop_limit;
        PodManager::new(pod::PodDependencies {
            runtime: link.runtime(),
            volumes: Arc::clone(volumes),
            sources,
            prober: Arc::new(prober),
            recorder: shared.recorder.clone(),
            client: self.client.clone(),
            clock: self.clock.clone(),
            facts,
            adopted,
            pulled: shared.pulled.clone(),
            settings,
        })
    }

    /// Serves the node's own API.
    fn serve(
        &self,
        view: Arc<View>,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        stop: Stop,
    ) -> impl Future<Output = ()> + Send + use<> {
        let config = ServerConfig {
            node: self.config.node_name.clone(),
            client: self.client.clone(),
            clock: self.clock.clone(),
            folder: self.config.data_dir.clone(),
        };
        let server = NodeServer::new(config, view);
        async move { server.serve(listener, tls, stop).await }
    }
}

impl Runnable for Agent {
    fn name(&self) -> &'static str {
        "node"
    }

    fn leader_only(&self) -> bool {
        false
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move { Ok(Agent::run(self, stop).await?) })
    }
}

// --- Running ---

impl Running {
    /// Ends everything; the pods too, if that is wanted, before the time is over.
    async fn end(&mut self, stop: &Stop) {
        let shutdown = &self.shared.config.shutdown;
        if stop.is_stopped() && !shutdown.grace.is_empty() {
            self.shared.leaving.send_replace(Some(LEAVING.to_owned()));
            let bands = shutdown.grace.iter();
            let bands: Vec<_> = bands
                .map(|(priority, grace_period)| ShutdownPriorityBand {
                    priority: *priority,
                    grace_period: *grace_period,
                })
                .collect();
            stop.until_expired(self.pods.shut_down(&bands)).await;
        }
        self.stop.stop(stop.remaining());
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // What takes longer is dropped with the tasks.
        tokio::select! {
            () = all => {}
            () = self.stop.expired() => {}
        }
    }
}

/// The folder of the agent, which others have no business in.
async fn make_folder(folder: &std::path::Path) -> Result<(), AgentError> {
    let path = folder.to_owned();
    let made = tokio::task::spawn_blocking(move || k3_files::create_directory(&path)).await;
    let made = made.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    made.map_err(|error| AgentError::Folder(folder.to_owned(), error))
}

/// Measures the volumes of a pod that count as its own.
fn measure(volumes: Arc<Volumes>) -> MeasureVolumes {
    Arc::new(move |pod| {
        let volumes = Arc::clone(&volumes);
        Box::pin(async move {
            let used = volumes.usage(&pod).await.unwrap_or_default();
            let own = used.into_iter().filter(|used| used.is_own);
            let own = own.map(|used| {
                (
                    used.volume,
                    FolderUse {
                        bytes: used.used,
                        inodes: used.files,
                    },
                )
            });
            own.collect::<BTreeMap<_, _>>()
        })
    })
}
