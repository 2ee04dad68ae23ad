//! What is there, from what the engine tells of it. Nothing is done here.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;

use super::{
    answer::{ImageAnswer, Inspected, State},
    names::Marks,
    plan::Flavor,
};
use crate::runtime::{Container, ContainerId, ContainerState, Exit, Image, Sandbox, SandboxId, SandboxState};

/// A sandbox that was looked at; `None` if its labels are not those of one.
pub(super) fn sandbox(seen: &Inspected) -> Option<Sandbox> {
    let marks = Marks::read(&seen.config.labels)?;
    let is_running = seen.state.running;
    Some(Sandbox {
        id: SandboxId(seen.id.clone()),
        pod: marks.pod,
        attempt: marks.attempt,
        state: if is_running {
            SandboxState::Ready
        } else {
            SandboxState::NotReady
        },
        created: time(&seen.created).unwrap_or_default(),
        addresses: if is_running { addresses(seen) } else { Vec::new() },
        labels: marks.labels,
        annotations: marks.annotations,
    })
}

/// A container that was looked at, with its image as statuses tell it.
pub(super) fn container(seen: &Inspected, image_id: String) -> Option<Container> {
    let marks = Marks::read(&seen.config.labels)?;
    let created = time(&seen.created).unwrap_or_default();
    Some(Container {
        id: ContainerId(seen.id.clone()),
        sandbox: SandboxId(marks.sandbox),
        pod: marks.pod,
        name: marks.name,
        attempt: marks.attempt,
        image: marks.image,
        image_id,
        created,
        state: state(&seen.state, created),
        annotations: marks.annotations,
        labels: marks.labels,
    })
}

/// How a container is. One that could not be begun has no end, but a code that is not zero: it ended when it was made.
fn state(state: &State, created: Timestamp) -> ContainerState {
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
        return ContainerState::Exited(Exit {
            code,
            signal: None,
            started,
            // A Podman may write down the beginning of a short life after its end.
            finished: started.map_or(finished, |started| finished.max(started)),
            reason: reason.to_owned(),
            message: state.error.clone(),
        });
    }
    if code != 0 {
        return ContainerState::Exited(Exit {
            code,
            signal: None,
            started: Some(created),
            finished: created,
            reason: "ContainerCannotRun".to_owned(),
            message: state.error.clone(),
        });
    }
    match state.status.as_str() {
        // Podman calls one `configured` or `initialized` that was made and not begun.
        "created" | "configured" | "initialized" => ContainerState::Created,
        _ => ContainerState::Unknown,
    }
}

/// The addresses of a container in its networks, the older kind first.
fn addresses(seen: &Inspected) -> Vec<IpAddr> {
    let mut networks: Vec<_> = seen.network_settings.networks.iter().collect();
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

/// An image.
pub(super) fn image(seen: ImageAnswer) -> Image {
    let no_tag = |name: &String| !name.starts_with("<none>");
    let (user, user_name) = user_of(&seen.config.user);
    Image {
        id: full_id(&seen.id),
        tags: seen.repo_tags.into_iter().filter(no_tag).collect(),
        digests: seen.repo_digests.into_iter().filter(no_tag).collect(),
        size: seen.size,
        user,
        user_name,
        pinned: false,
    }
}

/// The image of a container for its status: where it can be had for good, or else its id.
pub(super) fn image_id(flavor: Flavor, image: &Image) -> String {
    let (pullable, local) = match flavor {
        Flavor::Docker => ("docker-pullable://", "docker://"),
        Flavor::Podman => ("", ""),
    };
    match image.digests.first() {
        Some(digest) => format!("{pullable}{digest}"),
        None => format!("{local}{}", image.id),
    }
}

/// An id with the name of its sum, which Podman leaves out.
pub(super) fn full_id(id: &str) -> String {
    if id.is_empty() || id.contains(':') {
        id.to_owned()
    } else {
        format!("sha256:{id}")
    }
}

/// The user of an image, as a number or by name, without the group.
fn user_of(text: &str) -> (Option<i64>, Option<String>) {
    let user = text.split(':').next().unwrap_or_default();
    match user.parse() {
        Ok(number) => (Some(number), None),
        Err(_) if user.is_empty() => (None, None),
        Err(_) => (None, Some(user.to_owned())),
    }
}

/// A time; `None` for the first day of the first year, which stands for none.
fn time(text: &str) -> Option<Timestamp> {
    if text.starts_with("0001-01-01") {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::engine::answer::Endpoint;

    const CREATED: &str = "2026-01-02T03:04:05.123456789Z";
    const LATER: &str = "2026-01-02T03:05:05+00:00";
    const NEVER: &str = "0001-01-01T00:00:00Z";

    fn seen(state: &State) -> ContainerState {
        super::state(state, CREATED.parse().unwrap())
    }

    fn ended(code: i64, oom_killed: bool) -> Exit {
        let state = seen(&State {
            status: "exited".into(),
            exit_code: code,
            oom_killed,
            started_at: CREATED.into(),
            finished_at: LATER.into(),
            ..State::default()
        });
        match state {
            ContainerState::Exited(exit) => exit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ends_have_the_reasons_that_users_know() {
        assert_eq!(ended(0, false).reason, "Completed");
        assert_eq!(ended(3, false).reason, "Error");
        assert_eq!(ended(137, true).reason, "OOMKilled");
        assert_eq!(ended(3, false).code, 3);
        assert_eq!(ended(0, false).finished, LATER.parse().unwrap());
    }

    #[test]
    fn what_could_not_begin_ended_when_it_was_made() {
        let state = seen(&State {
            status: "created".into(),
            exit_code: 127,
            error: "no such file".into(),
            started_at: NEVER.into(),
            finished_at: NEVER.into(),
            ..State::default()
        });
        let ContainerState::Exited(exit) = state else {
            panic!("{state:?}");
        };
        assert_eq!((exit.reason.as_str(), exit.code), ("ContainerCannotRun", 127));
        assert_eq!(exit.message, "no such file");
        assert_eq!(exit.finished, CREATED.parse().unwrap());
    }

    #[test]
    fn what_was_not_begun_is_made_under_all_its_names() {
        for status in ["created", "configured", "initialized"] {
            let state = seen(&State {
                status: status.into(),
                started_at: NEVER.into(),
                finished_at: NEVER.into(),
                ..State::default()
            });
            assert_eq!(state, ContainerState::Created, "{status}");
        }
    }

    #[test]
    fn a_runner_runs_since_it_was_started() {
        let state = seen(&State {
            status: "running".into(),
            running: true,
            started_at: LATER.into(),
            ..State::default()
        });
        let started = LATER.parse().unwrap();
        assert_eq!(state, ContainerState::Running { started });
    }

    #[test]
    fn addresses_of_both_kinds_come_in_order() {
        let mut inspected = Inspected::default();
        inspected.network_settings.networks.insert(
            "bridge".into(),
            Endpoint {
                address: "10.0.0.2".into(),
                address_v6: "fd00::2".into(),
            },
        );
        inspected
            .network_settings
            .networks
            .insert("none".into(), Endpoint::default());
        assert_eq!(
            addresses(&inspected),
            ["10.0.0.2".parse::<IpAddr>().unwrap(), "fd00::2".parse().unwrap()]
        );
    }

    #[test]
    fn images_are_identified_for_good_where_that_is_known() {
        let mut image = Image {
            id: "sha256:1".into(),
            ..Image::default()
        };
        assert_eq!(image_id(Flavor::Docker, &image), "docker://sha256:1");
        image.digests.push("a@sha256:2".into());
        assert_eq!(image_id(Flavor::Docker, &image), "docker-pullable://a@sha256:2");
        assert_eq!(image_id(Flavor::Podman, &image), "a@sha256:2");
        assert_eq!(full_id("12"), "sha256:12");
        assert_eq!(full_id("sha256:12"), "sha256:12");
    }

    #[test]
    fn users_of_images_are_numbers_or_names() {
        assert_eq!(user_of("1000:1000"), (Some(1000), None));
        assert_eq!(user_of("daemon"), (None, Some("daemon".into())));
        assert_eq!(user_of(""), (None, None));
    }
}
