//! Finds the revision of a template, and the revisions beyond the history limit.

use std::sync::Arc;

use crate::objects::{ControllerRevision, Template};

/// The revisions of a set.
#[derive(Debug)]
pub(crate) struct RevisionList {
    /// All, oldest first.
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// Indexes of revisions with the current template, oldest first. There should be at most one.
    same: Vec<usize>,
}

/// What makes the revision of the current template the newest one.
#[derive(Clone, Debug)]
pub(crate) enum LatestRevision {
    /// Nothing to do.
    Current(Arc<ControllerRevision>),
    /// The set was rolled back: the existing revision gets a new number.
    Renumber(Arc<ControllerRevision>, i64),
    /// Create one with this number.
    Create(i64),
}

// --- History ---

impl RevisionList {
    /// The revisions of a set with a template. An unreadable revision counts as another template.
    // upstream: pkg/controller/history/controller_history.go SortControllerRevisions, FindEqualRevisions
    pub(crate) fn new(
        mut revisions: Vec<Arc<ControllerRevision>>,
        template: &Template,
    ) -> serde_json::Result<Self> {
        let meaning = template.canonical_tree()?;
        revisions.sort_by(|one, other| revision_order(one).cmp(&revision_order(other)));
        let is_same = |revision: &ControllerRevision| {
            let template = revision.template().and_then(|template| template.canonical_tree());
            template.is_ok_and(|template| template == meaning)
        };
        let same = (0..revisions.len())
            .filter(|at| is_same(&revisions[*at]))
            .collect();
        Ok(RevisionList { all: revisions, same })
    }

    /// What to do about the newest revision.
    // upstream: pkg/controller/daemon/update.go constructHistory
    pub(crate) fn latest(&self) -> LatestRevision {
        let number = self
            .other_revisions()
            .map(|other| other.revision)
            .max()
            .unwrap_or(0)
            .max(0)
            + 1;
        match self.same.last().map(|at| &self.all[*at]) {
            None => LatestRevision::Create(number),
            Some(same) if same.revision < number => LatestRevision::Renumber(Arc::clone(same), number),
            Some(same) => LatestRevision::Current(Arc::clone(same)),
        }
    }

    /// Revisions of other templates, oldest first.
    pub(crate) fn other_revisions(&self) -> impl Iterator<Item = &Arc<ControllerRevision>> {
        let all = self.all.iter().enumerate();
        all.filter(|(at, _)| !self.same.contains(at))
            .map(|(_, revision)| revision)
    }

    /// Duplicate revisions of the current template.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = &Arc<ControllerRevision>> {
        let before_last = self.same.len().saturating_sub(1);
        self.same[..before_last].iter().map(|at| &self.all[*at])
    }

    /// A revision by its name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<ControllerRevision>> {
        self.all.iter().find(|revision| &*revision.metadata.name == name)
    }
}

/// The oldest revisions beyond `limit`, without those in use (`live`). `revisions` are sorted.
pub(crate) fn beyond_limit<'r>(
    revisions: impl Iterator<Item = &'r Arc<ControllerRevision>>,
    count: usize,
    limit: Option<i32>,
    lives: impl Fn(&ControllerRevision) -> bool,
) -> Vec<Arc<ControllerRevision>> {
    // Without a limit, or with a negative one, all are kept.
    let kept = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX);
    let dead = revisions.filter(|revision| !lives(revision));
    dead.take(count.saturating_sub(kept)).cloned().collect()
}

/// Sort key of revisions.
// upstream: pkg/controller/history/controller_history.go byRevision
fn revision_order(revision: &ControllerRevision) -> impl Ord + '_ {
    let meta = &revision.metadata;
    (revision.revision, meta.creation_timestamp, &*meta.name)
}
