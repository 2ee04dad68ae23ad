//! Allocates the cluster IPs and node ports of one Service.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use k3_api::{
    kinds::service::{
        self, ClusterIpRequest, IpAllocationError, NodePortAllocationError, NodePortRequest,
        health_check_node_port_status, ip_allocation_status, node_port_allocation_status, set_cluster_ip,
        set_health_check_node_port, set_node_port,
    },
    name::parse_ip_sloppy,
    status::Status,
    time::Time,
};
use k3_storage::{CommitError, Write};
use serde_json::Value;

use super::{
    Reservation, ServiceAllocator,
    bands::{Bands, PORTS, address_of, number_of},
    networks::networks,
    record::{AllocatedItem, AllocationRecords, RecordOwner, items},
};
use crate::{
    registry::{not_committed, random_bytes, unavailable},
    request::CommitMode,
};

/// Dry runs show ports from here on, which are outside the node port range.
const FIRST_DRY_PORT: i64 = 32769;

/// The request of one service.
pub(super) struct AllocationRequest<'a> {
    from: &'a ServiceAllocator,
    records: AllocationRecords,
    now: Time,
    mode: CommitMode,
    /// Ports that this dry run has shown.
    dry_ports: BTreeSet<i64>,
    /// What it got so far.
    pub reservation: Reservation<'a>,
}

/// Why something is not given.
enum AllocationError<F> {
    /// It is not to be had.
    Invalid(F),
    /// The store failed.
    Failed(Status),
}

// --- AllocationRequest ---

impl<'a> AllocationRequest<'a> {
    pub(super) fn new(from: &'a ServiceAllocator, owner: RecordOwner, now: Time, mode: CommitMode) -> Self {
        AllocationRequest {
            from,
            records: AllocationRecords::of(&from.caches),
            now,
            mode,
            dry_ports: BTreeSet::new(),
            reservation: Reservation {
                from: Some(from),
                owner: Some(owner),
                ..Reservation::default()
            },
        }
    }

    /// Allocates what a defaulted Service requests (cluster IPs, node ports, health check node port) and writes it into the object.
    // upstream: pkg/registry/core/service/storage/alloc.go allocateCreate, allocateUpdate
    pub(super) async fn fill(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let addresses = service::cluster_ip_changes(Some(service), old);
        let mut got = Vec::new();
        for address in &addresses.take {
            match self.address(address).await {
                Ok(text) => got.push((address.index, text)),
                Err(AllocationError::Invalid(error)) => {
                    return Err(ip_allocation_status(service, address, &error));
                }
                Err(AllocationError::Failed(status)) => return Err(status),
            }
        }
        for (index, text) in got {
            set_cluster_ip(service, index, &text);
        }
        let ports = service::node_port_changes(Some(service), old)?;
        let mut numbers = HashMap::new();
        // More than there are would take all of them first, one by one.
        let mut asked = ports
            .take
            .iter()
            .filter(|(_, want)| !matches!(want, NodePortRequest::SameAs(_)));
        if let Some((index, want)) = asked.nth(PORTS.len())
            && self.mode == CommitMode::Commit
        {
            return Err(node_port_allocation_status(
                service,
                *index,
                *want,
                &NodePortAllocationError::Full,
            ));
        }
        for (index, want) in ports.take {
            let number = match want {
                NodePortRequest::SameAs(other) => *numbers.get(&other).ok_or_else(|| {
                    Status::internal_error("a node port refers to one that is not allocated")
                })?,
                want => self.port(want).await.map_err(|error| match error {
                    AllocationError::Invalid(error) => {
                        node_port_allocation_status(service, index, want, &error)
                    }
                    AllocationError::Failed(status) => status,
                })?,
            };
            numbers.insert(index, number);
            set_node_port(service, index, number);
        }
        if let Some(want) = ports.health {
            let number = self.port(want).await.map_err(|error| match error {
                AllocationError::Invalid(error) => health_check_node_port_status(want, &error),
                AllocationError::Failed(status) => status,
            })?;
            set_health_check_node_port(service, number);
        }
        if self.mode == CommitMode::Commit {
            self.reservation.given_up = items(&addresses.release, &ports.release);
        }
        Ok(())
    }

    // upstream: pkg/registry/core/service/storage/alloc.go allocClusterIPs, allocIPs
    async fn address(
        &mut self,
        address: &ClusterIpRequest,
    ) -> Result<String, AllocationError<IpAllocationError>> {
        let networks = networks(address.family, &self.from.caches);
        if let Some(text) = &address.requested {
            // It was parsed when the service was defaulted.
            let wanted = parse_ip_sloppy(text).ok_or(IpAllocationError::NoSuchNetwork)?;
            let number = number_of(wanted);
            let fits = |network: &super::networks::ServiceNetwork| {
                network.subnet.contains(wanted) && network.bands.contains(number)
            };
            if self.mode == CommitMode::DryRun {
                // A dry run asks the first network alone.
                return match networks.first() {
                    Some(network) if !fits(network) => Err(IpAllocationError::OutOfRange {
                        address: wanted.to_string(),
                        range: network.subnet.network_text(),
                    }
                    .into()),
                    _ => Ok(text.clone()),
                };
            }
            if !networks.iter().any(fits) {
                return Err(IpAllocationError::NoSuchNetwork.into());
            }
            return match self.take(AllocatedItem::Address(wanted)).await {
                Ok(true) => Ok(text.clone()),
                Ok(false) => Err(IpAllocationError::Taken.into()),
                Err(status) => Err(AllocationError::Failed(status)),
            };
        }
        if self.mode == CommitMode::DryRun {
            let network = networks.first().ok_or(IpAllocationError::Full)?;
            return Ok(network.subnet.network.to_string());
        }
        let choices: Vec<(IpAddr, Bands)> = networks
            .iter()
            .map(|network| (network.subnet.network, network.bands))
            .collect();
        let chosen = self
            .choose(&choices, |number, network| {
                AllocatedItem::Address(address_of(number, *network))
            })
            .await;
        match chosen {
            Ok(Some((number, network))) => Ok(address_of(number, network).to_string()),
            Ok(None) => Err(IpAllocationError::Full.into()),
            Err(status) => Err(AllocationError::Failed(status)),
        }
    }

    // upstream: pkg/registry/core/service/storage/alloc.go initNodePorts, updateNodePorts
    async fn port(&mut self, want: NodePortRequest) -> Result<i64, AllocationError<NodePortAllocationError>> {
        if self.mode == CommitMode::DryRun {
            return self.dry_port(want).map_err(AllocationError::Invalid);
        }
        let NodePortRequest::Number(number) = want else {
            let chosen = self
                .choose(&[((), Bands::of_ports())], |number, ()| {
                    AllocatedItem::Port(u16::try_from(number).expect("node ports have 16 bits"))
                })
                .await;
            return match chosen {
                Ok(Some((number, ()))) => Ok(i64::try_from(number).expect("node ports have 16 bits")),
                Ok(None) => Err(NodePortAllocationError::Full.into()),
                Err(status) => Err(AllocationError::Failed(status)),
            };
        };
        let port = u16::try_from(number).ok().filter(|port| PORTS.contains(port));
        let port = port.ok_or_else(|| NodePortAllocationError::OutOfRange {
            range: format!("{}-{}", PORTS.start(), PORTS.end()),
        })?;
        match self.take(AllocatedItem::Port(port)).await {
            Ok(true) => Ok(number),
            Ok(false) => Err(NodePortAllocationError::Taken.into()),
            Err(status) => Err(AllocationError::Failed(status)),
        }
    }

    fn dry_port(&mut self, want: NodePortRequest) -> Result<i64, NodePortAllocationError> {
        let number = match want {
            NodePortRequest::Number(number) => {
                let port = u16::try_from(number).ok();
                let is_taken =
                    port.is_some_and(|port| self.records.find(AllocatedItem::Port(port)).is_some());
                if is_taken || self.dry_ports.contains(&number) {
                    return Err(NodePortAllocationError::Taken);
                }
                number
            }
            NodePortRequest::Any | NodePortRequest::SameAs(_) => {
                self.dry_ports.last().map_or(FIRST_DRY_PORT, |number| number + 1)
            }
        };
        self.dry_ports.insert(number);
        Ok(number)
    }

    /// Takes any one that is free, of rows that are tried in order. `None`: none is.
    async fn choose<N: Copy>(
        &mut self,
        rows: &[(N, Bands)],
        item: impl Fn(u128, &N) -> AllocatedItem,
    ) -> Result<Option<(u128, N)>, Status> {
        // The cache may not know yet what others freed: before all is said to be taken, it is made to.
        for is_fresh in [false, true] {
            if is_fresh {
                let fresh = self.from.caches.read_index().await;
                fresh.map_err(|error| unavailable(&error))?;
            }
            for (row, bands) in rows {
                for number in bands.candidates(u128::from_ne_bytes(random_bytes())) {
                    let item = item(number, row);
                    if self.records.find(item).is_none() && self.take(item).await? {
                        return Ok(Some((number, *row)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Creates the record of an item. `false`: it is already allocated.
    async fn take(&mut self, item: AllocatedItem) -> Result<bool, Status> {
        let owner = self.reservation.owner.as_ref();
        let owner = owner.expect("the request of a service has an owner");
        let key = self.records.key(item);
        let write = Write::create(key.clone(), self.records.write(item, owner, self.now));
        match self.from.writer.commit(write).await {
            Ok(revision) => {
                // Another server may count on it by now.
                if !owner.is_of_servers() {
                    self.reservation.taken.push((key, revision));
                }
                Ok(true)
            }
            Err(CommitError::Conflict(Some(there))) if owner.is_of_servers() => {
                let record = crate::cache::CachedObject::new(there.key, there.value, there.revision);
                Ok(RecordOwner::in_record(&record) == *owner)
            }
            Err(CommitError::Conflict(_)) => Ok(false),
            Err(error) => Err(not_committed(error)),
        }
    }
}

// --- AllocationError ---

impl From<IpAllocationError> for AllocationError<IpAllocationError> {
    fn from(error: IpAllocationError) -> Self {
        AllocationError::Invalid(error)
    }
}

impl From<NodePortAllocationError> for AllocationError<NodePortAllocationError> {
    fn from(error: NodePortAllocationError) -> Self {
        AllocationError::Invalid(error)
    }
}
