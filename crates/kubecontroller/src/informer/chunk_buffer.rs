//! A buffer of chunks: list items, or lines of a watch.

use std::{io::BufRead, ops::Range};

/// Complete chunks, followed by the beginning of an incomplete one. One allocation holds them all, since a list has many.
#[derive(Debug, Default)]
pub(super) struct ChunkBuffer {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

// --- ChunkBuffer ---

impl ChunkBuffer {
    /// The number of complete chunks.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The number of bytes in complete chunks.
    pub(super) fn size(&self) -> usize {
        self.ranges.last().map_or(0, |last| last.end)
    }

    /// The complete chunks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|range| &self.bytes[range.clone()])
    }

    /// Appends to the incomplete chunk.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends what is before a delimiter to the incomplete chunk, and takes it from the bytes together with the delimiter.
    /// Returns whether the delimiter was found; if not, all bytes are appended.
    pub(super) fn append_until(&mut self, delimiter: u8, bytes: &mut &[u8]) -> bool {
        // Of the standard library, for its search: events are kilobytes, and a loop over bytes costs as much as their decoding.
        let appended = bytes.read_until(delimiter, &mut self.bytes);
        let is_found = appended.is_ok_and(|count| count > 0) && self.bytes.last() == Some(&delimiter);
        if is_found {
            self.bytes.pop();
        }
        is_found
    }

    /// Makes the incomplete chunk a complete one.
    pub(super) fn finish_chunk(&mut self) {
        self.ranges.push(self.size()..self.bytes.len());
    }

    /// Takes the complete chunks and keeps the incomplete one.
    pub(super) fn take(&mut self) -> ChunkBuffer {
        let size = self.size();
        // The next batch is probably about as large.
        let mut rest = Vec::with_capacity(self.bytes.len());
        rest.extend_from_slice(&self.bytes[size..]);
        self.bytes.truncate(size);
        let rest = ChunkBuffer {
            bytes: rest,
            ranges: Vec::with_capacity(self.ranges.len()),
        };
        std::mem::replace(self, rest)
    }
}
