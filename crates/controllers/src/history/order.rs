//! Which revision is the one of a template, and which are too many.

use std::sync::Arc;

use crate::objects::{ControllerRevision, Template};

/// The revisions of a set.
#[derive(Debug)]
pub(crate) struct History {
    /// All of them, the oldest first.
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// Where those of the template of now are, the oldest first. More than one should not be.
    same: Vec<usize>,
}

/// What is to be done so that the revision of the template of now is the newest.
#[derive(Clone, Debug)]
pub(crate) enum Newest {
    /// Nothing: this is it.
    Is(Arc<ControllerRevision>),
    /// The set was taken back to an earlier template: its revision gets a new number.
    Renumber(Arc<ControllerRevision>, i64),
    /// It is to be made, with this number.
    Make(i64),
}

// --- History ---

impl History {
    /// The revisions of a set that has a template now. A revision that cannot be read is the one of another template.
    pub(crate) fn new(
        mut revisions: Vec<Arc<ControllerRevision>>,
        template: &Template,
    ) -> serde_json::Result<Self> {
        let meaning = template.meaning()?;
        revisions.sort_by(|one, other| rank(one).cmp(&rank(other)));
        let is_same = |revision: &ControllerRevision| {
            let template = revision.template().and_then(|template| template.meaning());
            template.is_ok_and(|template| template == meaning)
        };
        let same = (0..revisions.len())
            .filter(|at| is_same(&revisions[*at]))
            .collect();
        Ok(History { all: revisions, same })
    }

    /// What is to be done about the newest revision.
    pub(crate) fn newest(&self) -> Newest {
        let number = self
            .others()
            .map(|other| other.revision)
            .max()
            .unwrap_or(0)
            .max(0)
            + 1;
        match self.same.last().map(|at| &self.all[*at]) {
            None => Newest::Make(number),
            Some(same) if same.revision < number => Newest::Renumber(Arc::clone(same), number),
            Some(same) => Newest::Is(Arc::clone(same)),
        }
    }

    /// The revisions of other templates, the oldest first.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Arc<ControllerRevision>> {
        let all = self.all.iter().enumerate();
        all.filter(|(at, _)| !self.same.contains(at))
            .map(|(_, revision)| revision)
    }

    /// Further revisions of the template of now.
    pub(crate) fn doubles(&self) -> impl Iterator<Item = &Arc<ControllerRevision>> {
        let before_last = self.same.len().saturating_sub(1);
        self.same[..before_last].iter().map(|at| &self.all[*at])
    }

    /// A revision by its name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<ControllerRevision>> {
        self.all.iter().find(|revision| &*revision.metadata.name == name)
    }
}

/// The oldest of some revisions, which are in order, as many as there are more than `limit`. None of those that `live`.
pub(crate) fn spare<'r>(
    revisions: impl Iterator<Item = &'r Arc<ControllerRevision>>,
    count: usize,
    limit: Option<i32>,
    lives: impl Fn(&ControllerRevision) -> bool,
) -> Vec<Arc<ControllerRevision>> {
    // Without a limit, or with one that says nothing, all are kept.
    let kept = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX);
    let dead = revisions.filter(|revision| !lives(revision));
    dead.take(count.saturating_sub(kept)).cloned().collect()
}

/// What revisions are sorted by.
fn rank(revision: &ControllerRevision) -> impl Ord + '_ {
    let meta = &revision.metadata;
    (revision.revision, meta.creation_timestamp, &*meta.name)
}
