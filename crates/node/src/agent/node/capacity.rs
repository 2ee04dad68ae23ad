//! What a machine has, and what of it pods may have.

use std::collections::BTreeMap;

use k3_quantity::{Format, Quantity};

use crate::agent::{
    machine::Machine,
    pressure::{Signal, Threshold},
};

/// Amounts by the names of resources.
pub(in crate::agent) type Amounts = BTreeMap<String, Quantity>;

fn bytes(amount: u64) -> Quantity {
    Quantity::new(i64::try_from(amount).unwrap_or(i64::MAX), Format::BinarySi)
}

/// What a machine has; `disk` is the size of the file system that pods write to, if it is known.
pub(super) fn capacity(machine: &Machine, disk: Option<u64>, pods: u32) -> Amounts {
    let milli = i64::try_from(machine.cpu_milli).unwrap_or(i64::MAX);
    let mut amounts = Amounts::from([
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

/// What pods may have: without what must be left over, and without memory that is in huge pages.
pub(super) fn allocatable(capacity: &Amounts, thresholds: &[Threshold]) -> Amounts {
    let mut amounts = capacity.clone();
    let reserved = [
        (Signal::MemoryAvailable, "memory"),
        (Signal::NodeFsAvailable, "ephemeral-storage"),
    ];
    for (signal, name) in reserved {
        let threshold = thresholds.iter().find(|threshold| threshold.signal == signal);
        if let (Some(threshold), Some(amount)) = (threshold, amounts.get_mut(name)) {
            let whole = u64::try_from(amount.value()).unwrap_or(0);
            take(amount, &bytes(threshold.least.of(whole)));
        }
    }
    let pages = capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    for (_, pages) in pages {
        if let Some(memory) = amounts.get_mut("memory") {
            take(memory, pages);
        }
    }
    amounts
}

fn take(from: &mut Quantity, amount: &Quantity) {
    from.sub(amount);
    if from.sign().is_lt() {
        *from = Quantity::new(0, from.format());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_upstream_writes_them() {
        let machine = Machine {
            cpu_milli: 2000,
            memory: 24_682_416 << 10,
            huge_pages: BTreeMap::from([(2 << 20, 0), (1 << 30, 1 << 30)]),
            ..Machine::default()
        };
        let capacity = capacity(&machine, Some(1000 << 10), 110);
        let allocatable = allocatable(&capacity, &Threshold::defaults());
        let text = |amounts: &Amounts| {
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
