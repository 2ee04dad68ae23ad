//! Admission: what is changed in an object, or refused, beyond the rules of its kind. A plugin a file.
//!
//! Plugins run in the order of [`Admission::new`]: first each may change the object, then, when the rules of the kind have been
//! asked, each may refuse it. They read the cluster from the caches, so they never wait.

mod namespace_lifecycle;

use k3_api::{rules::User, status::Status, time::Time};
use serde_json::Value;

use crate::{cache::Caches, registry::Resource};

/// The plugins, in order.
pub(crate) struct Admission {
    plugins: Vec<Box<dyn Plugin>>,
}

/// What is being done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// What a plugin is asked about.
pub(crate) struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-wide objects.
    pub namespace: &'a str,
    /// The object as it would be stored; of a delete, the object that goes.
    pub object: &'a mut Value,
    /// The object as it is, if it is changed.
    pub old: Option<&'a Value>,
    pub user: &'a User,
    pub now: Time,
    pub dry_run: bool,
    /// What the client is told besides.
    pub warnings: &'a mut Vec<String>,
}

/// A plugin.
pub(crate) trait Plugin: Send + Sync {
    /// Changes the object, or refuses it.
    fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let _ = (attributes, caches);
        Ok(())
    }

    /// Refuses the object, or not.
    fn validate(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let _ = (attributes, caches);
        Ok(())
    }
}

// --- Admission ---

impl Admission {
    /// All plugins.
    pub(crate) fn new() -> Self {
        Admission {
            plugins: vec![Box::new(namespace_lifecycle::NamespaceLifecycle)],
        }
    }

    /// Lets each plugin change the object.
    pub(crate) fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        self.plugins
            .iter()
            .try_for_each(|plugin| plugin.admit(attributes, caches))
    }

    /// Lets each plugin refuse the object.
    pub(crate) fn validate(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        self.plugins
            .iter()
            .try_for_each(|plugin| plugin.validate(attributes, caches))
    }
}
