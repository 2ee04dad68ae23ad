//! A small file beside the database file that detects damage of the database.
//!
//! Without it, a store file that was lost or emptied would look like a store that is new, and one that
//! was damaged and lost its last commits like one that never had them.

use super::directory::StoreDirectory;
use crate::{OpenError, Revision, StoreError};

const FILE: &str = "mark";
const PREFIX: &str = "k3 store, closed at revision ";

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CloseMark {
    /// The revision at the last clean shutdown. The store must never be below it.
    pub(super) closed_at: Revision,
}

// --- CloseMark ---

impl CloseMark {
    /// The directory's mark; `None` if no store has been there.
    pub(super) fn read(directory: &dyn StoreDirectory) -> Result<Option<Self>, OpenError> {
        let io = |source| OpenError::Io {
            path: format!("{}/{FILE}", directory.location()).into(),
            source,
        };
        let file = directory.open(FILE).map_err(io)?;
        let len = file.len().map_err(io)?;
        if len == 0 {
            return Ok(None);
        }
        let mut text = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(PREFIX.len() + 24)];
        file.read(0, &mut text).map_err(io)?;
        let closed_at = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.strip_prefix(PREFIX))
            .and_then(|number| number.trim_end().parse().ok());
        match closed_at {
            Some(number) => Ok(Some(Self {
                closed_at: Revision::new(number),
            })),
            None => {
                Err(StoreError::Corrupt(format!("{FILE} in {} is unreadable", directory.location())).into())
            }
        }
    }

    /// Writes the mark, always at the same length so that it is replaced whole.
    pub(super) fn write(&self, directory: &dyn StoreDirectory) -> std::io::Result<()> {
        let file = directory.open(FILE)?;
        file.write(0, format!("{PREFIX}{:020}\n", self.closed_at.get()).as_bytes())?;
        file.sync()
    }
}
