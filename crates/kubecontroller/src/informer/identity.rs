//! What makes two informers the same one.

use std::{any::TypeId, fmt};

use super::scope::InformerScope;

/// The objects, and what is kept of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// The path of the list.
    pub(super) path: String,
    pub(super) scope: InformerScope,
    pub(super) wire: Wire,
    /// The type that is stored.
    pub(super) stored: TypeId,
}

/// What comes over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wire {
    Objects,
    Metadata,
}

// --- Wire ---

impl Wire {
    pub(super) fn accept_list(self) -> &'static str {
        match self {
            Wire::Objects => "application/json",
            Wire::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }

    pub(super) fn accept_watch(self) -> &'static str {
        match self {
            Wire::Objects => "application/json",
            Wire::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        }
    }
}

// --- Identity ---

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        let selectors = [("labels", &self.scope.labels), ("fields", &self.scope.fields)];
        for (name, selector) in selectors {
            if let Some(selector) = selector {
                write!(f, " {name} {selector}")?;
            }
        }
        Ok(())
    }
}
