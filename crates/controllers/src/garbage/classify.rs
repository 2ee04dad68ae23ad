//! Decides what happens to an object after its owners have been looked up.

use super::dependent::{FOREGROUND, ORPHAN};

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists, and is not in foreground deletion.
    Solid,
    /// It does not exist (upstream: dangling).
    AbsentOwnerCache,
    /// It is in foreground deletion and waits for its dependents.
    Waiting,
}

/// What happens to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeletionDecision {
    Keep,
    /// Owner references at these positions, in ascending order, are removed; the object has another owner.
    RemoveOwnerReferences(Vec<usize>),
    /// It is deleted in the foreground, because its owner waits for it. If one of its dependents is in foreground deletion too, its own
    /// blockOwnerDeletion is cleared: a cycle of objects that wait for each other would never be deleted.
    DeleteForeground,
    /// It is deleted, with the propagation policy of its finalizers.
    Delete(&'static str),
}

/// `dependents` is the number of objects that the object owns itself.
// upstream: pkg/controller/garbagecollector/garbagecollector.go attemptToDeleteItem, classifyReferences
pub(super) fn decide_deletion(
    owners: &[OwnerState],
    dependents: usize,
    finalizers: &[String],
) -> DeletionDecision {
    if owners.is_empty() {
        return DeletionDecision::Keep;
    }
    if owners.contains(&OwnerState::Solid) {
        let others = owners
            .iter()
            .enumerate()
            .filter(|(_, owner)| **owner != OwnerState::Solid);
        let others: Vec<_> = others.map(|(position, _)| position).collect();
        return if others.is_empty() {
            DeletionDecision::Keep
        } else {
            DeletionDecision::RemoveOwnerReferences(others)
        };
    }
    if owners.contains(&OwnerState::Waiting) && dependents > 0 {
        return DeletionDecision::DeleteForeground;
    }
    let has = |finalizer: &str| finalizers.iter().any(|own| own == finalizer);
    if has(ORPHAN) {
        DeletionDecision::Delete("Orphan")
    } else if has(FOREGROUND) {
        DeletionDecision::Delete("Foreground")
    } else {
        DeletionDecision::Delete("Background")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletes_an_object_without_owners() {
        use OwnerState::{AbsentOwnerCache, Solid, Waiting};
        let cases: &[(&[OwnerState], bool, &[&str], DeletionDecision)] = &[
            (&[], true, &[], DeletionDecision::Keep),
            (&[Solid], false, &[], DeletionDecision::Keep),
            (
                &[Solid, AbsentOwnerCache, Waiting],
                false,
                &[],
                DeletionDecision::RemoveOwnerReferences(vec![1, 2]),
            ),
            (
                &[AbsentOwnerCache],
                false,
                &[],
                DeletionDecision::Delete("Background"),
            ),
            (
                &[AbsentOwnerCache],
                true,
                &[],
                DeletionDecision::Delete("Background"),
            ),
            (
                &[AbsentOwnerCache],
                false,
                &["orphan"],
                DeletionDecision::Delete("Orphan"),
            ),
            (
                &[AbsentOwnerCache],
                false,
                &["foregroundDeletion"],
                DeletionDecision::Delete("Foreground"),
            ),
            (&[Waiting], false, &[], DeletionDecision::Delete("Background")),
            (
                &[Waiting, AbsentOwnerCache],
                true,
                &[],
                DeletionDecision::DeleteForeground,
            ),
        ];
        for (owners, has_dependents, finalizers, decision) in cases {
            let finalizers: Vec<_> = finalizers.iter().map(ToString::to_string).collect();
            assert_eq!(
                decide_deletion(owners, usize::from(*has_dependents), &finalizers),
                *decision,
                "{owners:?}"
            );
        }
    }
}
