//! Whether a watch kept the six guarantees: ordered, unique, atomic, reliable, resumable, bookmarkable.

use std::collections::HashSet;

use k3_storage::{Event, EventBatch, Prefix, Revision};

/// What a watch reported, from its beginning to where it was left.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) prefix: Prefix,
    /// Where it began.
    pub(crate) after: Revision,
    pub(crate) batches: Vec<EventBatch>,
}

/// How a watch broke a guarantee.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokenStream {
    #[error("ordered: {0:?} was told after revision {1}")]
    Ordered(Event, Revision),
    #[error("unique: {0:?} was told twice")]
    Unique(Event),
    #[error("atomic: {0:?} was told, but the commit was {1:?}")]
    Atomic(Event, Option<Event>),
    #[error("reliable: {0:?} was left out")]
    Reliable(Event),
    #[error("resumable: {0:?} was told to one who had begun after {1}")]
    Resumable(Event, Revision),
    #[error("bookmarkable: the bookmark {bookmark} does not tell how far the events reach: {reason}")]
    Bookmarkable { bookmark: Revision, reason: String },
    #[error("foreign: {0:?} is outside of the prefix {1}")]
    Foreign(Event, Prefix),
}

// --- Recording ---

impl Recording {
    /// Whether the event is reported at all.
    fn tells(&self, event: &Event) -> bool {
        self.batches.iter().any(|batch| batch.events.contains(event))
    }
}

/// Judges a watch by the log of all commits.
pub(crate) fn check_stream(recording: &Recording, log: &[Event]) -> Result<(), Box<BrokenStream>> {
    let Recording {
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
                return Err(unlike(format!("{event:?} came after a bookmark at {reached}")).into());
            }
            match owed.next_if(|owed| owed.revision <= event.revision) {
                Some(owed) if owed == event => {}
                Some(owed) if owed.revision < event.revision => {
                    let broken = if recording.tells(owed) {
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
            return Err(unlike(format!("it comes after one at {reached}")).into());
        }
        if let Some(last) = batch.events.last()
            && last.revision > batch.revision
        {
            return Err(unlike(format!("it comes with {last:?}")).into());
        }
        if let Some(missing) = owed.next_if(|owed| owed.revision <= batch.revision) {
            return Err(unlike(format!("{missing:?} has not come yet")).into());
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
    fn verdict_on(after: u64, batches: Vec<EventBatch>) -> String {
        let recording = Recording {
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
        verdict_on(after, batches.collect())
    }

    #[test]
    fn sound_watches_pass() {
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
    fn an_event_that_is_left_out_is_caught() {
        assert_eq!(result(1, &[(&[4], 4)]), "reliable");
        assert_eq!(result(1, &[(&[2, 5], 5)]), "reliable");
        assert_eq!(result(2, &[(&[], 3), (&[5], 5)]), "reliable");
    }

    #[test]
    fn an_event_that_is_not_the_commit_is_caught() {
        assert_eq!(result(5, &[(&[6], 6)]), "atomic");
        let altered = Event {
            change: Change::Deleted,
            ..event(4, "/a/2")
        };
        let batch = EventBatch {
            events: [altered].into(),
            revision: Revision::new(4),
        };
        assert_eq!(verdict_on(2, vec![batch]), "atomic");
    }

    #[test]
    fn an_event_from_before_the_beginning_is_caught() {
        assert_eq!(result(2, &[(&[2, 4], 4)]), "resumable");
        assert_eq!(result(4, &[(&[4], 4)]), "resumable");
    }

    #[test]
    fn a_bookmark_that_is_not_true_is_caught() {
        // Ahead of an event that has not arrived yet, or never arrives.
        assert_eq!(result(1, &[(&[], 2)]), "bookmarkable");
        assert_eq!(result(1, &[(&[], 2), (&[2], 2)]), "bookmarkable");
        assert_eq!(result(1, &[(&[2], 4)]), "bookmarkable");
        // Behind its own events, or behind the one before.
        assert_eq!(result(1, &[(&[2, 4], 3)]), "bookmarkable");
        assert_eq!(result(1, &[(&[2], 3), (&[], 2)]), "bookmarkable");
    }

    #[test]
    fn an_event_of_another_prefix_is_caught() {
        assert_eq!(result(1, &[(&[2, 3], 3)]), "foreign");
    }
}
