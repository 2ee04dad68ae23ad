//! Nodes by zone.

/// Zones in the order in which they were first seen, and the nodes of each.
#[derive(Debug, Default)]
// upstream: pkg/scheduler/backend/cache/node_tree.go nodeTree
pub(super) struct NodeTree {
    zones: Vec<(String, Vec<usize>)>,
}

impl NodeTree {
    /// A node is in a zone.
    pub(super) fn add(&mut self, zone: String, slot: usize) {
        match self.zones.iter_mut().find(|(known, _)| *known == zone) {
            Some((_, slots)) => slots.push(slot),
            None => self.zones.push((zone, vec![slot])),
        }
    }

    /// A node is in no zone any more.
    pub(super) fn remove(&mut self, slot: usize) {
        for (_, slots) in &mut self.zones {
            slots.retain(|known| *known != slot);
        }
        self.zones.retain(|(_, slots)| !slots.is_empty());
    }

    /// One node of each zone, then the next of each, until all were named.
    pub(super) fn list(&self) -> Vec<usize> {
        let longest = self.zones.iter().map(|(_, slots)| slots.len()).max().unwrap_or(0);
        let turns =
            (0..longest).flat_map(|turn| self.zones.iter().filter_map(move |(_, slots)| slots.get(turn)));
        turns.copied().collect()
    }
}
