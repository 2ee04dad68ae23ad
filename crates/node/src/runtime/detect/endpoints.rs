//! Default endpoints of container runtimes.

use std::{env, fmt, path::PathBuf};

use super::{RuntimeChoice, RuntimeKind, RuntimeSelection};

/// An endpoint to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuntimeEndpoint {
    /// Expected runtime, which selects the protocol. `None`: try both protocols.
    pub(super) kind: Option<RuntimeKind>,
    /// Unix socket; `None` for other endpoints, such as `tcp://`.
    pub(super) socket: Option<PathBuf>,
    /// Address in messages.
    pub(super) address: String,
}

/// Environment variables that locate runtimes.
#[derive(Clone, Debug, Default)]
pub(super) struct HostEnvironment {
    /// `DOCKER_HOST`
    pub(super) docker_host: Option<String>,
    /// `XDG_RUNTIME_DIR`: sockets of rootless runtimes.
    pub(super) runtime_directory: Option<PathBuf>,
}

// --- HostEnvironment ---

impl HostEnvironment {
    pub(super) fn from_env() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            docker_host: text("DOCKER_HOST"),
            runtime_directory: text("XDG_RUNTIME_DIR").map(PathBuf::from),
        }
    }
}

// --- RuntimeEndpoint ---

impl RuntimeEndpoint {
    fn new(kind: Option<RuntimeKind>, socket: PathBuf) -> Self {
        Self {
            kind,
            address: socket.display().to_string(),
            socket: Some(socket),
        }
    }
}

impl fmt::Display for RuntimeEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{kind} at {}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Endpoints to try, in order.
pub(super) fn endpoints(selection: &RuntimeSelection, environment: &HostEnvironment) -> Vec<RuntimeEndpoint> {
    let only = match selection.choice {
        RuntimeChoice::Auto => None,
        RuntimeChoice::Only(kind) => Some(kind),
        RuntimeChoice::Disabled => return Vec::new(),
    };
    if let Some(socket) = &selection.socket {
        return vec![RuntimeEndpoint::new(only, socket.clone())];
    }
    let kinds = [
        RuntimeKind::Docker,
        RuntimeKind::Podman,
        RuntimeKind::Containerd,
        RuntimeKind::CriO,
    ];
    let kinds = kinds
        .into_iter()
        .filter(|kind| only.is_none_or(|only| only == *kind));
    kinds
        .flat_map(|kind| default_endpoints(kind, environment))
        .collect()
}

fn default_endpoints(kind: RuntimeKind, environment: &HostEnvironment) -> Vec<RuntimeEndpoint> {
    let at = |path: &str| RuntimeEndpoint::new(Some(kind), PathBuf::from(path));
    let rootless = |name: &str| {
        let directory = environment.runtime_directory.as_ref();
        directory.map(|directory| RuntimeEndpoint::new(Some(kind), directory.join(name)))
    };
    match kind {
        RuntimeKind::Docker => {
            let configured = environment.docker_host.as_ref().map(|host| RuntimeEndpoint {
                kind: Some(kind),
                socket: host.strip_prefix("unix://").map(PathBuf::from),
                address: host.clone(),
            });
            match configured {
                // `DOCKER_HOST` replaces the default endpoints, as in the docker command.
                Some(endpoint) => vec![endpoint],
                None => [at("/var/run/docker.sock")]
                    .into_iter()
                    .chain(rootless("docker.sock"))
                    .collect(),
            }
        }
        RuntimeKind::Podman => [at("/run/podman/podman.sock")]
            .into_iter()
            .chain(rootless("podman/podman.sock"))
            .collect(),
        RuntimeKind::Containerd => vec![at("/run/containerd/containerd.sock")],
        RuntimeKind::CriO => vec![at("/var/run/crio/crio.sock")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(selection: &RuntimeSelection, environment: &HostEnvironment) -> Vec<String> {
        endpoints(selection, environment)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn tries_docker_podman_containerd_crio_in_order() {
        assert_eq!(
            addresses(&RuntimeSelection::default(), &HostEnvironment::default()),
            [
                "docker at /var/run/docker.sock",
                "podman at /run/podman/podman.sock",
                "containerd at /run/containerd/containerd.sock",
                "cri-o at /var/run/crio/crio.sock",
            ]
        );
    }

    #[test]
    fn respects_docker_host_and_rootless_sockets() {
        let environment = HostEnvironment {
            docker_host: Some("unix:///d.sock".into()),
            runtime_directory: Some("/run/user/1".into()),
        };
        let addresses = addresses(&RuntimeSelection::default(), &environment);
        assert_eq!(addresses[0], "docker at unix:///d.sock");
        assert!(
            addresses.contains(&"podman at /run/user/1/podman/podman.sock".to_owned()),
            "{addresses:?}"
        );
        let remote = HostEnvironment {
            docker_host: Some("tcp://10.0.0.1:2375".into()),
            ..HostEnvironment::default()
        };
        assert_eq!(endpoints(&RuntimeSelection::default(), &remote)[0].socket, None);
    }

    #[test]
    fn tries_only_the_configured_runtime_or_socket() {
        let mut selection = RuntimeSelection {
            choice: RuntimeChoice::Only(RuntimeKind::Podman),
            ..RuntimeSelection::default()
        };
        assert_eq!(
            addresses(&selection, &HostEnvironment::default()),
            ["podman at /run/podman/podman.sock"]
        );
        selection.socket = Some("/p.sock".into());
        assert_eq!(
            addresses(&selection, &HostEnvironment::default()),
            ["podman at /p.sock"]
        );
        selection.choice = RuntimeChoice::Auto;
        assert_eq!(addresses(&selection, &HostEnvironment::default()), ["/p.sock"]);
        selection.choice = RuntimeChoice::Disabled;
        assert_eq!(endpoints(&selection, &HostEnvironment::default()), []);
    }
}
