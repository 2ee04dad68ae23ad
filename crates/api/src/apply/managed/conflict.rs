//! Conflicts of server-side apply: fields owned by other field managers, which only `force` overrides.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go NewConflictError, getConflictMessage, printManager
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/merge/conflict.go Conflicts, ConflictsFromManagers

use std::fmt;

use super::entry::{Identity, Operation};
use crate::{
    apply::{FieldSet, Path},
    go,
    limits::{self, MAX_COLLECTED_BYTES, MAX_PATH_BYTES},
};

/// All conflicts of one apply, sorted by owner.
#[derive(Clone, Debug, Default)]
pub struct Conflicts(pub(super) Vec<OwnerConflicts>);

/// The fields that one other manager owns and that the apply would change.
#[derive(Clone, Debug)]
pub(super) struct OwnerConflicts {
    pub(super) owner: Identity<'static>,
    pub(super) fields: FieldSet<'static>,
}

/// One conflict, as the `Status` of the answer carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictCause {
    /// With whom.
    pub message: String,
    /// About what.
    pub field: String,
}

// --- OwnerConflicts ---

impl OwnerConflicts {
    /// The owner as messages name it: `"kubectl" using apps/v1`.
    fn owner(&self) -> String {
        let mut out = String::new();
        go::push_quote(&mut out, &self.owner.manager);
        if !self.owner.subresource.is_empty() {
            out.push_str(" with subresource ");
            go::push_quote(&mut out, &self.owner.subresource);
        }
        if self.owner.operation == Operation::Update {
            out.push_str(" using ");
            out.push_str(self.owner.api_version.as_deref().unwrap_or_default());
        }
        limits::cut_owned(out, MAX_PATH_BYTES)
    }
}

// --- Conflicts ---

impl Conflicts {
    /// The causes for `details.causes`; their reason is `FieldManagerConflict`. Those beyond [`MAX_COLLECTED_BYTES`] bytes
    /// are left out.
    pub fn causes(&self) -> Vec<ConflictCause> {
        let mut causes = Vec::new();
        self.visit(|owner, field| {
            causes.push(ConflictCause {
                message: format!("conflict with {owner}"),
                field: field.to_owned(),
            });
        });
        causes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|conflicts| conflicts.fields.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out the conflicts over these fields.
    pub(super) fn remove(&mut self, fields: &FieldSet<'_>) {
        self.0.retain_mut(|conflicts| {
            conflicts.fields.remove(fields);
            !conflicts.fields.is_empty()
        });
    }

    /// Shows owner and field of each conflict, until they take too many bytes; how many were shown.
    fn visit(&self, mut see: impl FnMut(&str, &str)) -> usize {
        let mut bytes = 0;
        let mut shown = 0;
        for conflicts in &self.0 {
            let owner = conflicts.owner();
            let all = conflicts.fields.visit_paths(&mut |path| {
                let field = limits::display(&Path(path.to_vec()), MAX_PATH_BYTES);
                bytes += owner.len() + field.len();
                see(&owner, &field);
                shown += 1;
                bytes < MAX_COLLECTED_BYTES
            });
            if !all {
                break;
            }
        }
        shown
    }
}

impl fmt::Display for Conflicts {
    // `update.rs` decides whether there are conflicts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.len();
        let mut text = String::new();
        let mut last = String::new();
        let shown = self.visit(|owner, field| {
            if count == 1 {
                text = format!("conflict with {owner}: {field}");
                return;
            }
            if last != owner {
                let line = if last.is_empty() { "" } else { "\n" };
                text.extend([line, "conflicts with ", owner, ":"]);
                owner.clone_into(&mut last);
            }
            text.push_str("\n- ");
            text.push_str(field);
        });
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "Apply failed with {count} conflict{plural}: {text}")?;
        if shown < count {
            write!(f, "\nand {} more", count - shown)?;
        }
        Ok(())
    }
}
