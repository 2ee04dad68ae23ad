//! Metadata of resources.

use serde::Serialize;

/// The type of the controller of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ControllerType {
    /// No controller.
    #[default]
    None,
    /// A reconciler.
    Generic,
    /// A [state machine](crate::phase).
    PhaseMachine,
}

/// Metadata of a resource, for lists and lookups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetadata {
    /// The plural name, e.g. `ats`.
    pub resource: &'static str,
    /// The kind, e.g. `At`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The API group and version, e.g. `demo.example.com/v1`.
    pub group_version: &'static str,
    /// A short description.
    #[serde(rename = "desc")]
    pub description: &'static str,
    /// The catalog that the resource is listed in.
    pub catalog: &'static str,
    /// The short name of the resource, which is also the prefix of names of its objects.
    pub prefix: &'static str,
    /// The type of its controller.
    pub controller_type: ControllerType,
    /// Whether the controller needs a complete cluster and is disabled in portable mode.
    pub no_portable: bool,
}

// --- ResourceMetadata ---

impl ResourceMetadata {
    /// Creates the metadata of a resource with a generic reconciler.
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

    /// Sets the description.
    #[must_use]
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Sets the catalog.
    #[must_use]
    pub const fn catalog(mut self, catalog: &'static str) -> Self {
        self.catalog = catalog;
        self
    }

    /// Sets the short name.
    #[must_use]
    pub const fn prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets the type of the controller.
    #[must_use]
    pub const fn controller_type(mut self, controller_type: ControllerType) -> Self {
        self.controller_type = controller_type;
        self
    }

    /// Disables the controller in portable mode.
    #[must_use]
    pub const fn no_portable(mut self) -> Self {
        self.no_portable = true;
        self
    }

    /// Whether `name` is the plural or the short name.
    pub fn is_called(&self, name: &str) -> bool {
        !name.is_empty() && (self.resource == name || self.prefix == name)
    }
}
