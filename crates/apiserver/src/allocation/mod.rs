//! What services are given: addresses and ports that no other service has.

use k3_api::status::Status;
use serde_json::Value;

use crate::{cache::Caches, registry::Resource};

/// What is set aside for an object that is about to be stored. Given back when it is dropped, unless it was kept.
#[derive(Debug, Default)]
#[must_use = "what was reserved is given back at once otherwise"]
pub(crate) struct Reservation(());

/// Sets aside what a new or changed object asks for, and writes it into the object.
pub(crate) fn reserve(
    _object: &mut Value,
    _old: Option<&Value>,
    _resource: &Resource,
    _caches: &Caches,
    _dry_run: bool,
) -> Result<Reservation, Status> {
    Ok(Reservation::default())
}

/// Gives back what an object that is gone was given.
pub(crate) fn release(_object: &Value, _resource: &Resource) {}

// --- Reservation ---

impl Reservation {
    /// The object was stored: what it was given is its own.
    pub(crate) fn keep(self) {}
}
