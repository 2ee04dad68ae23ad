//! What the workers of pods are built of.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kubecontroller::{Clock, events::EventRecorder};
use tokio::sync::watch;

use crate::{
    Facts, PodIdentity,
    images::{self, PulledImages},
    probes::Prober,
    runtime::{AdoptedPods, Runtime},
    sources::Sources,
    volumes::Volumes,
};

/// What the workers of pods are built of.
pub struct Parts {
    /// What runs containers, once it was found.
    pub runtime: watch::Receiver<Option<Arc<dyn Runtime>>>,
    /// The volumes of pods.
    pub volumes: Arc<Volumes>,
    /// What pods refer to.
    pub sources: Arc<dyn Sources>,
    /// Whether containers are well.
    pub prober: Arc<Prober>,
    /// Whom users' events go to. In the style of core events, as the component `kubelet`.
    pub recorder: EventRecorder,
    /// The API.
    pub client: kube::Client,
    /// The time of day.
    pub clock: Clock,
    /// What pods may learn of the node.
    pub facts: watch::Receiver<Arc<Facts>>,
    /// The pods of this node, so that the runtime knows containers of theirs that older versions made.
    pub adopted: AdoptedPods,
    /// Which images this node pulled.
    pub pulled: PulledImages,
    /// What can be chosen.
    pub settings: Settings,
}

/// What can be chosen of how pods are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of this node; those of pods are in `pods` in it.
    pub root: PathBuf,
    /// Where logs of containers are, a folder for each pod. Upstream's: `/var/log/pods`.
    pub logs: PathBuf,
    /// The folder of static pods, if there are any.
    pub manifests: Option<PathBuf>,
    /// How long each call may take that makes or starts something. Default: 2 minutes.
    pub start_limit: Duration,
    /// How long ending something may take beyond its grace time. Default: 30 seconds.
    pub stop_limit: Duration,
    /// How long a `postStart` hook may take. Default: an hour; upstream waits for ever.
    pub hook_limit: Duration,
    /// How images are pulled.
    pub images: images::Limits,
    /// How often everything is looked at, whether something happened or not. Default: 60 seconds. What happens is told by the
    /// runtime; this is for what it did not tell.
    pub relist: Duration,
    /// How often what is mounted is brought up to date. Default: 60 seconds, and up to half of it more.
    pub refresh: Duration,
    /// How often the folder of static pods is read. Default: 20 seconds.
    pub manifests_every: Duration,
}

// --- Settings ---

impl Settings {
    /// The defaults, with a folder.
    pub fn new(root: PathBuf, logs: PathBuf) -> Self {
        Settings {
            root,
            logs,
            manifests: None,
            start_limit: Duration::from_mins(2),
            stop_limit: Duration::from_secs(30),
            hook_limit: Duration::from_hours(1),
            images: images::Limits::default(),
            relist: Duration::from_mins(1),
            refresh: Duration::from_mins(1),
            manifests_every: Duration::from_secs(20),
        }
    }

    /// The folder of a pod.
    pub fn folder(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    /// The folder of a pod's logs.
    pub fn log_folder(&self, pod: &PodIdentity) -> PathBuf {
        self.logs
            .join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
    }
}
