//! Dependencies and configuration of the pod workers.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kubecontroller::{Clock, events::EventRecorder};
use tokio::sync::watch;

use crate::{
    NodeFacts, PodIdentity,
    images::{self, PulledImages},
    probes::ProbeManager,
    runtime::{AdoptedPods, Runtime},
    sources::ObjectSources,
    volumes::VolumeManager,
};

/// Dependencies of the pod workers.
pub struct PodDependencies {
    /// The container runtime, once one was detected.
    pub runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    /// Volumes of pods.
    pub volumes: Arc<VolumeManager>,
    /// `ConfigMaps`, Secrets, tokens and other objects that pods refer to.
    pub sources: Arc<dyn ObjectSources>,
    /// Probes of containers.
    pub probe_manager: Arc<ProbeManager>,
    /// Records events, as the component `kubelet`.
    pub recorder: EventRecorder,
    /// Client of the API server.
    pub client: kube::Client,
    /// Wall clock.
    pub clock: Clock,
    /// Facts about the node: addresses, allocatable resources, labels.
    pub facts: watch::Receiver<Arc<NodeFacts>>,
    /// UIDs of the pods of this node, so that the runtime recognizes containers that older versions created.
    pub adopted: AdoptedPods,
    /// Images that this node pulled.
    pub pulled: PulledImages,
    /// Directories, timeouts and periods.
    pub settings: PodSettings,
}

/// Settings of the pod workers: directories, timeouts and periods.
#[derive(Clone, Debug)]
pub struct PodSettings {
    /// Data directory of this node. The directories of the pods are in its subdirectory `pods`.
    pub root: PathBuf,
    /// Directory of container logs, one subdirectory per pod. Upstream's is `/var/log/pods`.
    pub logs: PathBuf,
    /// Directory of static pod manifests, if configured.
    pub manifests: Option<PathBuf>,
    /// Timeout of each runtime call that creates or starts something. Default: 2 minutes.
    pub start_limit: Duration,
    /// Timeout of each runtime call that stops something, beyond the grace period. Default: 30 seconds.
    pub stop_limit: Duration,
    /// Timeout of a `postStart` hook. Default: an hour; upstream has none.
    pub hook_limit: Duration,
    /// Timeouts and back-off of image pulls.
    pub images: images::ImagePullLimits,
    /// Period of a full resync of all pods. Default: 60 seconds. Runtime events trigger syncs earlier; the relist
    /// finds what no event reported.
    pub relist: Duration,
    /// Period of remounting volumes with current content. Default: 60 seconds, plus up to half of it as jitter.
    pub refresh: Duration,
    /// Period of reading the manifest directory. Default: 20 seconds.
    pub manifests_every: Duration,
}

// --- PodSettings ---

impl PodSettings {
    /// Default settings with these directories.
    pub fn new(root: PathBuf, logs: PathBuf) -> Self {
        PodSettings {
            root,
            logs,
            manifests: None,
            start_limit: Duration::from_mins(2),
            stop_limit: Duration::from_secs(30),
            hook_limit: Duration::from_hours(1),
            images: images::ImagePullLimits::default(),
            relist: Duration::from_mins(1),
            refresh: Duration::from_mins(1),
            manifests_every: Duration::from_secs(20),
        }
    }

    /// Log directory of a pod.
    // upstream: pkg/kubelet/kuberuntime/helpers.go BuildPodLogsDirectory
    pub fn log_directory(&self, pod: &PodIdentity) -> PathBuf {
        self.logs
            .join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
    }
}
