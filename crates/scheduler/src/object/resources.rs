//! Sums of resources.

use std::collections::BTreeMap;

use k3_workloads::ResourceQuantity;

use crate::interner::{StringInterner, Text};

/// How much of each resource: what a pod asks for, what a node has, what is taken of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Thousandths of processors.
    pub cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of scratch space.
    pub ephemeral: i64,
    /// Everything else that is counted, sorted by name.
    pub scalars: Vec<(Text, i64)>,
}

impl Resources {
    /// Takes amounts as they were read; names that nothing counts are left out.
    pub fn read(amounts: &BTreeMap<Box<str>, ResourceQuantity>, interner: &mut StringInterner) -> Self {
        let mut read = Resources::default();
        for (name, amount) in amounts {
            match &**name {
                "cpu" => read.cpu = amount.milli,
                "memory" => read.memory = amount.value,
                "ephemeral-storage" => read.ephemeral = amount.value,
                name if is_scalar(name) => read.scalars.push((interner.text(name), amount.value)),
                _ => {}
            }
        }
        read
    }

    /// How much of a resource that is neither processor, memory nor scratch space.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars
            .iter()
            .find(|(known, _)| &**known == name)
            .map_or(0, |(_, amount)| *amount)
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Resources) {
        self.merge(other, |mine, other| mine + other);
    }

    /// Takes another sum away.
    pub fn subtract(&mut self, other: &Resources) {
        self.merge(other, |mine, other| mine - other);
        self.scalars.retain(|(_, amount)| *amount != 0);
    }

    /// Takes the larger amount of each.
    pub fn raise(&mut self, other: &Resources) {
        self.merge(other, i64::max);
    }

    /// Whether nothing is asked for. A resource that is asked for with an amount of zero is asked for.
    pub fn is_nothing(&self) -> bool {
        self.cpu == 0 && self.memory == 0 && self.ephemeral == 0 && self.scalars.is_empty()
    }

    fn merge(&mut self, other: &Resources, by: impl Fn(i64, i64) -> i64) {
        self.cpu = by(self.cpu, other.cpu);
        self.memory = by(self.memory, other.memory);
        self.ephemeral = by(self.ephemeral, other.ephemeral);
        for (name, amount) in &other.scalars {
            match self.scalars.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(at) => self.scalars[at].1 = by(self.scalars[at].1, *amount),
                Err(at) => self.scalars.insert(at, (name.clone(), by(0, *amount))),
            }
        }
    }
}

/// Whether a resource is counted by its name: extended ones, huge pages, those of the domain itself, attachable volumes.
// upstream: pkg/scheduler/util/utils.go IsScalarResourceName
fn is_scalar(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    (!native && !name.starts_with("requests."))
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_kinds_of_names_count() {
        for (name, counts) in [
            ("example.com/gpu", true),
            ("hugepages-2Mi", true),
            ("attachable-volumes-x", true),
            ("kubernetes.io/batch", true),
            ("requests.example.com/gpu", false),
            ("pods", false),
            ("anything", false),
        ] {
            assert_eq!(is_scalar(name), counts, "{name}");
        }
    }
}
