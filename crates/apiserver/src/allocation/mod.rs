//! What services are given: addresses and ports that no other service has.
//!
//! ```text
//! bands         which numbers are tried, and in which order
//! networks      where addresses come from
//! record        who has what: records in the store
//! request       what one service asks for, and how it gets it
//! reservation   what is set aside until the service is stored
//! repair        records and services are made to agree, at start and from then on
//! ```
//!
//! Promises: two services never get the same address or port, however many servers share a store, and whenever one of them is
//! killed. For that a record is made before the service is stored, which the store lets only one make, and it is removed after
//! the service that had it is stored without it, or is gone. What a stored service has is not given away at a start, even if
//! its record is lost: a repair makes it again before the server takes requests, and within half a minute if a user deletes it
//! later. A record whose service was never stored is removed by a repair that has seen it for a minute.
//!
//! What is taken is read from the caches of the records, which the feed keeps true: nothing else is kept in memory.

mod bands;
mod networks;
mod record;
mod repair;
mod request;
mod reservation;

use std::sync::Arc;

use k3_api::{
    kinds::service::{self, Family, Ranges},
    name::Subnet,
    status::Status,
    time::Time,
};
use k3_storage::Clock;
use serde_json::Value;

use self::{record::RecordOwner, request::AllocationRequest};
pub(crate) use self::{repair::RepairTask, reservation::Reservation};
use crate::{cache::WatchCaches, registry::Resource};

/// Gives addresses and ports to services.
pub(crate) struct ServiceAllocator {
    caches: Arc<WatchCaches>,
    clock: Arc<dyn Clock>,
    families: Ranges,
}

// --- ServiceAllocator ---

impl ServiceAllocator {
    /// Addresses are of the family of `range`.
    pub(crate) fn new(caches: Arc<WatchCaches>, clock: Arc<dyn Clock>, range: &Subnet) -> Arc<Self> {
        let primary = if range.network.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        };
        Arc::new(ServiceAllocator {
            caches,
            clock,
            families: Ranges { primary, dual: false },
        })
    }

    /// Settles a new or changed object, sets aside what it asks for, and writes that into it. Of a dry run nothing is set
    /// aside: the object shows what it could look like.
    pub(crate) async fn reserve(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        resource: &Resource,
        now: Time,
        dry_run: bool,
    ) -> Result<Reservation<'_>, Status> {
        if !is_service(resource) {
            return Ok(Reservation::default());
        }
        let mut old = old.cloned();
        match &mut old {
            None => service::settle_new(object, self.families)?,
            Some(old) => {
                service::complete(old, self.families);
                service::settle_change(object, old, self.families)?;
            }
        }
        let mut request = AllocationRequest::new(self, RecordOwner::of(object), now, dry_run);
        match request.fill(object, old.as_ref()).await {
            Ok(()) => Ok(request.reservation),
            Err(status) => {
                request.reservation.give_back().await;
                Err(status)
            }
        }
    }

    /// Gives back what an object that is gone was given.
    pub(crate) async fn release(&self, object: &Value, resource: &Resource) {
        if is_service(resource) {
            self.free(&record::held_by(object), &RecordOwner::of(object))
                .await;
        }
    }
}

fn is_service(resource: &Resource) -> bool {
    resource.kind.group.is_empty() && resource.kind.kind == "Service"
}

#[cfg(test)]
mod tests;
