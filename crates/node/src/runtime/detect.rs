//! Which runtime is on this machine.
//!
//! It is found by talking to it: a command that is installed says nothing of a daemon that runs, and a socket may be another's than
//! its name says. The order is Docker, Podman, containerd, CRI-O; the first that answers is taken. Nothing found is told with all
//! that was tried. Looking again costs nothing while there is nobody.

mod places;

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;

use self::places::{Place, Surroundings, places};
use super::{Owner, Runtime, RuntimeError, cri::Cri, engine::Engine, network::BridgeNetwork};

/// What a daemon that listens may take to say who it is: on a busy machine, some time.
const LIMIT: Duration = Duration::from_secs(20);

/// A program that runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// containerd.
    Containerd,
    /// CRI-O.
    CriO,
}

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Which one. Default: the first that answers.
    pub choice: Choice,
    /// Where it listens. Default: where it usually does.
    pub socket: Option<PathBuf>,
}

/// The network for pods on a runtime that has none of its own; Docker and Podman have. Called once such a runtime answers.
pub type NetworkSource<'a> =
    dyn Fn() -> Pin<Box<dyn Future<Output = Option<BridgeNetwork>> + Send + 'a>> + Send + Sync + 'a;

/// Which runtime is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first that answers.
    #[default]
    Any,
    /// This one.
    Only(Kind),
    /// None: the node runs no pods.
    Nothing,
}

/// A name of a runtime that nobody has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown container runtime \"{0}\": it is one of auto, docker, podman, containerd, cri-o, none")]
pub struct UnknownRuntime(String);

/// An address that is no socket of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no socket of this machine: write it as unix:///path/to/socket")]
pub struct BadEndpoint(String);

/// Why there is no runtime. The words stand in the node's condition.
#[derive(Debug, thiserror::Error)]
pub enum NoRuntime {
    /// None is wanted.
    #[error("this node was told to run no containers (--runtime none)")]
    Unwanted,
    /// Nobody answered.
    #[error(
        "no container runtime found: {}; install and start one of docker, podman, containerd, cri-o, or simulate a node with `k3 start --simulated-nodes 1`",
        .0.join("; ")
    )]
    NotFound(Vec<String>),
}

/// Looks for the runtime that is wanted. To be called again while there is none.
pub async fn detect(wanted: &Wanted, owner: &Owner) -> Result<Arc<dyn Runtime>, NoRuntime> {
    detect_with_network(wanted, owner, &|| Box::pin(std::future::ready(None))).await
}

/// The same, with a network for the pods.
pub async fn detect_with_network(
    wanted: &Wanted,
    owner: &Owner,
    network: &NetworkSource<'_>,
) -> Result<Arc<dyn Runtime>, NoRuntime> {
    if wanted.choice == Choice::Nothing {
        return Err(NoRuntime::Unwanted);
    }
    let mut tried = Vec::new();
    for place in places(wanted, &Surroundings::of_this_process()) {
        match try_place(&place, wanted, owner, network).await {
            Ok(runtime) => return Ok(runtime),
            Err(reason) => tried.push(format!("{place}: {reason}")),
        }
    }
    Err(NoRuntime::NotFound(tried))
}

/// Looks for Docker or Podman: services that are of no pod need volumes with names, which runtimes of CRI do not have.
pub async fn detect_engine(wanted: &Wanted) -> Result<Engine, NoRuntime> {
    if wanted.choice == Choice::Nothing {
        return Err(NoRuntime::Unwanted);
    }
    let mut tried = Vec::new();
    for place in places(wanted, &Surroundings::of_this_process()) {
        if matches!(place.kind, Some(Kind::Containerd | Kind::CriO)) {
            tried.push(format!(
                "{place}: it has no volumes with names, as Docker and Podman have"
            ));
            continue;
        }
        match answering(&place, Engine::for_services).await {
            Ok(engine) => return Ok(engine),
            Err(reason) => tried.push(format!("{place}: {reason}")),
        }
    }
    Err(NoRuntime::NotFound(tried))
}

/// Talks to who listens at a place. Whoever it is will do, unless one was asked for.
async fn try_place(
    place: &Place,
    wanted: &Wanted,
    owner: &Owner,
    network: &NetworkSource<'_>,
) -> Result<Arc<dyn Runtime>, String> {
    let runtime = answering(place, |socket| connect(place.kind, socket, owner, network)).await?;
    let version = runtime.version().await.map_err(|error| error.to_string())?;
    match wanted.choice {
        Choice::Only(kind) if kind.name() != version.name => Err(format!("it is {}", version.name)),
        _ => Ok(runtime),
    }
}

/// What is made of a connection to who listens at a place.
async fn answering<'a, T, F>(place: &'a Place, connect: impl FnOnce(&'a Path) -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, RuntimeError>>,
{
    let socket = place
        .socket
        .as_deref()
        .ok_or("only sockets of this machine are talked to")?;
    if !socket.exists() {
        return Err("not there".to_owned());
    }
    timeout(LIMIT, connect(socket))
        .await
        .map_err(|_| format!("no answer within {} s", LIMIT.as_secs()))?
        .map_err(|error| match error {
            RuntimeError::Unreachable { reason, .. } => reason,
            error => error.to_string(),
        })
}

async fn connect(
    kind: Option<Kind>,
    socket: &Path,
    owner: &Owner,
    network: &NetworkSource<'_>,
) -> Result<Arc<dyn Runtime>, RuntimeError> {
    let engine = || async {
        let engine = Engine::connect(socket, owner.clone()).await?;
        Ok(Arc::new(engine) as Arc<dyn Runtime>)
    };
    let cri = || async {
        let cri = Cri::connect(socket, owner.clone())?;
        // It has not been talked to before this.
        cri.version().await?;
        let cri = match network().await {
            Some(network) => cri.with_network(network),
            None => cri,
        };
        Ok(Arc::new(cri) as Arc<dyn Runtime>)
    };
    match kind {
        Some(Kind::Docker | Kind::Podman) => engine().await,
        Some(Kind::Containerd | Kind::CriO) => cri().await,
        None => match engine().await {
            Ok(runtime) => Ok(runtime),
            Err(_) => cri().await,
        },
    }
}

// --- Kind ---

impl Kind {
    /// What stands before `://` in ids of containers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// --- Choice ---

impl FromStr for Choice {
    type Err = UnknownRuntime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" | "auto" => Ok(Self::Any),
            "docker" => Ok(Self::Only(Kind::Docker)),
            "podman" => Ok(Self::Only(Kind::Podman)),
            "containerd" => Ok(Self::Only(Kind::Containerd)),
            "cri-o" | "crio" => Ok(Self::Only(Kind::CriO)),
            "none" => Ok(Self::Nothing),
            other => Err(UnknownRuntime(other.to_owned())),
        }
    }
}

/// The path of `unix:///path`, or of a path.
pub fn socket_of(endpoint: &str) -> Result<PathBuf, BadEndpoint> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    if path.starts_with('/') {
        Ok(PathBuf::from(path))
    } else {
        Err(BadEndpoint(endpoint.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    fn owner() -> Owner {
        Owner::new("n", "c")
    }

    async fn refused(wanted: &Wanted) -> String {
        detect(wanted, &owner()).await.err().unwrap().to_string()
    }

    #[test]
    fn names_and_addresses_are_read() {
        assert_eq!("auto".parse(), Ok(Choice::Any));
        assert_eq!("cri-o".parse(), Ok(Choice::Only(Kind::CriO)));
        assert_eq!("none".parse(), Ok(Choice::Nothing));
        let error = "rkt".parse::<Choice>().unwrap_err().to_string();
        assert!(
            error.contains("\"rkt\"") && error.contains("containerd"),
            "{error}"
        );
        assert_eq!(socket_of("unix:///run/a.sock"), Ok("/run/a.sock".into()));
        assert_eq!(socket_of("/run/a.sock"), Ok("/run/a.sock".into()));
        assert!(socket_of("tcp://1.2.3.4:2375").is_err());
    }

    #[tokio::test]
    async fn nobody_is_told_with_all_that_was_tried() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted {
            choice: Choice::Only(Kind::Docker),
            socket: Some(folder.path().join("absent.sock")),
        };
        let reason = refused(&wanted).await;
        assert!(
            reason.starts_with("no container runtime found: docker at "),
            "{reason}"
        );
        assert!(reason.ends_with("absent.sock: not there"), "{reason}");
    }

    #[tokio::test]
    async fn a_socket_that_nobody_serves_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("dead.sock");
        drop(UnixListener::bind(&socket).unwrap());
        let wanted = Wanted {
            choice: Choice::Only(Kind::Podman),
            socket: Some(socket),
        };
        let reason = refused(&wanted).await;
        assert!(reason.contains("refused"), "{reason}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_listens_and_says_nothing_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mute.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let wanted = Wanted {
            choice: Choice::Only(Kind::Docker),
            socket: Some(socket),
        };
        let reason = refused(&wanted).await;
        assert!(reason.ends_with("no answer within 20 s"), "{reason}");
    }

    #[tokio::test]
    async fn none_is_wanted() {
        let wanted = Wanted {
            choice: Choice::Nothing,
            ..Wanted::default()
        };
        assert_eq!(
            refused(&wanted).await,
            "this node was told to run no containers (--runtime none)"
        );
    }
}
