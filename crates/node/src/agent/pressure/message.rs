//! What is told of a pod that has to go.

use std::fmt::Write;

use k3_quantity::{Format, Quantity};

use super::{
    Threshold,
    rank::{Candidate, amount, bytes, requests_of},
    signal::{Observations, Resource},
};

/// Why a pod has to go: what the node was short of, and what the pod had of it.
pub(super) fn evicted(
    resource: Resource,
    candidate: &Candidate,
    thresholds: &[Threshold],
    seen: &Observations,
) -> String {
    let mut text = format!("The node was low on resource: {}. ", resource.name());
    let mut met = thresholds
        .iter()
        .filter(|threshold| threshold.signal.resource() == resource);
    let met = met.find_map(|threshold| Some((threshold, seen.get(&threshold.signal)?)));
    if let Some((threshold, seen)) = met {
        let amount = |amount| match resource {
            Resource::Memory | Resource::EphemeralStorage => bytes(amount),
            Resource::Inodes | Resource::Pids => {
                Quantity::new(i64::try_from(amount).unwrap_or(i64::MAX), Format::DecimalSi)
            }
        };
        let least = amount(threshold.least.of(seen.capacity));
        let available = amount(seen.available);
        // Writing to a text does not fail, here and below.
        let _ = write!(text, "Threshold quantity: {least}, available: {available}. ");
    }
    let (Some(usage), Some(spec)) = (&candidate.usage, &candidate.pod.spec) else {
        return text;
    };
    let whole = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref()?.get(resource.name()));
    if let (Resource::Memory, Some(request)) = (resource, whole) {
        let name = candidate.pod.metadata.name.as_deref().unwrap_or_default();
        let used = bytes(usage.memory_working_set());
        let request = &request.0;
        let _ = write!(
            text,
            "Pod {name} was using {used}, request is {request}, has larger consumption of memory. "
        );
    }
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    for container in containers {
        let Some(used) = usage.container(&container.name) else {
            continue;
        };
        let used = match resource {
            Resource::Memory => bytes(used.memory_working_set),
            Resource::EphemeralStorage => bytes(used.writable_layer),
            Resource::Inodes | Resource::Pids => continue,
        };
        let request = amount(container, requests_of, resource.name()).unwrap_or_else(Quantity::zero);
        if used > request {
            let name = &container.name;
            let resource = resource.name();
            let _ = write!(
                text,
                "Container {name} was using {used}, request is {request}, has larger consumption of {resource}. "
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Signal, rank::tests::candidate, signal::Observation},
        *,
    };

    #[test]
    fn the_message_is_upstreams() {
        let seen = Observations::from([(
            Signal::MemoryAvailable,
            Observation {
                capacity: 1 << 30,
                available: 50 << 20,
            },
        )]);
        let text = evicted(
            Resource::Memory,
            &candidate("web", 0, "1Ki", 2048),
            &Threshold::defaults(),
            &seen,
        );
        assert_eq!(
            text,
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
             Container main was using 2Ki, request is 1Ki, has larger consumption of memory. "
        );
        let text = evicted(
            Resource::Pids,
            &candidate("web", 0, "", 5),
            &Threshold::defaults(),
            &seen,
        );
        assert_eq!(text, "The node was low on resource: pids. ");
    }
}
