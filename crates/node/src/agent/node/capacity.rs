//! Capacity and allocatable resources of the node.

use std::collections::BTreeMap;

use k3_quantity::{Format, Quantity};

use crate::agent::{
    eviction::{EvictionSignal, EvictionThreshold},
    machine::MachineInfo,
};

/// Quantities by resource name.
pub(in crate::agent) type ResourceList = BTreeMap<String, Quantity>;

fn bytes(amount: u64) -> Quantity {
    Quantity::new(i64::try_from(amount).unwrap_or(i64::MAX), Format::BinarySi)
}

/// Capacity of the machine; `disk` is the size of the file system of the data directory, if known.
// upstream: pkg/kubelet/nodestatus/setters.go MachineInfo
// upstream: pkg/kubelet/cadvisor/util.go CapacityFromMachineInfo
pub(super) fn capacity(machine: &MachineInfo, disk: Option<u64>, pods: u32) -> ResourceList {
    let milli = i64::try_from(machine.cpu_milli).unwrap_or(i64::MAX);
    let mut amounts = ResourceList::from([
        ("cpu".to_owned(), Quantity::milli(milli, Format::DecimalSi)),
        ("memory".to_owned(), bytes(machine.memory)),
        ("pods".to_owned(), Quantity::new(pods.into(), Format::DecimalSi)),
    ]);
    if let Some(disk) = disk {
        amounts.insert("ephemeral-storage".to_owned(), bytes(disk));
    }
    for (size, amount) in &machine.huge_pages {
        amounts.insert(format!("hugepages-{}", bytes(*size)), bytes(*amount));
    }
    amounts
}

/// Capacity without the hard eviction thresholds, and without the memory of huge pages.
// upstream: pkg/kubelet/cm/node_container_manager_linux.go GetNodeAllocatableReservation
pub(super) fn allocatable(capacity: &ResourceList, thresholds: &[EvictionThreshold]) -> ResourceList {
    let mut amounts = capacity.clone();
    let reserved = [
        (EvictionSignal::MemoryAvailable, "memory"),
        (EvictionSignal::NodeFsAvailable, "ephemeral-storage"),
    ];
    for (signal, name) in reserved {
        let threshold = thresholds.iter().find(|threshold| threshold.signal == signal);
        if let (Some(threshold), Some(amount)) = (threshold, amounts.get_mut(name)) {
            let total = u64::try_from(amount.value()).unwrap_or(0);
            subtract(amount, &bytes(threshold.value.resolve(total)));
        }
    }
    let pages = capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    for (_, pages) in pages {
        if let Some(memory) = amounts.get_mut("memory") {
            subtract(memory, pages);
        }
    }
    amounts
}

/// Subtracts an amount, down to zero.
fn subtract(quantity: &mut Quantity, amount: &Quantity) {
    quantity.sub(amount);
    if quantity.sign().is_lt() {
        *quantity = Quantity::new(0, quantity.format());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_quantities_like_upstream() {
        let machine = MachineInfo {
            cpu_milli: 2000,
            memory: 24_682_416 << 10,
            huge_pages: BTreeMap::from([(2 << 20, 0), (1 << 30, 1 << 30)]),
            ..MachineInfo::default()
        };
        let capacity = capacity(&machine, Some(1000 << 10), 110);
        let allocatable = allocatable(&capacity, &EvictionThreshold::defaults());
        let text = |amounts: &ResourceList| {
            let amounts = amounts.iter().map(|(name, amount)| format!("{name}={amount}"));
            amounts.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            text(&capacity),
            "cpu=2 ephemeral-storage=1000Ki hugepages-1Gi=1Gi hugepages-2Mi=0 memory=24682416Ki pods=110"
        );
        assert_eq!(
            text(&allocatable),
            "cpu=2 ephemeral-storage=900Ki hugepages-1Gi=1Gi hugepages-2Mi=0 memory=23531440Ki pods=110"
        );
    }
}
