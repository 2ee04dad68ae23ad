//! What an expression may speak of.

use std::{collections::BTreeMap, sync::Arc};

use crate::{decl::DeclType, syntax::Macros};

/// The variables of an expression; the functions are Kubernetes'.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<Arc<str>, DeclType>,
    macros: Macros,
    patch_types: bool,
}

impl Environment {
    /// Without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a variable; one of the same name is replaced. A name may have dots.
    #[must_use]
    pub fn variable(mut self, name: &str, decl: impl Into<DeclType>) -> Self {
        self.variables.insert(name.into(), decl.into());
        self
    }

    /// With the messages that change objects, `Object{..}` and `JSONPatch{..}`, and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patch_types(mut self) -> Self {
        self.patch_types = true;
        self
    }

    /// With `cel.bind`.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.macros.bind = true;
        self
    }

    pub(crate) fn find(&self, name: &str) -> Option<&DeclType> {
        self.variables.get(name)
    }

    pub(crate) fn macros(&self) -> Macros {
        self.macros
    }

    pub(crate) fn patch_types(&self) -> bool {
        self.patch_types
    }
}
