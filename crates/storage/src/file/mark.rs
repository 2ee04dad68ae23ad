//! A small file beside the database file that detects damage of the database.
//!
//! Without it, a store file that was lost or emptied would look like a store that is new, and one that
//! was damaged and lost its last commits like one that never had them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{directory::StoreDirectory, options::Durability};
use crate::{OpenError, Revision, StoreError};

const FILE: &str = "mark";
/// Of the same length: a mark is replaced whole.
const FILE_PREFIX: &str = "k3 store, closed at revision ";
const JOURNAL_PREFIX: &str = "k3 store, journal, revision: ";

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CloseMark {
    /// The revision at the last clean shutdown. The store must never be below it.
    pub(super) closed_at: Revision,
    pub(super) form: MarkForm,
}

/// Where acknowledged writes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkForm {
    /// All are in the database file.
    File,
    /// Some may be only in the journal. A program that does not know of it cannot read this mark, and refuses the store.
    FileAndJournal,
}

/// The form of the mark of an open store.
#[derive(Default)]
pub(super) struct CurrentMark {
    has_journal: AtomicBool,
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
        [MarkForm::File, MarkForm::FileAndJournal]
            .into_iter()
            .find_map(|form| {
                let number = text.strip_prefix(form.prefix())?.trim_end().parse().ok()?;
                Some(Self {
                    closed_at: Revision::new(number),
                    form,
                })
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
    fn prefix(self) -> &'static str {
        match self {
            MarkForm::File => FILE_PREFIX,
            MarkForm::FileAndJournal => JOURNAL_PREFIX,
        }
    }
}

// --- CurrentMark ---

impl CurrentMark {
    pub(super) fn set_form(&self, form: MarkForm) {
        self.has_journal
            .store(form == MarkForm::FileAndJournal, Ordering::SeqCst);
    }

    pub(super) fn form(&self) -> MarkForm {
        if self.has_journal.load(Ordering::SeqCst) {
            MarkForm::FileAndJournal
        } else {
            MarkForm::File
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_the_same_length() {
        assert_eq!(FILE_PREFIX.len(), JOURNAL_PREFIX.len());
    }

    #[test]
    fn reads_both_forms() {
        for form in [MarkForm::File, MarkForm::FileAndJournal] {
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
