//! Streams made by hand, after `docs/backup-format.md`, not by the code under test.

use crc32fast::Hasher;

/// A stream under construction.
pub(super) struct ForgedBackup {
    sum: Hasher,
    bytes: Vec<u8>,
}

// --- ForgedBackup ---

impl ForgedBackup {
    /// A stream with a right header.
    pub(super) fn new(revision: u64) -> Self {
        Self::with_header(1, revision)
    }

    pub(super) fn with_header(format: u32, revision: u64) -> Self {
        let mut stream = Self {
            sum: Hasher::new(),
            bytes: Vec::new(),
        };
        let mut header = vec![0x89, b'k', b'3', b'B', 0x0d, 0x0a, 0x1a, 0x0a];
        header.extend(format.to_le_bytes());
        header.extend(revision.to_le_bytes());
        header.extend(1_800_000_000_000_u64.to_le_bytes());
        stream.seal(&header);
        stream
    }

    /// Adds a frame with a right length and a right checksum, whatever its body.
    pub(super) fn frame(self, kind: u8, body: &[u8]) -> Self {
        let length = u32::try_from(body.len()).unwrap();
        self.frame_of_length(kind, length, body)
    }

    /// Adds a frame that claims to be as long as it likes.
    pub(super) fn frame_of_length(mut self, kind: u8, length: u32, body: &[u8]) -> Self {
        let mut frame = vec![kind];
        frame.extend(length.to_le_bytes());
        frame.extend(body);
        self.seal(&frame);
        self
    }

    /// Adds an entry that stays.
    pub(super) fn entry(self, key: &[u8], revision: u64, value: &[u8]) -> Self {
        let mut body = Vec::new();
        body.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
        body.extend(key);
        body.extend(revision.to_le_bytes());
        body.push(0);
        body.extend(value);
        self.frame(1, &body)
    }

    /// Adds the trailer.
    pub(super) fn end(self, entries: u64) -> Vec<u8> {
        self.frame(2, &entries.to_le_bytes()).bytes
    }

    /// What there is so far.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn seal(&mut self, part: &[u8]) {
        self.sum.update(part);
        self.bytes.extend(part);
        self.bytes.extend(self.sum.clone().finalize().to_le_bytes());
    }
}
