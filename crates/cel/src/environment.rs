//! What an expression may speak of.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go MustBaseEnvSet
// upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/environment.go EnvSet, Extend

use std::{collections::BTreeMap, sync::Arc};

use crate::{decl::DeclType, syntax::Macros};

/// The variables of an expression; the functions are Kubernetes'.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<Arc<str>, DeclType>,
    macros: Macros,
    patch_types: PatchTypes,
}

/// Whether the messages that change objects are declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PatchTypes {
    #[default]
    Undeclared,
    Declared,
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
        self.patch_types = PatchTypes::Declared;
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

    pub(crate) fn patch_types(&self) -> PatchTypes {
        self.patch_types
    }
}
