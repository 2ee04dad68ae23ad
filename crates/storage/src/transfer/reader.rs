//! Reads and verifies a backup stream entry by entry.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};

use super::layout::{
    BackupDamage, BackupFrame, BackupHeader, Decoder, FORMAT, HEAD_BYTES, HEADER_BYTES, check_start,
};
use crate::Entry;

/// An invalid backup stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupStreamError {
    /// The stream is not a backup.
    #[error("this is not a k3 backup")]
    NotABackup,
    /// The backup was written by a newer version.
    #[error(
        "the backup is of format {found}, this program reads up to {known}; use a newer k3 than {}",
        env!("CARGO_PKG_VERSION")
    )]
    NewerFormat {
        /// Its format.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// The stream is truncated: its writer was stopped, or a copy is incomplete.
    #[error("the backup is cut off at byte {at}, after {entries} whole entries; use one that is complete")]
    Truncated {
        /// Where it ends.
        at: u64,
        /// The entries before.
        entries: u64,
    },
    /// The stream is corrupt.
    #[error("the backup is damaged at byte {at}, after {entries} whole entries: {reason}")]
    Damaged {
        /// Where the part that is damaged begins.
        at: u64,
        /// The entries before.
        entries: u64,
        /// What is wrong.
        reason: String,
    },
    /// An I/O error.
    #[error("cannot read the backup at byte {at}")]
    Io {
        /// Where reading stopped.
        at: u64,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Reads a stream.
pub(super) struct BackupReader<R> {
    input: Source<R>,
    decoder: Decoder,
}

/// The input, with a count of what was read.
struct Source<R> {
    input: BufReader<R>,
    /// Bytes read so far.
    at: u64,
}

// --- BackupReader ---

impl<R: AsyncRead + Unpin> BackupReader<R> {
    /// Reads and checks the header.
    pub(super) async fn begin(input: R) -> Result<(Self, BackupHeader), BackupStreamError> {
        let mut input = Source {
            input: BufReader::with_capacity(64 * 1024, input),
            at: 0,
        };
        let mut bytes = [0; HEADER_BYTES];
        let filled = input.fill(&mut bytes).await?;
        let wrong = |flaw| wrong(flaw, 0, 0);
        if filled < HEADER_BYTES {
            check_start(&bytes[..filled]).map_err(wrong)?;
            return Err(match filled {
                0 => BackupStreamError::NotABackup,
                _ => input.cut_off(0),
            });
        }
        let (decoder, header) = Decoder::begin(&bytes).map_err(wrong)?;
        Ok((Self { input, decoder }, header))
    }

    /// The next entry. `None` once the trailer was read and everything is as it was written.
    pub(super) async fn next(&mut self) -> Result<Option<Entry>, BackupStreamError> {
        let start = self.input.at;
        let entries = self.decoder.entries();
        let wrong = |flaw| wrong(flaw, start, entries);
        let mut head = [0; HEAD_BYTES];
        if self.input.fill(&mut head).await? < HEAD_BYTES {
            return Err(self.input.cut_off(entries));
        }
        let length = Decoder::follow(head).map_err(wrong)?;
        let mut body = BytesMut::zeroed(length);
        if self.input.fill(&mut body).await? < length {
            return Err(self.input.cut_off(entries));
        }
        match self.decoder.frame(head, body.freeze()).map_err(wrong)? {
            BackupFrame::Entry(entry) => Ok(Some(entry)),
            BackupFrame::End => self.nothing_follows(entries).await.map(|()| None),
        }
    }

    /// Two backups in one file are an error, and the second would be lost without a word.
    async fn nothing_follows(&mut self, entries: u64) -> Result<(), BackupStreamError> {
        let end = self.input.at;
        match self.input.fill(&mut [0]).await? {
            0 => Ok(()),
            _ => Err(wrong(
                BackupDamage::Damage("more follows its trailer".to_owned()),
                end,
                entries,
            )),
        }
    }
}

// --- Source ---

impl<R: AsyncRead + Unpin> Source<R> {
    /// Fills the buffer, unless the input ends before; reports how much of it was filled.
    async fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, BackupStreamError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]).await {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(source) => {
                    return Err(BackupStreamError::Io {
                        at: self.at + filled as u64,
                        source,
                    });
                }
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }

    fn cut_off(&self, entries: u64) -> BackupStreamError {
        BackupStreamError::Truncated { at: self.at, entries }
    }
}

fn wrong(flaw: BackupDamage, at: u64, entries: u64) -> BackupStreamError {
    match flaw {
        BackupDamage::NotABackup => BackupStreamError::NotABackup,
        BackupDamage::Newer(found) => BackupStreamError::NewerFormat { found, known: FORMAT },
        BackupDamage::Damage(reason) => BackupStreamError::Damaged { at, entries, reason },
    }
}
