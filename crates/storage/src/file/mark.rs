//! A small file beside the database file that detects damage of the database.
//!
//! Without it, a store file that was lost or emptied would look like a store that is new, and one that
//! was damaged and lost its last commits like one that never had them.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use super::{directory::StoreDirectory, options::Durability};
use crate::{OpenError, Revision, StoreError};

const FILE: &str = "mark";
const FILE_PREFIX: &str = "k3 store, closed at revision ";
/// Before the journal's number of 16 digits and `: `, and together of the same length: a mark is replaced whole.
const JOURNAL_PREFIX: &str = "k3 journal ";

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CloseMark {
    /// The revision at the last clean shutdown. The store must never be below it.
    pub(super) closed_at: Revision,
    pub(super) form: MarkForm,
}

/// Where acknowledged writes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MarkForm {
    /// All are in the database file.
    #[default]
    File,
    /// Some may be only in the journal. A program that does not know of it cannot read this mark, and refuses the store.
    FileAndJournal(JournalId),
}

/// Distinguishes the frames of a journal from those that were in its file before, and from values that look like frames: no one
/// who writes values knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalId(u64);

/// The form of the mark of an open store.
#[derive(Default)]
pub(super) struct CurrentMark(Mutex<MarkForm>);

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
        let mut text = vec![
            0;
            usize::try_from(len)
                .unwrap_or(usize::MAX)
                .min(FILE_PREFIX.len() + 24)
        ];
        file.read(0, &mut text).map_err(io)?;
        match std::str::from_utf8(&text).ok().and_then(Self::parse) {
            Some(mark) => Ok(Some(mark)),
            None => {
                Err(StoreError::Corrupt(format!("{FILE} in {} is unreadable", directory.location())).into())
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (form, number) = match text.strip_prefix(JOURNAL_PREFIX) {
            None => (MarkForm::File, text.strip_prefix(FILE_PREFIX)?),
            Some(rest) => {
                let (id, number) = rest.split_once(": ")?;
                let id = u64::from_str_radix(id, 16).ok()?;
                (MarkForm::FileAndJournal(JournalId(id)), number)
            }
        };
        Some(Self {
            closed_at: Revision::new(number.trim_end().parse().ok()?),
            form,
        })
    }

    /// Writes the mark, always at the same length so that it is replaced whole.
    pub(super) fn write(
        &self,
        directory: &dyn StoreDirectory,
        durability: Durability,
    ) -> std::io::Result<()> {
        let file = directory.open(FILE)?;
        let text = format!("{}{:020}\n", self.form.prefix(), self.closed_at.get());
        file.write(0, text.as_bytes())?;
        match durability {
            Durability::Synced => file.sync(),
            Durability::Relaxed => Ok(()),
        }
    }
}

// --- MarkForm ---

impl MarkForm {
    fn prefix(self) -> String {
        match self {
            MarkForm::File => FILE_PREFIX.to_owned(),
            MarkForm::FileAndJournal(JournalId(id)) => format!("{JOURNAL_PREFIX}{id:016x}: "),
        }
    }
}

// --- JournalId ---

impl JournalId {
    /// One that was never used, and is not zero, which is what a new file has.
    pub(super) fn new() -> Self {
        Self(RandomState::new().hash_one(JOURNAL_PREFIX).max(1))
    }

    pub(super) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

// --- CurrentMark ---

impl CurrentMark {
    pub(super) fn set_form(&self, form: MarkForm) {
        *self.0.lock() = form;
    }

    pub(super) fn form(&self) -> MarkForm {
        *self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_the_same_length() {
        let journal = MarkForm::FileAndJournal(JournalId::new());
        assert_eq!(MarkForm::File.prefix().len(), journal.prefix().len());
    }

    #[test]
    fn reads_both_forms() {
        for form in [MarkForm::File, MarkForm::FileAndJournal(JournalId(0xf7))] {
            let mark = CloseMark {
                closed_at: Revision::new(7),
                form,
            };
            let text = format!("{}{:020}\n", form.prefix(), 7);
            assert_eq!(CloseMark::parse(&text), Some(mark));
        }
        assert_eq!(CloseMark::parse("k3 store, something else"), None);
    }
}
