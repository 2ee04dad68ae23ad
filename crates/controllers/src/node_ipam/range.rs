//! The blocks of equal size that a network is cut into.

use crate::cidr::{Cidr, V4};

/// A network cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    network: Cidr,
    /// How many bits of an address name the block.
    block: u8,
}

/// A network cannot be cut like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{network} cannot be cut into blocks of /{block}")]
pub(super) struct BadRange {
    network: Cidr,
    block: u8,
}

/// Which blocks of a range are used.
pub(super) struct Used {
    words: Vec<u64>,
    free: usize,
}

/// More blocks than this are too many to remember.
const MOST_BITS: u8 = 16;
const BLOCK_V4: u8 = 24;
const BLOCK_V6: u8 = 64;

// --- Range ---

impl Range {
    /// A network cut into blocks; without a size, into the usual ones of its family.
    pub(super) fn new(network: Cidr, block: Option<u8>) -> Result<Self, BadRange> {
        let usual = if network.bits == V4 { BLOCK_V4 } else { BLOCK_V6 };
        let block = block.unwrap_or(usual);
        let is_possible = (network.prefix..=network.bits).contains(&block);
        // An IPv4 network cannot have that many that it matters.
        if is_possible && (network.bits == V4 || block - network.prefix <= MOST_BITS) {
            Ok(Range { network, block })
        } else {
            Err(BadRange { network, block })
        }
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        1 << (self.block - self.network.prefix)
    }

    /// A block.
    pub(super) fn block(&self, index: usize) -> Cidr {
        Cidr {
            first: self.network.first | (index as u128) << (self.network.bits - self.block),
            prefix: self.block,
            bits: self.network.bits,
        }
    }

    /// Whether a network is one of its blocks.
    pub(super) fn has(&self, network: &Cidr) -> bool {
        network.prefix == self.block && self.network.overlaps(network)
    }

    /// The blocks that share addresses with a network: the first and the last. `None` if there are none.
    pub(super) fn touched(&self, other: &Cidr) -> Option<(usize, usize)> {
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

impl Used {
    pub(super) fn new(range: &Range) -> Self {
        Used {
            words: vec![0; range.len().div_ceil(64)],
            free: range.len(),
        }
    }

    /// The blocks that share addresses with a network are used. Gives whether there were any.
    pub(super) fn occupy(&mut self, range: &Range, network: &Cidr) -> bool {
        let Some((first, last)) = range.touched(network) else {
            return false;
        };
        for index in first..=last {
            if !self.is_used(index) {
                self.words[index / 64] |= 1 << (index % 64);
                self.free -= 1;
            }
        }
        true
    }

    /// The next block that is free, and takes it; from `start` on, and then from the beginning.
    pub(super) fn take(&mut self, range: &Range, start: usize) -> Option<usize> {
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
        self.words[index / 64] >> (index % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str, block: Option<u8>) -> Range {
        Range::new(text.parse().unwrap(), block).unwrap()
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
            assert!(Range::new(text.parse().unwrap(), block).is_err(), "{text}");
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/129"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_are_taken_in_turn_and_not_where_others_are() {
        let range = range("10.0.0.0/22", None);
        let mut used = Used::new(&range);
        let occupied = [
            ("10.0.1.0/25", true),
            ("10.0.4.0/24", false),
            ("fd00::/8", false),
            ("9.0.0.0/8", false),
        ];
        for (network, is_in) in occupied {
            assert_eq!(used.occupy(&range, &network.parse().unwrap()), is_in, "{network}");
        }
        let taken: Vec<_> = [2, 3, 0, 0].map(|start| used.take(&range, start)).into();
        assert_eq!(taken, [Some(2), Some(3), Some(0), None]);
        let mut used = Used::new(&range);
        assert!(used.occupy(&range, &"10.0.0.0/8".parse().unwrap()));
        assert_eq!(used.take(&range, 0), None);
    }
}
