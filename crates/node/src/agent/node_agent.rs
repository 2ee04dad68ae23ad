//! Builds and runs the node agent.
// upstream: pkg/kubelet/kubelet.go NewMainKubelet, Run

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
    AgentConfig,
    cluster_uid_file::adopted_pods,
    eviction::{DirectoryUsage, MeasureVolumes},
    host::AgentHost,
    runtime_detection::runtime_detector,
    runtime_monitor::RuntimeMonitor,
    serving_certificate::{ServingCertificateDependencies, ServingCertificateManager},
    tasks::{AgentContext, TaskDependencies},
    tls,
};
use crate::{
    blocking::run_blocking,
    pod::{self, PodManager, ShutdownPriorityBand},
    probes::ProbeManager,
    runtime::AdoptedPods,
    server::{KubeletServer, KubeletServerConfig},
    sources::{ApiObjectSources, ObjectSources},
    volumes::VolumeManager,
};

/// Message of the Ready condition during node shutdown.
const SHUTDOWN_REASON: &str = "node is shutting down";
/// Part of the stop timeout that is reserved for writing the last events.
const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The node agent. Pods keep running when it stops; the next agent process adopts them.
pub struct NodeAgent {
    config: AgentConfig,
    client: Client,
    clock: Clock,
}

/// The agent failed to start, or stopped unexpectedly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeAgentError {
    /// The data directory could not be created.
    #[error("failed to create the data directory {0}: {1}")]
    DataDirectory(PathBuf, #[source] io::Error),
    /// It is unknown which pods this agent ran before: their containers would be started again.
    #[error("failed to list the pods in the data directory {0}: {1}")]
    AdoptedPods(PathBuf, #[source] io::Error),
    /// The kubelet API could not listen.
    #[error("the kubelet API failed to listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The TLS configuration of the kubelet API is invalid.
    #[error("invalid TLS configuration of the kubelet API: {0}")]
    Tls(#[source] rustls::Error),
    /// The cluster's CA certificate is invalid.
    #[error("invalid CA certificate of the cluster: {0}")]
    Authority(String),
    /// No serving certificate could be generated.
    #[error("failed to generate a serving certificate for the kubelet API: {0}")]
    Certificate(String),
    /// A background task ended unexpectedly.
    #[error("a task of the node agent ended unexpectedly: {0}")]
    TaskEnded(String),
}

/// Tasks of a running agent, and what stopping them requires.
struct RunningAgent {
    tasks: JoinSet<()>,
    stop: Stop,
    pods: PodManager,
    context: AgentContext,
}

// --- NodeAgent ---

impl NodeAgent {
    /// An agent that runs with [`NodeAgent::run`]. `client` authenticates as `system:node:NAME`.
    pub fn new(config: AgentConfig, client: Client) -> Self {
        NodeAgent {
            config,
            client,
            clock: Clock::system(),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Runs until `stop` is stopped.
    ///
    /// # Errors
    /// If the agent fails to start, or if one of its tasks panics.
    pub async fn run(&self, stop: Stop) -> Result<(), NodeAgentError> {
        let events = EventBroadcaster::new(self.client.clone()).clock(self.clock.clone());
        // Stopped last: the other tasks record events until they end.
        let events_stop = Stop::new();
        let mut event_writer = JoinSet::new();
        let recorder = events
            .recorder("kubelet")
            .style(EventApi::Core)
            .host(&self.config.node_name);
        let config = self.config.clone();
        let client = self.client.clone();
        let clock = self.clock.clone();
        let context = run_blocking(move || AgentContext::new(config, client, clock, recorder)).await;
        let mut running = self.start(context).await?;
        let writer_stop = events_stop.clone();
        event_writer.spawn(async move {
            // Never fails.
            let _ = events.run(writer_stop).await;
        });
        let ended = tokio::select! {
            () = stop.stopped() => Ok(()),
            ended = running.tasks.join_next() => Err(NodeAgentError::TaskEnded(match ended {
                Some(Err(error)) => error.to_string(),
                _ => "it returned".to_owned(),
            })),
        };
        running.shut_down(&stop).await;
        events_stop.stop(stop.remaining().min(EVENT_FLUSH_TIMEOUT));
        event_writer.join_next().await;
        ended
    }

    async fn start(&self, context: AgentContext) -> Result<RunningAgent, NodeAgentError> {
        let config = Arc::clone(&context.config);
        create_data_directory(&config.data_dir).await?;
        let (listener, port) = tls::listen(&config).await?;
        let dependencies = ServingCertificateDependencies {
            config: Arc::clone(&config),
            client: self.client.clone(),
            clock: self.clock.clone(),
            registered: context.uid.subscribe(),
        };
        let certificates = run_blocking(move || ServingCertificateManager::new(dependencies)).await;
        let certificates = certificates.map_err(|error| NodeAgentError::Certificate(error.to_string()))?;
        let tls = tls::server_config(&config, certificates.resolver())?;
        let data_dir = config.data_dir.clone();
        let adopted = run_blocking(move || adopted_pods(&data_dir)).await;
        let adopted = adopted.map_err(|error| NodeAgentError::AdoptedPods(config.data_dir.clone(), error))?;
        let runtime_monitor = RuntimeMonitor::new(runtime_detector(
            &config,
            &self.client,
            &context.networks,
            &adopted,
        ));
        let sources: Arc<dyn ObjectSources> =
            Arc::new(ApiObjectSources::new(self.client.clone(), self.clock.clone()));
        let volumes = VolumeManager::new(config.data_dir.clone(), Arc::clone(&sources), self.clock.clone());
        let volumes = Arc::new(volumes);
        let pods = self.pod_manager(&context, &runtime_monitor, sources, &volumes, adopted);
        let host = Arc::new(AgentHost {
            config: Arc::clone(&config),
            pods: pods.clone(),
            state: runtime_monitor.state(),
        });
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        let deps = TaskDependencies {
            runtime_monitor,
            certificates,
            pods: host.clone(),
            volumes: volume_meter(volumes),
            port,
        };
        context.spawn_tasks(deps, &mut tasks, &stop);
        let pod_manager = pods.clone();
        let pods_stop = stop.clone();
        tasks.spawn(async move { pod_manager.run(pods_stop).await });
        tasks.spawn(self.serve(host, listener, tls, stop.clone()));
        Ok(RunningAgent {
            tasks,
            stop,
            pods,
            context,
        })
    }

    fn pod_manager(
        &self,
        context: &AgentContext,
        runtime_monitor: &RuntimeMonitor,
        sources: Arc<dyn ObjectSources>,
        volumes: &Arc<VolumeManager>,
        adopted: AdoptedPods,
    ) -> PodManager {
        let config = &context.config;
        let facts = context.facts.subscribe();
        let probe_manager = ProbeManager::new(
            runtime_monitor.runtime(),
            facts.clone(),
            self.clock.clone(),
            context.recorder.clone(),
        );
        let mut settings = pod::PodSettings::new(config.data_dir.clone(), config.log_dir.clone());
        settings.manifests.clone_from(&config.static_pods);
        settings.start_limit = config.start_limit;
        settings.stop_limit = config.stop_limit;
        PodManager::new(pod::PodDependencies {
            runtime: runtime_monitor.runtime(),
            volumes: Arc::clone(volumes),
            sources,
            probe_manager: Arc::new(probe_manager),
            recorder: context.recorder.clone(),
            client: self.client.clone(),
            clock: self.clock.clone(),
            facts,
            adopted,
            pulled: context.pulled.clone(),
            settings,
        })
    }

    /// Serves the kubelet API.
    fn serve(
        &self,
        host: Arc<AgentHost>,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        stop: Stop,
    ) -> impl Future<Output = ()> + Send + use<> {
        let config = KubeletServerConfig {
            node: self.config.node_name.clone(),
            client: self.client.clone(),
            clock: self.clock.clone(),
            data_dir: self.config.data_dir.clone(),
        };
        let server = KubeletServer::new(config, host);
        async move { server.serve(listener, tls, stop).await }
    }
}

impl Runnable for NodeAgent {
    fn name(&self) -> &'static str {
        "node"
    }

    fn leader_only(&self) -> bool {
        false
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move { Ok(NodeAgent::run(self, stop).await?) })
    }
}

// --- RunningAgent ---

impl RunningAgent {
    /// Terminates the pods if graceful shutdown is configured, then stops the tasks, within the timeout of `stop`.
    // upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go processShutdownEvent
    async fn shut_down(&mut self, stop: &Stop) {
        let shutdown = &self.context.config.shutdown;
        if stop.is_stopped() && !shutdown.grace_by_priority.is_empty() {
            self.context
                .shutdown_reason
                .send_replace(Some(SHUTDOWN_REASON.to_owned()));
            let bands = shutdown.grace_by_priority.iter();
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
        // Dropping the set aborts tasks that take longer.
        tokio::select! {
            () = all => {}
            () = self.stop.expired() => {}
        }
    }
}

/// Creates the data directory, accessible only to its owner.
async fn create_data_directory(directory: &std::path::Path) -> Result<(), NodeAgentError> {
    let path = directory.to_owned();
    let created = run_blocking(move || k3_files::create_directory(&path)).await;
    created.map_err(|error| NodeAgentError::DataDirectory(directory.to_owned(), error))
}

/// Measures the local volumes of a pod, such as `emptyDir` volumes.
fn volume_meter(volumes: Arc<VolumeManager>) -> MeasureVolumes {
    Arc::new(move |pod| {
        let volumes = Arc::clone(&volumes);
        Box::pin(async move {
            let used = volumes.volume_usage(&pod).await.unwrap_or_else(|error| {
                // Eviction then counts only the containers of the pod.
                tracing::warn!(%pod, %error, "failed to measure the volumes of a pod");
                Vec::new()
            });
            let own = used.into_iter();
            let own = own.map(|used| {
                (
                    used.volume,
                    DirectoryUsage {
                        bytes: used.used_bytes,
                        inodes: used.inodes,
                    },
                )
            });
            own.collect::<BTreeMap<_, _>>()
        })
    })
}
