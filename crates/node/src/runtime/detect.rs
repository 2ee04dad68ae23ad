//! Detection of the container runtime of this machine.
//!
//! A runtime is detected by calling it: an installed command does not mean that the daemon runs, and a socket may belong to another
//! runtime than its path suggests. The order is Docker, Podman, containerd, CRI-O; the first that answers is used. If none answers, the
//! error lists every attempt. Detection is cheap while no socket exists, so callers may repeat it.

mod endpoints;

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;

use crate::blocking::run_blocking;

use self::endpoints::{HostEnvironment, RuntimeEndpoint, endpoints};
use super::{ContainerOwner, Runtime, RuntimeError, cni::CniBridge, cri::CriRuntime, docker::DockerRuntime};

/// Timeout for connecting and the version call. Daemons of a busy machine are slow.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A supported container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// containerd.
    Containerd,
    /// CRI-O.
    CriO,
}

/// Configuration of the detection: `--runtime` and `--runtime-endpoint`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeSelection {
    /// Runtime to use. Default: the first that answers.
    pub choice: RuntimeChoice,
    /// Socket of the runtime. Default: the usual sockets of each runtime.
    pub socket: Option<PathBuf>,
}

/// Source of the pod network for a CRI runtime without one; Docker and Podman have their own. Called after such a runtime has answered.
pub type NetworkSource<'a> =
    dyn Fn() -> Pin<Box<dyn Future<Output = Option<CniBridge>> + Send + 'a>> + Send + Sync + 'a;

/// Value of `--runtime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeChoice {
    /// `auto`: the first that answers.
    #[default]
    Auto,
    /// Only this runtime.
    Only(RuntimeKind),
    /// `none`: the node runs no pods.
    Disabled,
}

/// Unknown value of `--runtime`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown container runtime \"{0}\": use one of auto, docker, podman, containerd, cri-o, none")]
pub struct UnknownRuntimeError(String);

/// The endpoint is not a unix socket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid runtime endpoint \"{0}\": not a unix socket; write it as unix:///path/to/socket")]
pub struct InvalidEndpointError(String);

/// Detection found no runtime. The message is reported in the node's Ready condition.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// `--runtime none`.
    #[error("the container runtime is disabled (--runtime none)")]
    Disabled,
    /// No runtime answered; the attempts.
    #[error(
        "no container runtime found: {}; install and start one of docker, podman, containerd, cri-o, or simulate a node with `k3 start --simulated-nodes 1`",
        .0.join("; ")
    )]
    NotFound(Vec<String>),
}

/// Why an endpoint has no usable runtime.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("not a unix socket")]
    NotUnixSocket,
    #[error("not found")]
    NotFound,
    #[error("no response within {} s", CONNECT_TIMEOUT.as_secs())]
    Timeout,
    #[error("{}", connect_error_message(.0))]
    Connect(#[source] RuntimeError),
    #[error(transparent)]
    Version(RuntimeError),
    #[error("the runtime is {0}")]
    OtherRuntime(String),
}

/// Detects the configured runtime. Callers repeat it while there is none.
pub async fn detect(
    selection: &RuntimeSelection,
    owner: &ContainerOwner,
) -> Result<Arc<dyn Runtime>, DetectError> {
    detect_with_network(selection, owner, &|| Box::pin(std::future::ready(None))).await
}

/// Like [`detect`], with a pod network for CRI runtimes.
pub async fn detect_with_network(
    selection: &RuntimeSelection,
    owner: &ContainerOwner,
    network: &NetworkSource<'_>,
) -> Result<Arc<dyn Runtime>, DetectError> {
    if selection.choice == RuntimeChoice::Disabled {
        return Err(DetectError::Disabled);
    }
    let mut tried = Vec::new();
    for endpoint in endpoints(selection, &HostEnvironment::from_env()) {
        match connect_to_endpoint(&endpoint, selection, owner, network).await {
            Ok(runtime) => return Ok(runtime),
            Err(reason) => tried.push(format!("{endpoint}: {reason}")),
        }
    }
    Err(DetectError::NotFound(tried))
}

/// Detects Docker or Podman, for service containers: they need named volumes, which CRI runtimes lack.
pub async fn detect_docker(selection: &RuntimeSelection) -> Result<DockerRuntime, DetectError> {
    if selection.choice == RuntimeChoice::Disabled {
        return Err(DetectError::Disabled);
    }
    let mut tried = Vec::new();
    for endpoint in endpoints(selection, &HostEnvironment::from_env()) {
        if matches!(endpoint.kind, Some(RuntimeKind::Containerd | RuntimeKind::CriO)) {
            tried.push(format!("{endpoint}: no named volumes; use Docker or Podman"));
            continue;
        }
        match connect_with_timeout(&endpoint, DockerRuntime::connect_without_owner).await {
            Ok(engine) => return Ok(engine),
            Err(reason) => tried.push(format!("{endpoint}: {reason}")),
        }
    }
    Err(DetectError::NotFound(tried))
}

/// Connects to the runtime at an endpoint. Its kind matters only if one was configured.
async fn connect_to_endpoint(
    endpoint: &RuntimeEndpoint,
    selection: &RuntimeSelection,
    owner: &ContainerOwner,
    network: &NetworkSource<'_>,
) -> Result<Arc<dyn Runtime>, ConnectError> {
    let runtime =
        connect_with_timeout(endpoint, |socket| connect(endpoint.kind, socket, owner, network)).await?;
    let version = runtime.version().await.map_err(ConnectError::Version)?;
    match selection.choice {
        RuntimeChoice::Only(kind) if kind.name() != version.name => {
            Err(ConnectError::OtherRuntime(version.name))
        }
        _ => Ok(runtime),
    }
}

/// Connects to an endpoint, with a timeout.
async fn connect_with_timeout<'a, T, F>(
    endpoint: &'a RuntimeEndpoint,
    connect: impl FnOnce(&'a Path) -> F,
) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, RuntimeError>>,
{
    let socket = endpoint.socket.as_deref().ok_or(ConnectError::NotUnixSocket)?;
    if !tokio::fs::try_exists(socket).await.unwrap_or(false) {
        return Err(ConnectError::NotFound);
    }
    timeout(CONNECT_TIMEOUT, connect(socket))
        .await
        .map_err(|_| ConnectError::Timeout)?
        .map_err(ConnectError::Connect)
}

/// Without the name of the runtime and its socket: the list of attempts contains them.
fn connect_error_message(error: &RuntimeError) -> String {
    match error {
        RuntimeError::Unreachable { reason, .. } => reason.clone(),
        error => error.to_string(),
    }
}

async fn connect(
    kind: Option<RuntimeKind>,
    socket: &Path,
    owner: &ContainerOwner,
    network: &NetworkSource<'_>,
) -> Result<Arc<dyn Runtime>, RuntimeError> {
    let engine = || async {
        let engine = DockerRuntime::connect(socket, owner.clone()).await?;
        Ok(Arc::new(engine) as Arc<dyn Runtime>)
    };
    let cri = || async {
        let path = socket.to_owned();
        let owner = owner.clone();
        let cri = run_blocking(move || CriRuntime::connect(&path, owner)).await?;
        // `connect` sends nothing: the version call checks that a CRI server answers.
        cri.version().await?;
        let cri = match network().await {
            Some(network) => cri.with_network(network),
            None => cri,
        };
        Ok(Arc::new(cri) as Arc<dyn Runtime>)
    };
    match kind {
        Some(RuntimeKind::Docker | RuntimeKind::Podman) => engine().await,
        Some(RuntimeKind::Containerd | RuntimeKind::CriO) => cri().await,
        None => match engine().await {
            Ok(runtime) => Ok(runtime),
            Err(_) => cri().await,
        },
    }
}

// --- RuntimeKind ---

impl RuntimeKind {
    /// The scheme of container IDs (`docker://...`), and the runtime's name in `containerRuntimeVersion`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
        }
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// --- RuntimeChoice ---

impl FromStr for RuntimeChoice {
    type Err = UnknownRuntimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" | "auto" => Ok(Self::Auto),
            "docker" => Ok(Self::Only(RuntimeKind::Docker)),
            "podman" => Ok(Self::Only(RuntimeKind::Podman)),
            "containerd" => Ok(Self::Only(RuntimeKind::Containerd)),
            "cri-o" | "crio" => Ok(Self::Only(RuntimeKind::CriO)),
            "none" => Ok(Self::Disabled),
            other => Err(UnknownRuntimeError(other.to_owned())),
        }
    }
}

/// Parses `unix:///path` or an absolute path.
pub fn parse_endpoint(endpoint: &str) -> Result<PathBuf, InvalidEndpointError> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if path.starts_with('/') {
        Ok(PathBuf::from(path))
    } else {
        Err(InvalidEndpointError(endpoint.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    fn owner() -> ContainerOwner {
        ContainerOwner::new("n", "c")
    }

    async fn detection_error(selection: &RuntimeSelection) -> String {
        detect(selection, &owner()).await.err().unwrap().to_string()
    }

    #[test]
    fn parses_choices_and_endpoints() {
        assert_eq!("auto".parse(), Ok(RuntimeChoice::Auto));
        assert_eq!("cri-o".parse(), Ok(RuntimeChoice::Only(RuntimeKind::CriO)));
        assert_eq!("none".parse(), Ok(RuntimeChoice::Disabled));
        let error = "rkt".parse::<RuntimeChoice>().unwrap_err().to_string();
        assert!(
            error.contains("\"rkt\"") && error.contains("containerd"),
            "{error}"
        );
        assert_eq!(parse_endpoint("unix:///run/a.sock"), Ok("/run/a.sock".into()));
        assert_eq!(parse_endpoint("/run/a.sock"), Ok("/run/a.sock".into()));
        assert!(parse_endpoint("tcp://1.2.3.4:2375").is_err());
    }

    #[tokio::test]
    async fn error_lists_all_attempts() {
        let directory = tempfile::tempdir().unwrap();
        let selection = RuntimeSelection {
            choice: RuntimeChoice::Only(RuntimeKind::Docker),
            socket: Some(directory.path().join("absent.sock")),
        };
        let reason = detection_error(&selection).await;
        assert!(
            reason.starts_with("no container runtime found: docker at "),
            "{reason}"
        );
        assert!(reason.contains("absent.sock: not found;"), "{reason}");
    }

    #[tokio::test]
    async fn reports_refused_connection() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("unserved.sock");
        drop(UnixListener::bind(&socket).unwrap());
        let selection = RuntimeSelection {
            choice: RuntimeChoice::Only(RuntimeKind::Podman),
            socket: Some(socket),
        };
        let reason = detection_error(&selection).await;
        assert!(reason.contains("refused"), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn times_out_on_silent_socket() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("silent.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let selection = RuntimeSelection {
            choice: RuntimeChoice::Only(RuntimeKind::Docker),
            socket: Some(socket),
        };
        let reason = detection_error(&selection).await;
        assert!(
            reason.contains("silent.sock: no response within 20 s;"),
            "{reason}"
        );
    }

    #[tokio::test]
    async fn reports_disabled_runtime() {
        let selection = RuntimeSelection {
            choice: RuntimeChoice::Disabled,
            ..RuntimeSelection::default()
        };
        assert_eq!(
            detection_error(&selection).await,
            "the container runtime is disabled (--runtime none)"
        );
    }
}
