//! Converts responses of the engine to sandboxes, containers and images.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;

use super::{
    container_config::EngineFlavor,
    container_labels::ContainerLabels,
    responses::{ContainerInspect, ContainerStateResponse, ImageResponse},
};
use crate::runtime::{
    Container, ContainerExit, ContainerId, ContainerState, Image, Sandbox, SandboxId, SandboxState,
};

/// Converts a sandbox; `None` if its labels are not those of a sandbox or container of ours.
pub(super) fn sandbox(inspected: &ContainerInspect) -> Option<Sandbox> {
    let labels = ContainerLabels::read(&inspected.config.labels)?;
    let is_running = inspected.state.running;
    Some(Sandbox {
        id: SandboxId(inspected.id.clone()),
        pod: labels.pod,
        attempt: labels.attempt,
        state: if is_running {
            SandboxState::Ready
        } else {
            SandboxState::NotReady
        },
        created: created(inspected),
        addresses: if is_running {
            addresses(inspected)
        } else {
            Vec::new()
        },
        labels: labels.labels,
        annotations: labels.annotations,
    })
}

/// Converts a container, with its image ID for the pod status.
pub(super) fn container(inspected: &ContainerInspect, image_id: String) -> Option<Container> {
    let labels = ContainerLabels::read(&inspected.config.labels)?;
    let created = created(inspected);
    Some(Container {
        id: ContainerId(inspected.id.clone()),
        sandbox: SandboxId(labels.sandbox),
        pod: labels.pod,
        name: labels.name,
        attempt: labels.attempt,
        image: labels.image,
        image_id,
        created,
        state: state(&inspected.state, created),
        annotations: labels.annotations,
        labels: labels.labels,
    })
}

/// Creation time. One that cannot be read is before all others: a newer instance of the container then takes precedence.
fn created(inspected: &ContainerInspect) -> Timestamp {
    time(&inspected.created).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Container state. A container that could not start has a non-zero exit code but no finish time; it exited at its creation.
fn state(state: &ContainerStateResponse, created: Timestamp) -> ContainerState {
    let started = time(&state.started_at);
    if state.running {
        return ContainerState::Running {
            started: started.unwrap_or(created),
        };
    }
    let code = i32::try_from(state.exit_code).unwrap_or(-1);
    if let Some(finished) = time(&state.finished_at) {
        let reason = if state.oom_killed {
            "OOMKilled"
        } else if code == 0 {
            "Completed"
        } else {
            "Error"
        };
        return ContainerState::Exited(ContainerExit {
            code,
            signal: None,
            started,
            // Podman may record the start of a short-lived container after its exit.
            finished: started.map_or(finished, |started| finished.max(started)),
            reason: reason.to_owned(),
            message: state.error.clone(),
        });
    }
    if code != 0 {
        return ContainerState::Exited(ContainerExit {
            code,
            signal: None,
            started: Some(created),
            finished: created,
            reason: "ContainerCannotRun".to_owned(),
            message: state.error.clone(),
        });
    }
    match state.status.as_str() {
        // Podman reports `configured` or `initialized` for created containers.
        "created" | "configured" | "initialized" => ContainerState::Created,
        _ => ContainerState::Unknown,
    }
}

/// IPs of a container in all networks, IPv4 first.
fn addresses(inspected: &ContainerInspect) -> Vec<IpAddr> {
    let mut networks: Vec<_> = inspected.network_settings.networks.iter().collect();
    networks.sort_by_key(|(name, _)| name.as_str());
    let endpoints = || networks.iter().map(|(_, endpoint)| endpoint);
    let mut addresses: Vec<IpAddr> = endpoints()
        .map(|endpoint| &endpoint.address)
        .chain(endpoints().map(|endpoint| &endpoint.address_v6))
        .filter_map(|address| address.parse().ok())
        .collect();
    addresses.dedup();
    addresses
}

pub(super) fn image(inspected: ImageResponse) -> Image {
    let no_tag = |name: &String| !name.starts_with("<none>");
    let (user, user_name) = user_of(&inspected.config.user);
    Image {
        id: full_id(&inspected.id),
        tags: inspected.repo_tags.into_iter().filter(no_tag).collect(),
        digests: inspected.repo_digests.into_iter().filter(no_tag).collect(),
        size: inspected.size,
        user,
        user_name,
        pinned: false,
    }
}

/// Image ID for the pod status: with a digest if the image has one, otherwise the local ID. The prefixes are dockershim's.
pub(super) fn image_id(flavor: EngineFlavor, image: &Image) -> String {
    let (pullable, local) = match flavor {
        EngineFlavor::Docker => ("docker-pullable://", "docker://"),
        EngineFlavor::Podman => ("", ""),
    };
    match image.digests.first() {
        Some(digest) => format!("{pullable}{digest}"),
        None => format!("{local}{}", image.id),
    }
}

/// Image ID with the digest algorithm, which Podman omits.
pub(super) fn full_id(id: &str) -> String {
    if id.is_empty() || id.contains(':') {
        id.to_owned()
    } else {
        format!("sha256:{id}")
    }
}

/// User of an image, as UID or name, without the group.
fn user_of(text: &str) -> (Option<i64>, Option<String>) {
    let user = text.split(':').next().unwrap_or_default();
    match user.parse() {
        Ok(number) => (Some(number), None),
        Err(_) if user.is_empty() => (None, None),
        Err(_) => (None, Some(user.to_owned())),
    }
}

/// Parses a time; the zero time of Go is `None`.
fn time(text: &str) -> Option<Timestamp> {
    if text.starts_with("0001-01-01") {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::docker::responses::EndpointSettings;

    const CREATED: &str = "2026-01-02T03:04:05.123456789Z";
    const LATER: &str = "2026-01-02T03:05:05+00:00";
    const NEVER: &str = "0001-01-01T00:00:00Z";

    fn inspected(state: &ContainerStateResponse) -> ContainerState {
        super::state(state, CREATED.parse().unwrap())
    }

    fn exited(code: i64) -> ContainerStateResponse {
        ContainerStateResponse {
            status: "exited".into(),
            exit_code: code,
            started_at: CREATED.into(),
            finished_at: LATER.into(),
            ..ContainerStateResponse::default()
        }
    }

    fn exit(state: &ContainerStateResponse) -> ContainerExit {
        match inspected(state) {
            ContainerState::Exited(exit) => exit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exit_reasons() {
        assert_eq!(exit(&exited(0)).reason, "Completed");
        assert_eq!(exit(&exited(3)).reason, "Error");
        let oom_killed = ContainerStateResponse {
            oom_killed: true,
            ..exited(137)
        };
        assert_eq!(exit(&oom_killed).reason, "OOMKilled");
        assert_eq!(exit(&exited(3)).code, 3);
        assert_eq!(exit(&exited(0)).finished, LATER.parse().unwrap());
    }

    #[test]
    fn failed_start_is_an_exit_at_creation() {
        let state = inspected(&ContainerStateResponse {
            status: "created".into(),
            exit_code: 127,
            error: "no such file".into(),
            started_at: NEVER.into(),
            finished_at: NEVER.into(),
            ..ContainerStateResponse::default()
        });
        let ContainerState::Exited(exit) = state else {
            panic!("{state:?}");
        };
        assert_eq!((exit.reason.as_str(), exit.code), ("ContainerCannotRun", 127));
        assert_eq!(exit.message, "no such file");
        assert_eq!(exit.finished, CREATED.parse().unwrap());
    }

    #[test]
    fn accepts_podman_states_of_created_containers() {
        for status in ["created", "configured", "initialized"] {
            let state = inspected(&ContainerStateResponse {
                status: status.into(),
                started_at: NEVER.into(),
                finished_at: NEVER.into(),
                ..ContainerStateResponse::default()
            });
            assert_eq!(state, ContainerState::Created, "{status}");
        }
    }

    #[test]
    fn reports_start_time_of_running_container() {
        let state = inspected(&ContainerStateResponse {
            status: "running".into(),
            running: true,
            started_at: LATER.into(),
            ..ContainerStateResponse::default()
        });
        let started = LATER.parse().unwrap();
        assert_eq!(state, ContainerState::Running { started });
    }

    #[test]
    fn ipv4_addresses_precede_ipv6() {
        let mut inspected = ContainerInspect::default();
        inspected.network_settings.networks.insert(
            "bridge".into(),
            EndpointSettings {
                address: "10.0.0.2".into(),
                address_v6: "fd00::2".into(),
            },
        );
        inspected
            .network_settings
            .networks
            .insert("none".into(), EndpointSettings::default());
        assert_eq!(
            addresses(&inspected),
            ["10.0.0.2".parse::<IpAddr>().unwrap(), "fd00::2".parse().unwrap()]
        );
    }

    #[test]
    fn image_id_prefers_digest() {
        let mut image = Image {
            id: "sha256:1".into(),
            ..Image::default()
        };
        assert_eq!(image_id(EngineFlavor::Docker, &image), "docker://sha256:1");
        image.digests.push("a@sha256:2".into());
        assert_eq!(
            image_id(EngineFlavor::Docker, &image),
            "docker-pullable://a@sha256:2"
        );
        assert_eq!(image_id(EngineFlavor::Podman, &image), "a@sha256:2");
        assert_eq!(full_id("12"), "sha256:12");
        assert_eq!(full_id("sha256:12"), "sha256:12");
    }

    #[test]
    fn image_user_is_uid_or_name() {
        assert_eq!(user_of("1000:1000"), (Some(1000), None));
        assert_eq!(user_of("daemon"), (None, Some("daemon".into())));
        assert_eq!(user_of(""), (None, None));
    }
}
