//! What a child reports to its parent, a line each.
//!
//! Values are known by a number alone: both sides can make the bytes from it.

use std::{fmt, str::FromStr};

use bytes::Bytes;
use k3_storage::{Precondition, Revision};
use rustix::time::{ClockId, clock_gettime};

/// Something a child reports. Requests have a number that no other request of the test has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The store is open, and stands there.
    Ready(Revision),
    /// A request will be made.
    Ask {
        at: Nanos,
        number: u64,
        key: String,
        what: RequestedOperation,
    },
    /// A request was answered.
    Response {
        at: Nanos,
        number: u64,
        answer: Response,
    },
    /// A watch delivered a commit: what it put, or nothing for a deletion.
    Event {
        revision: Revision,
        key: String,
        put: Option<(ChildSignal, u64)>,
    },
    /// A watch has reported all up to here.
    Bookmark(Revision),
    /// A watch reported compaction, and the watcher read the store at this revision instead.
    Relisted(Revision),
}

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedOperation {
    /// To put the value that has the request's number.
    Put(Precondition),
    Delete(Precondition),
    Get,
}

/// What the answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Committed(Revision),
    /// The answer to a get, or to a write that conflicted: the revision and the number of the value.
    Shown(Option<(Revision, u64)>),
    Uncertain,
    /// It did not happen.
    Failed,
}

/// Whether a value was the first of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildSignal {
    Created,
    Updated,
}

/// Nanoseconds of the machine's clock, which all its processes share.
pub(crate) type Nanos = u64;

/// What our lines begin with; the test harness prints others.
const MARK: &str = "k3:";

/// The time by the clock that all processes share.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// How many requests a child may make: children number theirs by steps of it.
pub(crate) const REQUESTS: u64 = 1_000_000;

/// One child in so many writes values that leave much to be cleared away after it.
const LAVISH: u64 = 8;

/// The value with a number: small, or of several pages, or now and then of many.
pub(crate) fn value(number: u64) -> Bytes {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let lavish = (number / REQUESTS) % LAVISH == LAVISH - 1;
    let len = match next() % 10 {
        _ if lavish => next() % 200_000,
        0..5 => next() % 200,
        5..9 => next() % 4000,
        _ => next() % 60_000,
    };
    let len = size_of::<u64>() + usize::try_from(len).unwrap();
    let block: Vec<u8> = (0..64).flat_map(|_| next().to_be_bytes()).collect();
    let mut bytes = number.to_be_bytes().to_vec();
    while bytes.len() < len {
        bytes.extend_from_slice(&block);
    }
    bytes.truncate(len);
    bytes.into()
}

/// The number of a value, if it is exactly the value with that number.
pub(crate) fn number_of(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(*bytes.first_chunk()?);
    (value(number) == bytes).then_some(number)
}

// --- Word ---

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK} ")?;
        match self {
            Self::Ready(revision) => write!(f, "ready {revision}"),
            Self::Ask {
                at,
                number,
                key,
                what,
            } => {
                write!(f, "ask {at} {number} {key} ")?;
                match what {
                    RequestedOperation::Put(precondition) => write!(f, "put {}", expected(*precondition)),
                    RequestedOperation::Delete(precondition) => {
                        write!(f, "delete {}", expected(*precondition))
                    }
                    RequestedOperation::Get => f.write_str("get 0"),
                }
            }
            Self::Response { at, number, answer } => {
                write!(f, "response {at} {number} ")?;
                match answer {
                    Response::Committed(revision) => write!(f, "committed {revision} 0"),
                    Response::Shown(None) => f.write_str("shown 0 0"),
                    Response::Shown(Some((revision, value))) => write!(f, "shown {revision} {value}"),
                    Response::Uncertain => f.write_str("uncertain 0 0"),
                    Response::Failed => f.write_str("failed 0 0"),
                }
            }
            Self::Event { revision, key, put } => match put {
                Some((ChildSignal::Created, value)) => write!(f, "event {revision} {key} created {value}"),
                Some((ChildSignal::Updated, value)) => write!(f, "event {revision} {key} updated {value}"),
                None => write!(f, "event {revision} {key} deleted 0"),
            },
            Self::Bookmark(revision) => write!(f, "bookmark {revision}"),
            Self::Relisted(revision) => write!(f, "relisted {revision}"),
        }
    }
}

fn expected(precondition: Precondition) -> u64 {
    match precondition {
        Precondition::Absent => 0,
        Precondition::At(revision) => revision.get(),
    }
}

impl FromStr for Message {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        parse(line).ok_or_else(|| format!("not a word: {line:?}"))
    }
}

fn parse(line: &str) -> Option<Message> {
    let parts: Vec<_> = line.split(' ').collect();
    let revision = |text: &str| Some(Revision::new(text.parse().ok()?));
    match parts[..] {
        [MARK, "ready", at] => Some(Message::Ready(revision(at)?)),
        [MARK, "ask", at, number, key, what, expect] => {
            let precondition = match expect {
                "0" => Precondition::Absent,
                other => Precondition::At(revision(other)?),
            };
            Some(Message::Ask {
                at: at.parse().ok()?,
                number: number.parse().ok()?,
                key: key.to_owned(),
                what: match what {
                    "put" => RequestedOperation::Put(precondition),
                    "delete" => RequestedOperation::Delete(precondition),
                    "get" => RequestedOperation::Get,
                    _ => return None,
                },
            })
        }
        [MARK, "response", at, number, answer, first, second] => Some(Message::Response {
            at: at.parse().ok()?,
            number: number.parse().ok()?,
            answer: match answer {
                "committed" => Response::Committed(revision(first)?),
                "shown" if first == "0" => Response::Shown(None),
                "shown" => Response::Shown(Some((revision(first)?, second.parse().ok()?))),
                "uncertain" => Response::Uncertain,
                "failed" => Response::Failed,
                _ => return None,
            },
        }),
        [MARK, "event", at, key, sign, value] => Some(Message::Event {
            revision: revision(at)?,
            key: key.to_owned(),
            put: match sign {
                "created" => Some((ChildSignal::Created, value.parse().ok()?)),
                "updated" => Some((ChildSignal::Updated, value.parse().ok()?)),
                "deleted" => None,
                _ => return None,
            },
        }),
        [MARK, "bookmark", at] => Some(Message::Bookmark(revision(at)?)),
        [MARK, "relisted", at] => Some(Message::Relisted(revision(at)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let at = Revision::new(7);
        let ask = |what| Message::Ask {
            at: 1,
            number: 2,
            key: "/k/1".to_owned(),
            what,
        };
        let response_at_time = |answer| Message::Response {
            at: 3,
            number: 2,
            answer,
        };
        let event = |put| Message::Event {
            revision: at,
            key: "/k/1".to_owned(),
            put,
        };
        for message in [
            Message::Ready(at),
            ask(RequestedOperation::Put(Precondition::Absent)),
            ask(RequestedOperation::Put(Precondition::At(at))),
            ask(RequestedOperation::Delete(Precondition::At(at))),
            response_at_time(Response::Committed(at)),
            response_at_time(Response::Shown(None)),
            response_at_time(Response::Shown(Some((at, 9)))),
            response_at_time(Response::Uncertain),
            response_at_time(Response::Failed),
            event(Some((ChildSignal::Created, 9))),
            event(Some((ChildSignal::Updated, 9))),
            event(None),
            Message::Bookmark(at),
            Message::Relisted(at),
        ] {
            assert_eq!(message.to_string().parse(), Ok(message));
        }
    }

    #[test]
    fn a_value_is_identified_by_number_and_content() {
        for number in [0, 1, 77, 1_000_003, u64::MAX] {
            let mut bytes = value(number).to_vec();
            assert_eq!(number_of(&bytes), Some(number));
            *bytes.last_mut().unwrap() ^= 1;
            assert_ne!(number_of(&bytes), Some(number));
            bytes.pop();
            assert_ne!(number_of(&bytes), Some(number));
        }
        assert_eq!(number_of(b"short"), None);
    }
}
