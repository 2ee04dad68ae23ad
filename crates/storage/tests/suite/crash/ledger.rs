//! What the children requested and received, combined into one history for the checker.

use std::collections::HashMap;

use k3_storage::{Entry, Operation as Effect, Precondition, Revision, Write};

use super::protocol::{Message, Nanos, RequestedOperation, Response, value};
use crate::{
    history::{Operation, OperationResult},
    store_ext::key,
};

/// The requests of all children.
#[derive(Default)]
pub(crate) struct WriteLedger {
    operations: Vec<Operation>,
    /// Requests without an answer yet, by number, with the child that made them.
    open: HashMap<u64, Open>,
    /// The highest revision that any child received.
    known: Option<Revision>,
    acknowledged: usize,
}

struct Open {
    child: usize,
    at: Nanos,
    key: String,
    what: RequestedOperation,
}

// --- WriteLedger ---

impl WriteLedger {
    /// Writes down what a child said.
    pub(crate) fn note(&mut self, child: usize, message: Message) {
        match message {
            Message::Ready(revision) => self.knows(revision),
            Message::Ask {
                at,
                number,
                key,
                what,
            } => {
                let open = Open { child, at, key, what };
                assert!(
                    self.open.insert(number, open).is_none(),
                    "requests have numbers of their own"
                );
            }
            Message::Response { at, number, answer } => self.answer(number, at, answer),
            other => panic!("not a word of a writer: {other:?}"),
        }
    }

    /// Records that a child was killed: what it requested last may have happened, or may not.
    pub(crate) fn end(&mut self, child: usize) {
        let mut numbers: Vec<_> = self
            .open
            .iter()
            .filter(|(_, open)| open.child == child)
            .map(|(number, _)| *number)
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            self.answer(number, Nanos::MAX, Response::Uncertain);
        }
    }

    /// Forgets all that was requested and answered. The entries that are there now count as written by
    /// another process, long ago.
    pub(crate) fn begin_with(&mut self, entries: &[Entry]) {
        self.operations = entries
            .iter()
            .map(|entry| Operation {
                requested: 0,
                answered: 0,
                done: OperationResult::Committed {
                    write: Write::create(entry.key.clone(), entry.value.clone()),
                    revision: entry.revision,
                },
            })
            .collect();
    }

    /// All that was requested and answered.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The highest revision that any child received.
    pub(crate) fn known(&self) -> Revision {
        self.known.unwrap_or_default()
    }

    /// How many writes were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    fn answer(&mut self, number: u64, at: Nanos, answer: Response) {
        let open = self.open.remove(&number).expect("what is answered was requested");
        let name = key(&open.key);
        let shown = |shown: Option<(Revision, u64)>| {
            shown.map(|(revision, number)| Entry {
                key: key(&open.key),
                value: value(number),
                revision,
                expiry: None,
            })
        };
        let write = |precondition: Precondition, operation: Effect| Write {
            key: name.clone(),
            precondition,
            operation,
        };
        let write = match open.what {
            RequestedOperation::Put(precondition) => Some(write(
                precondition,
                Effect::Put {
                    value: value(number),
                    ttl: None,
                },
            )),
            RequestedOperation::Delete(precondition) => Some(write(precondition, Effect::Delete)),
            RequestedOperation::Get => None,
        };
        let done = match (answer, write) {
            (Response::Committed(revision), Some(write)) => {
                self.knows(revision);
                self.acknowledged += 1;
                OperationResult::Committed { write, revision }
            }
            (Response::Shown(entry), Some(write)) => OperationResult::Conflicted {
                write,
                shown: shown(entry),
            },
            (Response::Uncertain, Some(write)) => OperationResult::Uncertain { write },
            (Response::Shown(entry), None) => OperationResult::Got {
                key: name,
                entry: shown(entry),
            },
            (Response::Failed, _) | (Response::Uncertain, None) => return,
            (Response::Committed(_), None) => panic!("a get was committed"),
        };
        self.operations.push(Operation {
            requested: open.at,
            answered: at,
            done,
        });
    }

    fn knows(&mut self, revision: Revision) {
        self.known = self.known.max(Some(revision));
    }
}
