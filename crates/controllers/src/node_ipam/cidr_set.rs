//! Blocks of equal size in a cluster CIDR.

use crate::cidr::{Cidr, V4};

/// A cluster CIDR divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CidrRange {
    network: Cidr,
    /// nodeCIDRMaskSize.
    block: u8,
}

/// Invalid mask size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{network} cannot be cut into blocks of /{block}")]
pub(super) struct NodeMaskSizeError {
    network: Cidr,
    block: u8,
}

/// A bitmap of allocated blocks.
pub(super) struct CidrSet {
    bitmap: Vec<u64>,
    free: usize,
}

/// log2 of the maximum number of blocks (cidrSetMaxSize).
const MAX_BLOCKS_LOG2: u8 = 16;
const BLOCK_V4: u8 = 24;
const BLOCK_V6: u8 = 64;

// --- Range ---

impl CidrRange {
    /// With the default mask size of the family if `block` is not set.
    // upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go NewCIDRSet
    pub(super) fn new(network: Cidr, block: Option<u8>) -> Result<Self, NodeMaskSizeError> {
        let usual = if network.bits == V4 { BLOCK_V4 } else { BLOCK_V6 };
        let block = block.unwrap_or(usual);
        let is_possible = (network.prefix..=network.bits).contains(&block);
        // The limit applies to IPv6 only; an IPv4 cluster CIDR cannot have too many.
        if is_possible && (network.bits == V4 || block - network.prefix <= MAX_BLOCKS_LOG2) {
            Ok(CidrRange { network, block })
        } else {
            Err(NodeMaskSizeError { network, block })
        }
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        1 << (self.block - self.network.prefix)
    }

    // upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go indexToCIDRBlock
    pub(super) fn block(&self, index: usize) -> Cidr {
        Cidr {
            first: self.network.first | (index as u128) << (self.network.bits - self.block),
            prefix: self.block,
            bits: self.network.bits,
        }
    }

    /// Whether a CIDR is one of its blocks.
    pub(super) fn has(&self, network: &Cidr) -> bool {
        network.prefix == self.block && self.network.overlaps(network)
    }

    /// First and last block that overlap a CIDR; `None` if there are none.
    // upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go getBeginningAndEndIndices
    pub(super) fn overlapping_blocks(&self, other: &Cidr) -> Option<(usize, usize)> {
        let network = &self.network;
        if !network.overlaps(other) {
            return None;
        }
        let index = |address: u128| {
            let within = address.clamp(network.first, network.last()) - network.first;
            usize::try_from(within >> (network.bits - self.block)).unwrap_or(self.len() - 1)
        };
        Some((index(other.first), index(other.last())))
    }
}

// --- Used ---

impl CidrSet {
    pub(super) fn new(range: &CidrRange) -> Self {
        CidrSet {
            bitmap: vec![0; range.len().div_ceil(64)],
            free: range.len(),
        }
    }

    /// Marks the blocks that overlap a CIDR. Returns whether there were any.
    // upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go Occupy
    pub(super) fn occupy(&mut self, range: &CidrRange, network: &Cidr) -> bool {
        let Some((first, last)) = range.overlapping_blocks(network) else {
            return false;
        };
        for index in first..=last {
            if !self.is_used(index) {
                self.bitmap[index / 64] |= 1 << (index % 64);
                self.free -= 1;
            }
        }
        true
    }

    /// Allocates the next free block from `start` on, wrapping around.
    // upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go AllocateNext
    pub(super) fn allocate_next(&mut self, range: &CidrRange, start: usize) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let all = range.len();
        let index = (0..all)
            .map(|step| (start + step) % all)
            .find(|index| !self.is_used(*index))?;
        self.occupy(range, &range.block(index));
        Some(index)
    }

    fn is_used(&self, index: usize) -> bool {
        self.bitmap[index / 64] >> (index % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str, block: Option<u8>) -> CidrRange {
        CidrRange::new(text.parse().unwrap(), block).unwrap()
    }

    #[test]
    fn a_range_is_cut_into_blocks_in_order() {
        let cases = [
            ("10.244.0.0/16", None, 256, "10.244.0.0/24", "10.244.255.0/24"),
            (
                "10.244.0.0/16",
                Some(28),
                4096,
                "10.244.0.0/28",
                "10.244.255.240/28",
            ),
            ("10.0.0.9/24", None, 1, "10.0.0.0/24", "10.0.0.0/24"),
            (
                "fd00:10:244::/56",
                None,
                256,
                "fd00:10:244::/64",
                "fd00:10:244:ff::/64",
            ),
            ("fd00::/60", Some(72), 4096, "fd00::/72", "fd00:0:0:f:ff00::/72"),
        ];
        for (text, block, len, first, last) in cases {
            let range = range(text, block);
            assert_eq!(range.len(), len, "{text}");
            assert_eq!(range.block(0).to_string(), first, "{text}");
            assert_eq!(range.block(len - 1).to_string(), last, "{text}");
        }
        for (text, block) in [
            ("10.0.0.0/25", None),
            ("fd00::/16", None),
            ("10.0.0.0/8", Some(33)),
        ] {
            assert!(CidrRange::new(text.parse().unwrap(), block).is_err(), "{text}");
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/129"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_are_taken_in_turn_and_not_where_others_are() {
        let range = range("10.0.0.0/22", None);
        let mut used = CidrSet::new(&range);
        let occupied = [
            ("10.0.1.0/25", true),
            ("10.0.4.0/24", false),
            ("fd00::/8", false),
            ("9.0.0.0/8", false),
        ];
        for (network, is_in) in occupied {
            assert_eq!(used.occupy(&range, &network.parse().unwrap()), is_in, "{network}");
        }
        let taken: Vec<_> = [2, 3, 0, 0].map(|start| used.allocate_next(&range, start)).into();
        assert_eq!(taken, [Some(2), Some(3), Some(0), None]);
        let mut used = CidrSet::new(&range);
        assert!(used.occupy(&range, &"10.0.0.0/8".parse().unwrap()));
        assert_eq!(used.allocate_next(&range, 0), None);
    }
}
