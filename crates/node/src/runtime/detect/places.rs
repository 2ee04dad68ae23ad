//! Where runtimes usually listen.

use std::{env, fmt, path::PathBuf};

use super::{Choice, Kind, Wanted};

/// Somewhere to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Who should be there, and so which language is spoken. `None`: either.
    pub(super) kind: Option<Kind>,
    /// Its socket; `None` if it is none of this machine.
    pub(super) socket: Option<PathBuf>,
    /// How it is told.
    pub(super) address: String,
}

/// What the environment says of where runtimes are.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// Where Docker's tools look for it.
    pub(super) docker_host: Option<String>,
    /// The folder of what a plain user runs.
    pub(super) runtime_folder: Option<PathBuf>,
}

// --- Surroundings ---

impl Surroundings {
    pub(super) fn of_this_process() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            docker_host: text("DOCKER_HOST"),
            runtime_folder: text("XDG_RUNTIME_DIR").map(PathBuf::from),
        }
    }
}

// --- Place ---

impl Place {
    fn new(kind: Option<Kind>, socket: PathBuf) -> Self {
        Self {
            kind,
            address: socket.display().to_string(),
            socket: Some(socket),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{kind} at {}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Where to look for what is wanted, in order.
pub(super) fn places(wanted: &Wanted, surroundings: &Surroundings) -> Vec<Place> {
    let only = match wanted.choice {
        Choice::Any => None,
        Choice::Only(kind) => Some(kind),
        Choice::Nothing => return Vec::new(),
    };
    if let Some(socket) = &wanted.socket {
        return vec![Place::new(only, socket.clone())];
    }
    let kinds = [Kind::Docker, Kind::Podman, Kind::Containerd, Kind::CriO];
    let kinds = kinds
        .into_iter()
        .filter(|kind| only.is_none_or(|only| only == *kind));
    kinds.flat_map(|kind| usual(kind, surroundings)).collect()
}

fn usual(kind: Kind, surroundings: &Surroundings) -> Vec<Place> {
    let at = |path: &str| Place::new(Some(kind), PathBuf::from(path));
    let of_user = |name: &str| {
        let folder = surroundings.runtime_folder.as_ref();
        folder.map(|folder| Place::new(Some(kind), folder.join(name)))
    };
    match kind {
        Kind::Docker => {
            let told = surroundings.docker_host.as_ref().map(|host| Place {
                kind: Some(kind),
                socket: host.strip_prefix("unix://").map(PathBuf::from),
                address: host.clone(),
            });
            match told {
                // Who says where it is means that one.
                Some(place) => vec![place],
                None => [at("/var/run/docker.sock")]
                    .into_iter()
                    .chain(of_user("docker.sock"))
                    .collect(),
            }
        }
        Kind::Podman => [at("/run/podman/podman.sock")]
            .into_iter()
            .chain(of_user("podman/podman.sock"))
            .collect(),
        Kind::Containerd => vec![at("/run/containerd/containerd.sock")],
        Kind::CriO => vec![at("/var/run/crio/crio.sock")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wanted: &Wanted, surroundings: &Surroundings) -> Vec<String> {
        places(wanted, surroundings)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_order_is_docker_podman_containerd_crio() {
        assert_eq!(
            told(&Wanted::default(), &Surroundings::default()),
            [
                "docker at /var/run/docker.sock",
                "podman at /run/podman/podman.sock",
                "containerd at /run/containerd/containerd.sock",
                "cri-o at /var/run/crio/crio.sock",
            ]
        );
    }

    #[test]
    fn a_user_has_places_too_and_says_where_docker_is() {
        let surroundings = Surroundings {
            docker_host: Some("unix:///d.sock".into()),
            runtime_folder: Some("/run/user/1".into()),
        };
        let told = told(&Wanted::default(), &surroundings);
        assert_eq!(told[0], "docker at unix:///d.sock");
        assert!(
            told.contains(&"podman at /run/user/1/podman/podman.sock".to_owned()),
            "{told:?}"
        );
        let remote = Surroundings {
            docker_host: Some("tcp://10.0.0.1:2375".into()),
            ..Surroundings::default()
        };
        assert_eq!(places(&Wanted::default(), &remote)[0].socket, None);
    }

    #[test]
    fn what_is_asked_for_is_the_only_one_tried() {
        let mut wanted = Wanted {
            choice: Choice::Only(Kind::Podman),
            ..Wanted::default()
        };
        assert_eq!(
            told(&wanted, &Surroundings::default()),
            ["podman at /run/podman/podman.sock"]
        );
        wanted.socket = Some("/p.sock".into());
        assert_eq!(told(&wanted, &Surroundings::default()), ["podman at /p.sock"]);
        wanted.choice = Choice::Any;
        assert_eq!(told(&wanted, &Surroundings::default()), ["/p.sock"]);
        wanted.choice = Choice::Nothing;
        assert_eq!(places(&wanted, &Surroundings::default()), []);
    }
}
