//! Whether a watch kept the six guarantees: ordered, unique, atomic, reliable, resumable, bookmarkable.

use k3_storage::{Batch, Event, Prefix, Revision};

/// What a watch told, from its beginning to where it was left.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) prefix: Prefix,
    /// Where it began.
    pub(crate) after: Revision,
    pub(crate) batches: Vec<Batch>,
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
    #[error("{0:?} is outside of the prefix {1}")]
    Foreign(Event, Prefix),
}

// --- Recording ---

impl Recording {
    /// Whether the event is told at all.
    fn tells(&self, event: &Event) -> bool {
        self.batches.iter().any(|batch| batch.events.contains(event))
    }
}

/// Judges a watch by the log of all commits.
pub(crate) fn check_stream(recording: &Recording, log: &[Event]) -> Result<(), BrokenStream> {
    let Recording {
        prefix,
        after,
        batches,
    } = recording;
    let mut owed = log
        .iter()
        .filter(|event| prefix.contains(&event.key) && event.revision > *after)
        .peekable();
    let mut told: Vec<&Event> = Vec::new();
    let mut reached = *after;
    for batch in batches {
        let unlike = |reason: String| BrokenStream::Bookmarkable {
            bookmark: batch.revision,
            reason,
        };
        for event in batch.events.iter() {
            if !prefix.contains(&event.key) {
                return Err(BrokenStream::Foreign(event.clone(), prefix.clone()));
            }
            if told.iter().any(|earlier| earlier.revision == event.revision) {
                return Err(BrokenStream::Unique(event.clone()));
            }
            if event.revision <= *after {
                return Err(BrokenStream::Resumable(event.clone(), *after));
            }
            if event.revision <= reached {
                return Err(unlike(format!("{event:?} came after a bookmark at {reached}")));
            }
            match owed.next_if(|owed| owed.revision <= event.revision) {
                Some(owed) if owed == event => {}
                Some(owed) if owed.revision < event.revision => {
                    return Err(if recording.tells(owed) {
                        BrokenStream::Ordered(owed.clone(), event.revision)
                    } else {
                        BrokenStream::Reliable(owed.clone())
                    });
                }
                other => return Err(BrokenStream::Atomic(event.clone(), other.cloned())),
            }
            told.push(event);
        }
        if batch.revision < reached {
            return Err(unlike(format!("it comes after one at {reached}")));
        }
        if let Some(last) = batch.events.last()
            && last.revision > batch.revision
        {
            return Err(unlike(format!("it comes with {last:?}")));
        }
        if let Some(missing) = owed.next_if(|owed| owed.revision <= batch.revision) {
            return Err(unlike(format!("{missing:?} has not come yet")));
        }
        reached = batch.revision;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k3_storage::Change;

    use super::*;
    use crate::acts::{key, prefix};

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

    /// The first word of the verdict on a watch of `/a/`; each batch is its events and its bookmark.
    fn verdict(after: u64, batches: &[(&[Event], u64)]) -> String {
        let recording = Recording {
            prefix: prefix("/a/"),
            after: Revision::new(after),
            batches: batches
                .iter()
                .map(|(events, revision)| Batch {
                    events: events.to_vec().into(),
                    revision: Revision::new(*revision),
                })
                .collect(),
        };
        match check_stream(&recording, &log()) {
            Ok(()) => "sound".to_owned(),
            Err(broken) => broken.to_string().split([':', ' ']).next().unwrap().to_owned(),
        }
    }

    #[test]
    fn sound_watches_pass() {
        let [one, _, two, three] = &log()[..] else {
            unreachable!("the log has four events")
        };
        let (one, two, three) = (one.clone(), two.clone(), three.clone());
        assert_eq!(verdict(1, &[]), "sound");
        assert_eq!(
            verdict(1, &[(&[one.clone(), two.clone()], 4), (&[three.clone()], 5)]),
            "sound"
        );
        assert_eq!(verdict(1, &[(&[one], 3), (&[], 3), (&[two.clone()], 4)]), "sound");
        assert_eq!(verdict(2, &[(&[], 3), (&[two, three.clone()], 9)]), "sound");
        assert_eq!(verdict(4, &[(&[three], 5)]), "sound");
    }

    #[test]
    fn each_broken_guarantee_is_caught() {
        let [one, other, two, three] = log().try_into().unwrap();
        let altered = Event {
            change: Change::Deleted,
            ..two.clone()
        };
        for (broken, after, batches) in [
            (
                "ordered",
                1,
                &[(&[one.clone(), three.clone(), two.clone()][..], 5)][..],
            ),
            ("reliable", 1, &[(&[two.clone()], 4)]),
            ("reliable", 1, &[(&[one.clone(), three.clone()], 5)]),
            ("reliable", 2, &[(&[], 3), (&[three.clone()], 5)]),
            ("unique", 1, &[(&[one.clone(), one.clone()], 2)]),
            (
                "unique",
                1,
                &[(&[one.clone()], 2), (&[one.clone(), two.clone()], 4)],
            ),
            ("atomic", 2, &[(&[altered], 4)]),
            ("atomic", 1, &[(&[one.clone(), event(3, "/a/9")], 3)]),
            ("atomic", 5, &[(&[event(6, "/a/9")], 6)]),
            ("resumable", 2, &[(&[one.clone(), two.clone()], 4)]),
            ("resumable", 4, &[(&[two.clone()], 4)]),
            ("bookmarkable", 1, &[(&[], 2)]),
            ("bookmarkable", 1, &[(&[], 2), (&[one.clone()], 2)]),
            ("bookmarkable", 1, &[(&[one.clone()], 4)]),
            ("bookmarkable", 1, &[(&[one.clone(), two.clone()], 3)]),
            ("bookmarkable", 1, &[(&[one.clone()], 3), (&[], 2)]),
        ] {
            assert_eq!(verdict(after, batches), broken, "{batches:?}");
        }
        let recording = Recording {
            prefix: prefix("/a/"),
            after: Revision::new(2),
            batches: vec![Batch {
                events: [other].into(),
                revision: Revision::new(3),
            }],
        };
        assert!(matches!(
            check_stream(&recording, &log()),
            Err(BrokenStream::Foreign(..))
        ));
    }
}
