//! Message of an eviction.

use std::fmt::Write;

use k3_quantity::{Format, Quantity};

use super::{
    EvictionThreshold,
    rank::{EvictionCandidate, amount, bytes, requests_of},
    signal::{EvictionResource, SignalObservations},
};

/// The message for the pod status: the starved resource, and the containers that use more than they requested.
// upstream: pkg/kubelet/eviction/helpers.go evictionMessage
pub(super) fn eviction_message(
    resource: EvictionResource,
    candidate: &EvictionCandidate,
    thresholds: &[EvictionThreshold],
    observations: &SignalObservations,
) -> String {
    let mut message = format!("The node was low on resource: {}. ", resource.name());
    let mut met = thresholds
        .iter()
        .filter(|threshold| threshold.signal.resource() == resource);
    let met = met.find_map(|threshold| Some((threshold, observations.get(&threshold.signal)?)));
    if let Some((threshold, observation)) = met {
        let amount = |amount| match resource {
            EvictionResource::Memory | EvictionResource::EphemeralStorage => bytes(amount),
            EvictionResource::Inodes | EvictionResource::Pids => {
                Quantity::new(i64::try_from(amount).unwrap_or(i64::MAX), Format::DecimalSi)
            }
        };
        let quantity = amount(threshold.value.resolve(observation.capacity));
        let available = amount(observation.available);
        // Writing to a String does not fail, here and below.
        let _ = write!(
            message,
            "Threshold quantity: {quantity}, available: {available}. "
        );
    }
    let (Some(usage), Some(spec)) = (&candidate.usage, &candidate.pod.spec) else {
        return message;
    };
    let pod_level = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref()?.get(resource.name()));
    if let (EvictionResource::Memory, Some(request)) = (resource, pod_level) {
        let name = candidate.pod.metadata.name.as_deref().unwrap_or_default();
        let used = bytes(usage.memory_working_set());
        let request = &request.0;
        let _ = write!(
            message,
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
            EvictionResource::Memory => bytes(used.memory_working_set),
            EvictionResource::EphemeralStorage => bytes(used.writable_layer),
            EvictionResource::Inodes | EvictionResource::Pids => continue,
        };
        let request = amount(container, requests_of, resource.name()).unwrap_or_else(Quantity::zero);
        if used > request {
            let name = &container.name;
            let resource = resource.name();
            let _ = write!(
                message,
                "Container {name} was using {used}, request is {request}, has larger consumption of {resource}. "
            );
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::{
        super::{EvictionSignal, rank::tests::candidate, signal::SignalObservation},
        *,
    };

    #[test]
    fn message_equals_upstreams() {
        let observations = SignalObservations::from([(
            EvictionSignal::MemoryAvailable,
            SignalObservation {
                capacity: 1 << 30,
                available: 50 << 20,
            },
        )]);
        let message = eviction_message(
            EvictionResource::Memory,
            &candidate("web", 0, "1Ki", 2048),
            &EvictionThreshold::defaults(),
            &observations,
        );
        assert_eq!(
            message,
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
             Container main was using 2Ki, request is 1Ki, has larger consumption of memory. "
        );
        let message = eviction_message(
            EvictionResource::Pids,
            &candidate("web", 0, "", 5),
            &EvictionThreshold::defaults(),
            &observations,
        );
        assert_eq!(message, "The node was low on resource: pids. ");
    }
}
