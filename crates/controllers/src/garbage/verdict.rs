//! What becomes of an object, when it is known what its owners are.

use super::dependent::{FOREGROUND, ORPHAN};

/// What an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there, and it stays, or goes without waiting.
    Solid,
    /// It is gone, or never was.
    Absent,
    /// It waits for its dependents to go.
    Waiting,
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Stays,
    /// It loses the owners at these positions, in ascending order, and stays, for it has another.
    LosesOwners(Vec<usize>),
    /// It is deleted and waits for its own dependents, because its owner waits for it. If one of them waits as well, nobody must
    /// wait for it any more: a ring of objects that wait for each other would stay for ever.
    GoesWaiting,
    /// It is deleted, in the way that its finalizers ask for.
    Goes(&'static str),
}

/// Decides. `has_dependents` tells whether the object is an owner itself.
pub(super) fn judge(owners: &[Owner], has_dependents: bool, finalizers: &[String]) -> Verdict {
    if owners.is_empty() {
        return Verdict::Stays;
    }
    if owners.contains(&Owner::Solid) {
        let others = owners
            .iter()
            .enumerate()
            .filter(|(_, owner)| **owner != Owner::Solid);
        let others: Vec<_> = others.map(|(position, _)| position).collect();
        return if others.is_empty() {
            Verdict::Stays
        } else {
            Verdict::LosesOwners(others)
        };
    }
    if owners.contains(&Owner::Waiting) && has_dependents {
        return Verdict::GoesWaiting;
    }
    let has = |finalizer: &str| finalizers.iter().any(|own| own == finalizer);
    if has(ORPHAN) {
        Verdict::Goes("Orphan")
    } else if has(FOREGROUND) {
        Verdict::Goes("Foreground")
    } else {
        Verdict::Goes("Background")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_when_no_owner_is_left() {
        use Owner::{Absent, Solid, Waiting};
        let cases: &[(&[Owner], bool, &[&str], Verdict)] = &[
            (&[], true, &[], Verdict::Stays),
            (&[Solid], false, &[], Verdict::Stays),
            (
                &[Solid, Absent, Waiting],
                false,
                &[],
                Verdict::LosesOwners(vec![1, 2]),
            ),
            (&[Absent], false, &[], Verdict::Goes("Background")),
            (&[Absent], true, &[], Verdict::Goes("Background")),
            (&[Absent], false, &["orphan"], Verdict::Goes("Orphan")),
            (
                &[Absent],
                false,
                &["foregroundDeletion"],
                Verdict::Goes("Foreground"),
            ),
            (&[Waiting], false, &[], Verdict::Goes("Background")),
            (&[Waiting, Absent], true, &[], Verdict::GoesWaiting),
        ];
        for (owners, has_dependents, finalizers, verdict) in cases {
            let finalizers: Vec<_> = finalizers.iter().map(ToString::to_string).collect();
            assert_eq!(
                judge(owners, *has_dependents, &finalizers),
                *verdict,
                "{owners:?}"
            );
        }
    }
}
