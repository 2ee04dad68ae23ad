//! What is known of a resource, wherever it is served.

use serde::Serialize;

/// What works on a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ControllerType {
    /// Nothing.
    #[default]
    None,
    /// A reconciler.
    Generic,
    /// A phase machine.
    PhaseMachine,
}

/// What is known of a resource, for lists and lookups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetadata {
    /// Its plural: `ats`.
    pub resource: &'static str,
    /// The type of one: `At`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Group and version: `demo.example.com/v1`.
    pub group_version: &'static str,
    /// What it is for.
    #[serde(rename = "desc")]
    pub description: &'static str,
    /// What it belongs to.
    pub catalog: &'static str,
    /// Its short name, and what names of its objects begin with.
    pub prefix: &'static str,
    /// What works on it.
    pub controller_type: ControllerType,
    /// Whether it needs a whole cluster, and is left out in portable mode.
    pub no_portable: bool,
}

// --- ResourceMetadata ---

impl ResourceMetadata {
    /// A resource that a reconciler works on.
    pub const fn new(resource: &'static str, kind: &'static str, group_version: &'static str) -> Self {
        ResourceMetadata {
            resource,
            kind,
            group_version,
            description: "",
            catalog: "",
            prefix: "",
            controller_type: ControllerType::Generic,
            no_portable: false,
        }
    }

    /// With what it is for.
    #[must_use]
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// With what it belongs to.
    #[must_use]
    pub const fn catalog(mut self, catalog: &'static str) -> Self {
        self.catalog = catalog;
        self
    }

    /// With a short name.
    #[must_use]
    pub const fn prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// With what works on it.
    #[must_use]
    pub const fn controller_type(mut self, controller_type: ControllerType) -> Self {
        self.controller_type = controller_type;
        self
    }

    /// Left out in portable mode.
    #[must_use]
    pub const fn no_portable(mut self) -> Self {
        self.no_portable = true;
        self
    }

    /// Whether it is called that: by plural or by short name.
    pub fn is_called(&self, name: &str) -> bool {
        !name.is_empty() && (self.resource == name || self.prefix == name)
    }
}
