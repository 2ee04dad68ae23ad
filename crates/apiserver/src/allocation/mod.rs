//! Allocation of service cluster IPs and node ports.
//!
//! ```text
//! bands         the dynamic and static bands of a range, and the order in which numbers are tried
//! networks      the ServiceCIDRs that addresses are allocated from
//! record        allocation records in the store
//! request       allocation for one service
//! reservation   what is reserved until the service is stored
//! repair        reconciles records with services, at start and periodically
//! ```
//!
//! Promises: two services never get the same address or port, with any number of servers on a store, and even if one is killed at
//! any time. A record is created before the service is stored, which the store lets only one server do, and is deleted after the
//! service was stored without it or was deleted. The addresses of stored services are never allocated again, even if a record is
//! lost: repair creates it again before the server accepts requests, and within half a minute if a user deletes it later. A
//! record whose service was never stored is removed by a repair that has seen it for a minute.
//!
//! Allocations are read from the watch cache of the records; nothing else is kept in memory.

mod bands;
mod networks;
mod record;
mod repair;
mod request;
mod reservation;

use std::sync::Arc;

use k3_api::{
    kinds::service::{self, IpFamily, ServiceIpFamilies},
    name::Subnet,
    status::Status,
    time::Time,
};
use k3_task::Clock;
use serde_json::Value;

use self::{record::RecordOwner, request::AllocationRequest};
pub(crate) use self::{repair::RepairTask, reservation::Reservation};
use crate::{
    cache::WatchCaches,
    registry::{Resource, StoreWriter},
    request::CommitMode,
};

/// Gives addresses and ports to services.
pub(crate) struct ServiceAllocator {
    caches: Arc<WatchCaches>,
    writer: StoreWriter,
    clock: Clock,
    families: ServiceIpFamilies,
}

// --- ServiceAllocator ---

impl ServiceAllocator {
    /// Addresses are of the family of `range`.
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        writer: StoreWriter,
        clock: Clock,
        range: &Subnet,
    ) -> Arc<Self> {
        let primary = if range.network.is_ipv4() {
            IpFamily::V4
        } else {
            IpFamily::V6
        };
        Arc::new(ServiceAllocator {
            caches,
            writer,
            clock,
            families: ServiceIpFamilies { primary, dual: false },
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
        mode: CommitMode,
    ) -> Result<Reservation<'_>, Status> {
        if !is_service(resource) {
            return Ok(Reservation::default());
        }
        let mut old = old.cloned();
        match &mut old {
            None => service::default_on_create(object, self.families)?,
            Some(old) => {
                service::default_on_read(old, self.families);
                service::default_on_update(object, old, self.families)?;
            }
        }
        let mut request = AllocationRequest::new(self, RecordOwner::of(object), now, mode);
        match request.fill(object, old.as_ref()).await {
            Ok(()) => Ok(request.reservation),
            Err(status) => {
                request.reservation.give_back().await;
                Err(status)
            }
        }
    }

    /// Releases the addresses and ports of a deleted service.
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
