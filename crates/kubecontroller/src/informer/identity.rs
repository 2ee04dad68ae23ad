//! The identity by which informers are shared.

use std::{any::TypeId, fmt};

use super::scope::InformerScope;

/// Two requests with the same identity get the same informer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct InformerIdentity {
    /// The URL path of the list.
    pub(super) path: String,
    pub(super) scope: InformerScope,
    pub(super) wire_format: WireFormat,
    pub(super) stored_type: TypeId,
}

/// What the server is asked to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WireFormat {
    Objects,
    /// `PartialObjectMetadata`.
    Metadata,
}

// --- WireFormat ---

impl WireFormat {
    pub(super) fn accept_list(self) -> &'static str {
        match self {
            WireFormat::Objects => "application/json",
            WireFormat::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }

    pub(super) fn accept_watch(self) -> &'static str {
        match self {
            WireFormat::Objects => "application/json",
            WireFormat::Metadata => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

// --- InformerIdentity ---

impl fmt::Display for InformerIdentity {
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
