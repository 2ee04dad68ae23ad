//! One commit as bytes in the log table, with a checksum of its own.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | what happened: 1 created, 2 updated, 3 deleted; plus 16 when the entry expires |
//! | 8 | the revision of the key's record before this one, zero for none |
//! | 12 | only when it expires: deadline in milliseconds since 1970 (8), time to live in seconds (4) |
//! | 2 | length of the key |
//! | n | the key |
//! | m | the value |
//! | 4 | CRC-32 of the record's revision (8 bytes) and everything above |
//!
//! Numbers are little-endian. The revision itself is the record's key in the table; it is part of the
//! checksum so that a record found stored under another key is noticed.

use std::time::Duration;

use bytes::Bytes;

use crate::{Change, Entry, Event, Expiry, Key, Revision, StoreError};

const CREATED: u8 = 1;
const UPDATED: u8 = 2;
const DELETED: u8 = 3;
const EXPIRES: u8 = 16;

/// A record, borrowed from where it is stored or from what is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogRecord<'a> {
    pub(super) revision: Revision,
    pub(super) kind: ChangeKind,
    /// The key's record before this one; [`Revision::ZERO`] for none. It may be compacted.
    pub(super) previous: Revision,
    pub(super) expiry: Option<Expiry>,
    pub(super) key: &'a str,
    /// Empty when the key was deleted.
    pub(super) value: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

// --- LogRecord ---

impl<'a> LogRecord<'a> {
    /// How many bytes `write` fills.
    pub(super) fn stored_len(&self) -> usize {
        let expiry = if self.expiry.is_some() { 12 } else { 0 };
        1 + 8 + expiry + 2 + self.key.len() + self.value.len() + 4
    }

    /// Writes the record into a buffer of exactly `stored_len` bytes.
    pub(super) fn write(&self, buffer: &mut [u8]) {
        let mut out = RecordCursor { buffer, at: 0 };
        let kind = match self.kind {
            ChangeKind::Created => CREATED,
            ChangeKind::Updated => UPDATED,
            ChangeKind::Deleted => DELETED,
        };
        out.put(&[kind | if self.expiry.is_some() { EXPIRES } else { 0 }]);
        out.put(&self.previous.get().to_le_bytes());
        if let Some(expiry) = self.expiry {
            let seconds = u32::try_from(expiry.ttl.as_secs()).unwrap_or(u32::MAX);
            out.put(&expiry.deadline_ms.to_le_bytes());
            out.put(&seconds.to_le_bytes());
        }
        let key_len = u16::try_from(self.key.len()).expect("a key has at most 768 bytes");
        out.put(&key_len.to_le_bytes());
        out.put(self.key.as_bytes());
        out.put(self.value);
        let checksum = checksum(self.revision, &out.buffer[..out.at]);
        out.put(&checksum.to_le_bytes());
        debug_assert_eq!(out.at, out.buffer.len(), "stored_len is the length written");
    }

    /// Reads a record and checks it.
    pub(super) fn read(revision: Revision, stored: &'a [u8]) -> Result<Self, StoreError> {
        let damaged = |what: &str| StoreError::Corrupt(format!("the record of revision {revision} {what}"));
        let (body, crc) = stored
            .split_last_chunk::<4>()
            .ok_or_else(|| damaged("is cut short"))?;
        if checksum(revision, body) != u32::from_le_bytes(*crc) {
            return Err(damaged("does not match its checksum"));
        }
        // What follows cannot fail for bytes that `write` made.
        Self::parse(revision, body).ok_or_else(|| damaged("has an unknown shape"))
    }

    fn parse(revision: Revision, body: &'a [u8]) -> Option<Self> {
        let (&head, rest) = body.split_first()?;
        let kind = match head & !EXPIRES {
            CREATED => ChangeKind::Created,
            UPDATED => ChangeKind::Updated,
            DELETED => ChangeKind::Deleted,
            _ => return None,
        };
        let (previous, mut rest) = rest.split_first_chunk::<8>()?;
        let mut expiry = None;
        if head & EXPIRES != 0 {
            let (deadline, after) = rest.split_first_chunk::<8>()?;
            let (seconds, after) = after.split_first_chunk::<4>()?;
            let ttl = Duration::from_secs(u32::from_le_bytes(*seconds).into());
            expiry = Some(Expiry {
                deadline_ms: u64::from_le_bytes(*deadline),
                ttl,
            });
            rest = after;
        }
        let (key_len, rest) = rest.split_first_chunk::<2>()?;
        let (key, value) = rest.split_at_checked(u16::from_le_bytes(*key_len).into())?;
        let previous = Revision::new(u64::from_le_bytes(*previous));
        Some(Self {
            revision,
            kind,
            previous,
            expiry,
            key: std::str::from_utf8(key).ok()?,
            value,
        })
    }

    /// The record as the entry it put under its key; `None` if it deleted it.
    pub(super) fn entry(&self) -> Result<Option<Entry>, StoreError> {
        if self.kind == ChangeKind::Deleted {
            return Ok(None);
        }
        let value = Bytes::copy_from_slice(self.value);
        Ok(Some(Entry {
            key: self.owned_key()?,
            value,
            revision: self.revision,
            expiry: self.expiry,
        }))
    }

    /// The record as the event a watcher sees.
    pub(super) fn event(&self) -> Result<Event, StoreError> {
        let value = || Bytes::copy_from_slice(self.value);
        let change = match self.kind {
            ChangeKind::Created => Change::Created(value()),
            ChangeKind::Updated => Change::Updated(value()),
            ChangeKind::Deleted => Change::Deleted,
        };
        Ok(Event {
            revision: self.revision,
            key: self.owned_key()?,
            change,
        })
    }

    /// The key, checked.
    pub(super) fn owned_key(&self) -> Result<Key, StoreError> {
        Key::try_new(self.key).map_err(|error| StoreError::Corrupt(error.to_string()))
    }
}

struct RecordCursor<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl RecordCursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

fn checksum(revision: Revision, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.get().to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> LogRecord<'static> {
        LogRecord {
            revision: Revision::new(7),
            kind: ChangeKind::Updated,
            previous: Revision::new(3),
            expiry: Some(Expiry {
                deadline_ms: 1_700_000_000_123,
                ttl: Duration::from_hours(1),
            }),
            key: "/pods/default/a",
            value: b"\0\xff value",
        }
    }

    fn stored(record: &LogRecord<'_>) -> Vec<u8> {
        let mut buffer = vec![0; record.stored_len()];
        record.write(&mut buffer);
        buffer
    }

    #[test]
    fn reads_what_was_written() {
        for kind in [ChangeKind::Created, ChangeKind::Updated, ChangeKind::Deleted] {
            for expiry in [None, sample().expiry] {
                let record = LogRecord {
                    kind,
                    expiry,
                    ..sample()
                };
                assert_eq!(
                    LogRecord::read(record.revision, &stored(&record)).unwrap(),
                    record
                );
            }
        }
    }

    #[test]
    fn detects_every_flipped_bit_and_truncation() {
        let good = stored(&sample());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(LogRecord::read(Revision::new(7), &bad).is_err(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(
                LogRecord::read(Revision::new(7), &good[..len]).is_err(),
                "length {len}"
            );
        }
    }

    #[test]
    fn detects_a_record_stored_under_another_key() {
        assert!(LogRecord::read(Revision::new(8), &stored(&sample())).is_err());
    }
}
