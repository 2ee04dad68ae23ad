//! Whether an exited container is restarted.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec, PodStatus};

use super::PodSnapshot;
use crate::runtime::ContainerState;

/// Action of a restart rule that restarts all containers of the pod (KEP-5532).
const RESTART_ALL: &str = "RestartAllContainers";

/// Whether an init container is a sidecar (KEP-753).
// upstream: pkg/api/v1/pod/util.go IsRestartableInitContainer
pub fn is_restartable_init_container(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether a container that exited with this code is restarted, by its own rules and policy or by the pod's policy.
// upstream: pkg/api/v1/pod/util.go ContainerShouldRestart
pub fn should_container_be_restarted(spec: &PodSpec, container: &Container, code: i32) -> bool {
    let rule = container
        .restart_policy
        .as_ref()
        .and(find_matching_restart_rule(container, code));
    if rule.is_some_and(|rule| ["Restart", RESTART_ALL].contains(&&*rule.action)) {
        return true;
    }
    let own = container.restart_policy.as_deref();
    match own.or(spec.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        _ => true,
    }
}

/// The first restart rule that matches the exit code.
// upstream: pkg/api/v1/pod/util.go FindMatchingContainerRestartRule
fn find_matching_restart_rule(container: &Container, code: i32) -> Option<&ContainerRestartRule> {
    let mut rules = container.restart_policy_rules.iter().flatten();
    rules.find(|rule| {
        let Some(codes) = &rule.exit_codes else {
            return false;
        };
        let listed = codes.values.iter().flatten().any(|value| *value == code);
        match &*codes.operator {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    })
}

/// Whether the pod has a restart rule that restarts all containers.
// upstream: pkg/api/v1/pod/util.go AllContainersCouldRestart
pub fn could_restart_all(spec: &PodSpec) -> bool {
    let mut rules =
        all_containers(spec).flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL)
}

/// Whether all containers have to be removed and restarted: a restart rule matches the exit code of
/// one of them, or the restart is in progress already.
// upstream: pkg/kubelet/container/helpers.go ShouldAllContainersRestart
pub fn should_all_containers_restart(spec: &PodSpec, snapshot: &PodSnapshot, status: &PodStatus) -> bool {
    let in_progress = super::find_condition(
        status.conditions.as_ref(),
        super::conditions::ALL_CONTAINERS_RESTARTING,
    );
    if in_progress.is_some_and(|condition| condition.status == "True") {
        return true;
    }
    all_containers(spec).any(|container| {
        let Some(ContainerState::Exited(exit)) =
            snapshot.newest(&container.name).map(|instance| &instance.state)
        else {
            return false;
        };
        find_matching_restart_rule(container, exit.code).is_some_and(|rule| rule.action == RESTART_ALL)
    })
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}
