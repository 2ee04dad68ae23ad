//! The bytes of a backup stream: plain data in and out, no I/O. See `docs/backup-format.md`.
//!
//! One checksum runs through the whole stream, and each frame ends with its current value. A frame
//! that is damaged, missing, out of location or from another backup is so found where it is, and the
//! last checksum covers everything. The checksums themselves are left out of the sum: a CRC over data
//! followed by its own CRC is the same whatever the data is, and would cover nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes};
use crc32fast::Hasher;

use crate::{Entry, Expiry, Key, MAX_VALUE_BYTES, Revision, key::MAX_KEY_BYTES};

/// The first bytes of every backup. The line ends and the high bit show damage done by programs that
/// take it for text.
pub(super) const MAGIC: [u8; 8] = *b"\x89k3B\r\n\x1a\n";
/// The format written here. Every format up to it is read.
pub(super) const FORMAT: u32 = 1;
/// Magic, format, revision, time and checksum.
pub(super) const HEADER_BYTES: usize = 32;
/// What a frame begins with: its kind, and the length of its body.
pub(super) const HEAD_BYTES: usize = 5;
/// What a frame ends with.
pub(super) const SUM_BYTES: usize = 4;

const KIND_ENTRY: u8 = 1;
const KIND_END: u8 = 2;

const PERMANENT: u8 = 0;
const EXPIRING: u8 = 1;

/// The longest body: a length above it is a lie, and is refused before anything is set aside for it.
const MAX_BODY_BYTES: usize = 2 + MAX_KEY_BYTES + 8 + 17 + MAX_VALUE_BYTES;
/// No store counts further. What follows is left free, so that a store which was filled from a
/// stream can continue counting, also one that counts in signed numbers.
const MAX_REVISION: u64 = 1 << 62;

/// What a backup reports about itself at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackupHeader {
    /// The state of the store that it holds.
    pub(super) revision: Revision,
    /// When it was made, in milliseconds since 1970.
    pub(super) created_at_ms: u64,
}

/// A part of the stream behind the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BackupFrame {
    Entry(Entry),
    End,
}

/// Writes the parts of a stream.
pub(super) struct Encoder {
    sum: Hasher,
    entries: u64,
}

/// Checks and reads the parts of a stream.
pub(super) struct Decoder {
    sum: Hasher,
    /// From the header. No entry is newer.
    revision: Revision,
    /// Entries read so far.
    entries: u64,
    /// The key of the last of them. The next is greater.
    last: Option<Key>,
}

/// Why bytes are not what they should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BackupDamage {
    /// They do not begin as a backup does.
    NotABackup,
    /// They are of a format that is not known here.
    Newer(u32),
    /// They are damaged or made up.
    Damage(String),
}

// --- BackupHeader ---

impl BackupHeader {
    pub(super) fn new(revision: Revision, created_at: SystemTime) -> Self {
        let since = created_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            revision,
            created_at_ms: millis(since),
        }
    }

    pub(super) fn created_at(&self) -> SystemTime {
        UNIX_EPOCH
            .checked_add(Duration::from_millis(self.created_at_ms))
            .unwrap_or(UNIX_EPOCH)
    }
}

// --- Encoder ---

impl Encoder {
    /// Begins a stream.
    pub(super) fn begin(header: BackupHeader, out: &mut Vec<u8>) -> Self {
        let mut encoder = Self {
            sum: Hasher::new(),
            entries: 0,
        };
        let start = out.len();
        out.put_slice(&MAGIC);
        out.put_u32_le(FORMAT);
        out.put_u64_le(header.revision.get());
        out.put_u64_le(header.created_at_ms);
        encoder.seal(start, out);
        encoder
    }

    /// Adds an entry. Its value must not be over the limit, nor its key out of order.
    pub(super) fn entry(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        let start = out.len();
        let expiry_bytes = if entry.expiry.is_some() { 17 } else { 1 };
        let body = 2 + entry.key.len() + 8 + expiry_bytes + entry.value.len();
        out.reserve(HEAD_BYTES + body + SUM_BYTES);
        out.put_u8(KIND_ENTRY);
        out.put_u32_le(u32::try_from(body).expect("keys and values are limited to far less than 4 GiB"));
        out.put_u16_le(u16::try_from(entry.key.len()).expect("a key has at most 768 bytes"));
        out.put_slice(entry.key.as_bytes());
        out.put_u64_le(entry.revision.get());
        match entry.expiry {
            None => out.put_u8(PERMANENT),
            Some(expiry) => {
                out.put_u8(EXPIRING);
                out.put_u64_le(expiry.deadline_ms);
                out.put_u64_le(millis(expiry.ttl));
            }
        }
        out.put_slice(&entry.value);
        self.seal(start, out);
        self.entries += 1;
    }

    /// Ends the stream.
    pub(super) fn end(mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u8(KIND_END);
        out.put_u32_le(8);
        out.put_u64_le(self.entries);
        self.seal(start, out);
    }

    /// Puts the checksum behind what was written since `start`.
    fn seal(&mut self, start: usize, out: &mut Vec<u8>) {
        self.sum.update(&out[start..]);
        out.put_u32_le(self.sum.clone().finalize());
    }
}

// --- Decoder ---

impl Decoder {
    /// Reads the beginning of a stream.
    pub(super) fn begin(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, BackupHeader), BackupDamage> {
        check_start(bytes)?;
        let mut rest = &bytes[MAGIC.len() + 4..];
        let header = BackupHeader {
            revision: Revision::new(rest.get_u64_le()),
            created_at_ms: rest.get_u64_le(),
        };
        let mut decoder = Self {
            sum: Hasher::new(),
            revision: header.revision,
            entries: 0,
            last: None,
        };
        decoder.check_sum(&bytes[..HEADER_BYTES - SUM_BYTES], rest.get_u32_le())?;
        if header.revision == Revision::ZERO || header.revision.get() > MAX_REVISION {
            return damage(format!("no store stands at revision {}", header.revision));
        }
        Ok((decoder, header))
    }

    /// Reads the head of a frame: how many bytes of body and checksum follow it.
    pub(super) fn follow(head: [u8; HEAD_BYTES]) -> Result<usize, BackupDamage> {
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        match kind {
            KIND_ENTRY if length <= MAX_BODY_BYTES => Ok(length + SUM_BYTES),
            KIND_ENTRY => damage(format!(
                "an entry of {length} bytes is larger than any store takes"
            )),
            KIND_END if length == 8 => Ok(length + SUM_BYTES),
            KIND_END => damage(format!("the trailer has {length} bytes instead of 8")),
            _ => damage(format!("no part of a backup is of kind {kind}")),
        }
    }

    /// Reads the rest of a frame, as many bytes as [`Self::follow`] reported.
    pub(super) fn frame(
        &mut self,
        head: [u8; HEAD_BYTES],
        mut body: Bytes,
    ) -> Result<BackupFrame, BackupDamage> {
        let sum = body.split_off(body.len() - SUM_BYTES).get_u32_le();
        self.sum.update(&head);
        self.check_sum(&body, sum)?;
        if head[0] == KIND_END {
            let entries = body.get_u64_le();
            if entries != self.entries {
                return damage(format!(
                    "the trailer counts {entries} entries, here are {}",
                    self.entries
                ));
            }
            return Ok(BackupFrame::End);
        }
        let entry = self.entry(body)?;
        self.entries += 1;
        self.last = Some(entry.key.clone());
        Ok(BackupFrame::Entry(entry))
    }

    /// Entries read so far.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    fn entry(&self, mut body: Bytes) -> Result<Entry, BackupDamage> {
        let short = |_| BackupDamage::Damage("an entry is shorter than its fields".to_owned());
        let key_bytes = usize::from(body.try_get_u16_le().map_err(short)?);
        if body.remaining() < key_bytes {
            return damage("a key is longer than its entry".to_owned());
        }
        let key = body.split_to(key_bytes);
        let key = std::str::from_utf8(&key)
            .map_err(|error| BackupDamage::Damage(format!("a key is not UTF-8: {error}")))?;
        let key = Key::try_new(key).map_err(|error| BackupDamage::Damage(error.to_string()))?;
        if let Some(last) = &self.last
            && key <= *last
        {
            return damage(format!(
                "{key} follows {last}, but keys must be ordered and unique"
            ));
        }
        let revision = Revision::new(body.try_get_u64_le().map_err(short)?);
        if revision == Revision::ZERO || revision > self.revision {
            let newest = self.revision;
            return damage(format!(
                "{key} is of revision {revision}, in a backup of revision {newest}"
            ));
        }
        let expiry = match body.try_get_u8().map_err(short)? {
            PERMANENT => None,
            EXPIRING => Some(Expiry {
                deadline_ms: body.try_get_u64_le().map_err(short)?,
                ttl: Duration::from_millis(body.try_get_u64_le().map_err(short)?),
            }),
            other => return damage(format!("{key} has the unknown expiry mark {other}")),
        };
        if body.len() > MAX_VALUE_BYTES {
            return damage(format!("the value of {key} is larger than any store takes"));
        }
        Ok(Entry {
            key,
            value: body,
            revision,
            expiry,
        })
    }

    fn check_sum(&mut self, bytes: &[u8], expected: u32) -> Result<(), BackupDamage> {
        self.sum.update(bytes);
        let sum = self.sum.clone().finalize();
        if sum != expected {
            return damage(format!("the checksum is {sum:08x} and should be {expected:08x}"));
        }
        Ok(())
    }
}

/// Checks magic and format, which will stand at the same location in every future format. Takes what
/// there is of a stream that ends early.
pub(super) fn check_start(bytes: &[u8]) -> Result<(), BackupDamage> {
    let magic = bytes.len().min(MAGIC.len());
    if bytes[..magic] != MAGIC[..magic] {
        return Err(BackupDamage::NotABackup);
    }
    let Some(format) = bytes.get(MAGIC.len()..MAGIC.len() + 4) else {
        return Ok(());
    };
    match u32::from_le_bytes(format.try_into().expect("the slice has four bytes")) {
        0 => damage("there is no format 0".to_owned()),
        FORMAT => Ok(()),
        newer => Err(BackupDamage::Newer(newer)),
    }
}

fn damage<T>(reason: String) -> Result<T, BackupDamage> {
    Err(BackupDamage::Damage(reason))
}

/// Whole milliseconds, rounded up: an entry may live a little longer, never shorter.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
