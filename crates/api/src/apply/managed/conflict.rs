//! What an apply cannot take without force.

use std::fmt;

use super::entry::{Identity, Operation};
use crate::{apply::Path, go};

/// A field that somebody else owns and that the apply would change.
#[derive(Clone, Debug)]
pub struct Conflict {
    pub(super) owner: Identity<'static>,
    /// The field.
    pub path: Path<'static>,
}

/// All conflicts of one apply, sorted by owner.
#[derive(Clone, Debug, Default)]
pub struct Conflicts(pub(super) Vec<Conflict>);

/// One conflict, as the `Status` of the answer carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// With whom.
    pub message: String,
    /// About what.
    pub field: String,
}

// --- Conflict ---

impl Conflict {
    /// The owner as messages name it: `"kubectl" using apps/v1`.
    pub fn owner(&self) -> String {
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
        out
    }
}

// --- Conflicts ---

impl Conflicts {
    /// The causes for `details.causes`; their reason is `FieldManagerConflict`.
    pub fn causes(&self) -> Vec<Cause> {
        let cause = |conflict: &Conflict| Cause {
            message: format!("conflict with {}", conflict.owner()),
            field: conflict.path.to_string(),
        };
        self.0.iter().map(cause).collect()
    }

    /// The single conflicts.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                only.owner(),
                only.path
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, group) in self
            .0
            .chunk_by(|left, right| left.owner == right.owner)
            .enumerate()
        {
            let line = if index > 0 { "\n" } else { "" };
            write!(f, "{line}conflicts with {}:", group[0].owner())?;
            group
                .iter()
                .try_for_each(|conflict| write!(f, "\n- {}", conflict.path))?;
        }
        Ok(())
    }
}
