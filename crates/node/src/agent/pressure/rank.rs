//! Who has to go first.

use std::{cmp::Reverse, sync::Arc};

use k3_quantity::{Format, Quantity};
use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};

use super::{Signal, signal::Resource, usage::PodUsage};
use crate::agent::tenants::priority;

/// A pod that may have to go, with what it uses, if that is known.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) pod: Arc<Pod>,
    pub(super) usage: Option<PodUsage>,
}

/// Requests or limits of a container.
pub(super) type Of = fn(&Container) -> Option<&std::collections::BTreeMap<String, WireQuantity>>;

pub(super) fn requests_of(
    container: &Container,
) -> Option<&std::collections::BTreeMap<String, WireQuantity>> {
    container.resources.as_ref()?.requests.as_ref()
}

pub(super) fn limits_of(container: &Container) -> Option<&std::collections::BTreeMap<String, WireQuantity>> {
    container.resources.as_ref()?.limits.as_ref()
}

/// The amount of a container, if it says one.
pub(super) fn amount(container: &Container, of: Of, name: &str) -> Option<Quantity> {
    of(container)?.get(name)?.0.parse().ok()
}

/// Whether a container runs beside the others although it is begun before them.
pub(super) fn is_restartable_init_container(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What a pod asks for, or is limited to: its containers together, or what one that comes before needs if that is more.
pub(super) fn total(pod: &Pod, of: Of, name: &str) -> Option<Quantity> {
    let spec = pod.spec.as_ref()?;
    let before = spec.init_containers.as_deref().unwrap_or_default();
    let together = spec
        .containers
        .iter()
        .chain(before.iter().filter(|known| is_restartable_init_container(known)));
    let mut sum: Option<Quantity> = None;
    for container in together {
        if let Some(amount) = amount(container, of, name) {
            match &mut sum {
                Some(sum) => sum.add(&amount),
                None => sum = Some(amount),
            }
        }
    }
    let alone = before
        .iter()
        .filter(|known| !is_restartable_init_container(known));
    alone.filter_map(|known| amount(known, of, name)).chain(sum).max()
}

/// Bytes, or pieces, that a pod asks for.
fn request(pod: &Pod, name: &str) -> i64 {
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let whole =
        whole.and_then(|resources| resources.requests.as_ref()?.get(name)?.0.parse::<Quantity>().ok());
    whole
        .or_else(|| total(pod, requests_of, name))
        .map_or(0, |amount| amount.value())
}

/// Puts the pods first that have to go first: those that use more than they asked for, then those of lower priority, then those
/// that use most beyond what they asked for. `split` says that images are on a disk of their own.
pub(super) fn rank(candidates: &mut [Candidate], signal: Signal, split: bool) {
    candidates.sort_by_key(|candidate| {
        let pod = &*candidate.pod;
        // A pod of which nothing is known goes before all others.
        let Some(usage) = &candidate.usage else {
            return (false, 0, Reverse(i64::MAX));
        };
        let used = i64::try_from(used(usage, signal, split)).unwrap_or(i64::MAX);
        let asked = match signal.resource() {
            Resource::Memory => request(pod, "memory"),
            Resource::EphemeralStorage => request(pod, "ephemeral-storage"),
            Resource::Inodes | Resource::Pids => 0,
        };
        let is_modest = signal != Signal::PidAvailable && used <= asked;
        (is_modest, priority(pod), Reverse(used.saturating_sub(asked)))
    });
}

fn used(usage: &PodUsage, signal: Signal, split: bool) -> u64 {
    match signal {
        Signal::MemoryAvailable => usage.memory_working_set(),
        Signal::PidAvailable => usage.processes(),
        Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => usage.inodes(),
        Signal::NodeFsAvailable if split => usage.disk().saturating_sub(usage.writable_layers()),
        Signal::ImageFsAvailable if split => usage.writable_layers(),
        Signal::NodeFsAvailable | Signal::ImageFsAvailable => usage.disk(),
    }
}

/// Bytes as they are told.
pub(super) fn bytes(amount: u64) -> Quantity {
    Quantity::new(i64::try_from(amount).unwrap_or(i64::MAX), Format::BinarySi)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::ContainerUsage;

    pub(in super::super) fn candidate(
        name: &str,
        priority: i32,
        memory_request: &str,
        working_set: u64,
    ) -> Candidate {
        let requests = if memory_request.is_empty() {
            json!({})
        } else {
            json!({"memory": memory_request})
        };
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"priority": priority,
            "containers": [{"name": "main", "resources": {"requests": requests}}]}});
        let usage = ContainerUsage {
            name: "main".to_owned(),
            memory_working_set: working_set,
            pids: working_set,
            ..ContainerUsage::default()
        };
        Candidate {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            usage: Some(PodUsage {
                containers: vec![usage],
                ..PodUsage::default()
            }),
        }
    }

    fn order(mut candidates: Vec<Candidate>, signal: Signal) -> Vec<String> {
        rank(&mut candidates, signal, false);
        candidates
            .iter()
            .map(|known| known.pod.metadata.name.clone().unwrap())
            .collect()
    }

    #[test]
    fn who_uses_more_than_they_asked_for_goes_first() {
        let all = vec![
            candidate("within", 0, "1Ki", 1000),
            candidate("over-important", 10, "1Ki", 9000),
            candidate("over", 0, "1Ki", 2000),
            candidate("greedy", 0, "", 3000),
            Candidate {
                usage: None,
                ..candidate("unknown", 5, "", 0)
            },
        ];
        assert_eq!(
            order(all, Signal::MemoryAvailable),
            ["unknown", "greedy", "over", "over-important", "within"]
        );
    }

    #[test]
    fn processes_have_no_requests() {
        let all = vec![
            candidate("few", 0, "1Ki", 1),
            candidate("many", 0, "", 9),
            candidate("important", 7, "", 99),
        ];
        assert_eq!(order(all, Signal::PidAvailable), ["many", "few", "important"]);
    }

    #[test]
    fn amounts_of_a_pod_are_summed_up() {
        let container = |name: &str, amount: &str| json!({"name": name, "resources": {"limits": {"ephemeral-storage": amount}}});
        let mut sidecar = container("side", "1Ki");
        sidecar["restartPolicy"] = "Always".into();
        let pod = |init: serde_json::Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [container("a", "2Ki"), {"name": "b"}], "initContainers": init}})).unwrap()
        };
        let total = |pod: Pod| total(&pod, limits_of, "ephemeral-storage").map(|amount| amount.to_string());
        assert_eq!(total(pod(json!([sidecar]))).as_deref(), Some("3Ki"));
        assert_eq!(
            total(pod(json!([container("i", "9Ki"), sidecar]))).as_deref(),
            Some("9Ki")
        );
        assert_eq!(
            total(serde_json::from_value(json!({"spec": {"containers": [{"name": "b"}]}})).unwrap()),
            None
        );
    }
}
