//! Whether a watch kept the six guarantees: ordered, unique, atomic, reliable, resumable, bookmarkable.

use std::collections::HashSet;

use k3_storage::{Event, EventBatch, Prefix, Revision};

/// What a watch reported, from its beginning to where it was left.
#[derive(Clone, Debug)]
pub(crate) struct WatchRecording {
    pub(crate) prefix: Prefix,
    /// Where it began.
    pub(crate) after: Revision,
    pub(crate) batches: Vec<EventBatch>,
}

/// How a watch broke a guarantee.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokenStream {
    #[error("ordered: {0:?} was sent after revision {1}")]
    Ordered(Event, Revision),
    #[error("unique: {0:?} was sent twice")]
    Unique(Event),
    #[error("atomic: {0:?} was sent, but the commit was {1:?}")]
    Atomic(Event, Option<Event>),
    #[error("reliable: {0:?} was left out")]
    Reliable(Event),
    #[error("resumable: {0:?} was sent to a watcher that started after {1}")]
    Resumable(Event, Revision),
    #[error("bookmarkable: the bookmark {bookmark} does not match the events: {reason}")]
    Bookmarkable { bookmark: Revision, reason: String },
    #[error("foreign: {0:?} is outside of the prefix {1}")]
    Foreign(Event, Prefix),
}

// --- WatchRecording ---

impl WatchRecording {
    /// Whether the event is reported at all.
    fn describes(&self, event: &Event) -> bool {
        self.batches.iter().any(|batch| batch.events.contains(event))
    }
}

/// Checks a watch against the log of all commits.
pub(crate) fn check_stream(recording: &WatchRecording, log: &[Event]) -> Result<(), Box<BrokenStream>> {
    let WatchRecording {
        prefix,
        after,
        batches,
    } = recording;
    let mut owed = log
        .iter()
        .filter(|event| prefix.contains(&event.key) && event.revision > *after)
        .peekable();
    let mut acknowledged: HashSet<Revision> = HashSet::new();
    let mut reached = *after;
    for batch in batches {
        let unlike = |reason: String| BrokenStream::Bookmarkable {
            bookmark: batch.revision,
            reason,
        };
        for event in batch.events.iter() {
            if !prefix.contains(&event.key) {
                return Err(BrokenStream::Foreign(event.clone(), prefix.clone()).into());
            }
            if !acknowledged.insert(event.revision) {
                return Err(BrokenStream::Unique(event.clone()).into());
            }
            if event.revision <= *after {
                return Err(BrokenStream::Resumable(event.clone(), *after).into());
            }
            if event.revision <= reached {
                return Err(unlike(format!("{event:?} arrived after a bookmark at {reached}")).into());
            }
            match owed.next_if(|owed| owed.revision <= event.revision) {
                Some(owed) if owed == event => {}
                Some(owed) if owed.revision < event.revision => {
                    let broken = if recording.describes(owed) {
                        BrokenStream::Ordered(owed.clone(), event.revision)
                    } else {
                        BrokenStream::Reliable(owed.clone())
                    };
                    return Err(broken.into());
                }
                other => return Err(BrokenStream::Atomic(event.clone(), other.cloned()).into()),
            }
        }
        if batch.revision < reached {
            return Err(unlike(format!("it follows a bookmark at {reached}")).into());
        }
        if let Some(last) = batch.events.last()
            && last.revision > batch.revision
        {
            return Err(unlike(format!("it arrives with {last:?}")).into());
        }
        if let Some(missing) = owed.next_if(|owed| owed.revision <= batch.revision) {
            return Err(unlike(format!("{missing:?} has not arrived yet")).into());
        }
        reached = batch.revision;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k3_storage::Change;

    use super::*;
    use crate::store_ext::{key, prefix};

    fn event(revision: u64, name: &str) -> Event {
        Event {
            revision: Revision::new(revision),
            key: key(name),
            change: Change::Created("x".into()),
        }
    }

    /// Commits 2, 3, 4, 5, of which 3 is of another prefix.
    fn log() -> Vec<Event> {
        vec![
            event(2, "/a/1"),
            event(3, "/b/1"),
            event(4, "/a/2"),
            event(5, "/a/3"),
        ]
    }

    /// The first word of the result on a watch of `/a/`.
    fn check_recording(after: u64, batches: Vec<EventBatch>) -> String {
        let recording = WatchRecording {
            prefix: prefix("/a/"),
            after: Revision::new(after),
            batches,
        };
        match check_stream(&recording, &log()) {
            Ok(()) => "sound".to_owned(),
            Err(broken) => broken.to_string().split([':', ' ']).next().unwrap().to_owned(),
        }
    }

    /// The same, of a watch that reports commits by their revisions; each batch has its bookmark behind.
    fn result(after: u64, batches: &[(&[u64], u64)]) -> String {
        let acknowledged = |revision: &u64| {
            let known = log().into_iter().find(|event| event.revision.get() == *revision);
            known.unwrap_or_else(|| event(*revision, "/a/never"))
        };
        let batches = batches.iter().map(|(events, bookmark)| EventBatch {
            events: events.iter().map(acknowledged).collect(),
            revision: Revision::new(*bookmark),
        });
        check_recording(after, batches.collect())
    }

    #[test]
    fn accepts_valid_watches() {
        assert_eq!(result(1, &[]), "sound");
        assert_eq!(result(1, &[(&[2, 4], 4), (&[5], 5)]), "sound");
        assert_eq!(result(1, &[(&[2], 3), (&[], 3), (&[4], 4)]), "sound");
        assert_eq!(result(2, &[(&[], 3), (&[4, 5], 9)]), "sound");
        assert_eq!(result(4, &[(&[5], 5)]), "sound");
    }

    #[test]
    fn catches_an_event_out_of_order() {
        assert_eq!(result(1, &[(&[2, 5, 4], 5)]), "ordered");
        assert_eq!(result(1, &[(&[2], 2), (&[5], 5), (&[4], 5)]), "ordered");
    }

    #[test]
    fn catches_a_duplicate_event() {
        assert_eq!(result(1, &[(&[2, 2], 2)]), "unique");
        assert_eq!(result(1, &[(&[2], 2), (&[2, 4], 4)]), "unique");
    }

    #[test]
    fn detects_a_missing_event() {
        assert_eq!(result(1, &[(&[4], 4)]), "reliable");
        assert_eq!(result(1, &[(&[2, 5], 5)]), "reliable");
        assert_eq!(result(2, &[(&[], 3), (&[5], 5)]), "reliable");
    }

    #[test]
    fn detects_an_event_that_differs_from_its_commit() {
        assert_eq!(result(5, &[(&[6], 6)]), "atomic");
        let altered = Event {
            change: Change::Deleted,
            ..event(4, "/a/2")
        };
        let batch = EventBatch {
            events: [altered].into(),
            revision: Revision::new(4),
        };
        assert_eq!(check_recording(2, vec![batch]), "atomic");
    }

    #[test]
    fn detects_an_event_before_the_start() {
        assert_eq!(result(2, &[(&[2, 4], 4)]), "resumable");
        assert_eq!(result(4, &[(&[4], 4)]), "resumable");
    }

    #[test]
    fn detects_a_false_bookmark() {
        // Ahead of an event that has not arrived yet, or never arrives.
        assert_eq!(result(1, &[(&[], 2)]), "bookmarkable");
        assert_eq!(result(1, &[(&[], 2), (&[2], 2)]), "bookmarkable");
        assert_eq!(result(1, &[(&[2], 4)]), "bookmarkable");
        // Behind its own events, or behind the one before.
        assert_eq!(result(1, &[(&[2, 4], 3)]), "bookmarkable");
        assert_eq!(result(1, &[(&[2], 3), (&[], 2)]), "bookmarkable");
    }

    #[test]
    fn detects_an_event_of_another_prefix() {
        assert_eq!(result(1, &[(&[2, 3], 3)]), "foreign");
    }
}
