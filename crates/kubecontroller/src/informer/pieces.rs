//! Pieces of a body, one after the other.

use std::ops::Range;

/// Complete pieces, and the beginning of the next one.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

// --- Pieces ---

impl Pieces {
    /// How many are complete.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The bytes of those that are complete.
    pub(super) fn size(&self) -> usize {
        self.ranges.last().map_or(0, |last| last.end)
    }

    /// Those that are complete.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|range| &self.bytes[range.clone()])
    }

    /// More of the piece that is not complete.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The piece is complete.
    pub(super) fn close(&mut self) {
        self.ranges.push(self.size()..self.bytes.len());
    }

    /// Takes those that are complete; the beginning of the next one stays.
    pub(super) fn take(&mut self) -> Pieces {
        let size = self.size();
        // What comes next is probably as long.
        let mut rest = Vec::with_capacity(self.bytes.len());
        rest.extend_from_slice(&self.bytes[size..]);
        self.bytes.truncate(size);
        let rest = Pieces {
            bytes: rest,
            ranges: Vec::with_capacity(self.ranges.len()),
        };
        std::mem::replace(self, rest)
    }
}
