//! Whether a container that ended is begun again.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec, PodStatus};

use super::Seen;
use crate::runtime::ContainerState;

/// The action of a rule by which the end of one container begins all of them again.
const RESTART_ALL: &str = "RestartAllContainers";

/// Whether an init container runs along with what comes after it.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether a container that ended with that code is begun again, by its own rules and policy, or by the pod's.
pub fn restarts(spec: &PodSpec, container: &Container, code: i32) -> bool {
    let rule = container.restart_policy.as_ref().and(rule(container, code));
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

/// The container's first rule that the code falls under.
fn rule(container: &Container, code: i32) -> Option<&ContainerRestartRule> {
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

/// Whether the end of some container can begin all of them again.
pub fn may_restart_all(spec: &PodSpec) -> bool {
    let mut rules = begun(spec).flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL)
}

/// Whether all containers are to be removed and begun again: one ended by such a rule, or this is under way already.
pub fn restarts_all(spec: &PodSpec, seen: &Seen, told: &PodStatus) -> bool {
    let under_way = super::condition(told.conditions.as_ref(), super::conditions::RESTARTING);
    if under_way.is_some_and(|condition| condition.status == "True") {
        return true;
    }
    begun(spec).any(|container| {
        let Some(ContainerState::Exited(exit)) = seen.newest(&container.name).map(|seen| &seen.state) else {
            return false;
        };
        rule(container, exit.code).is_some_and(|rule| rule.action == RESTART_ALL)
    })
}

fn begun(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}
