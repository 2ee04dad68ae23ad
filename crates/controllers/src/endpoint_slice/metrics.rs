//! Metrics of the EndpointSlice controller, under upstream's names.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use kubecontroller::{
    Key,
    metrics::{MetricDesc, Metrics, exponential_buckets},
};
use parking_lot::Mutex;

use super::{
    controller::SyncErrors,
    reconcile::{MAX_ENDPOINTS_PER_SLICE, SlicePlan},
};
use crate::{
    objects::{Endpoint, EndpointSlice, Service},
    services::slice_writer::SliceChanges,
};

const SYNCS: MetricDesc = MetricDesc::counter(
    "endpoint_slice_controller_syncs",
    "Number of EndpointSlice syncs",
    &["result"],
);
const CHANGES: MetricDesc = MetricDesc::counter(
    "endpoint_slice_controller_changes",
    "Number of EndpointSlice changes",
    &["operation"],
);
const CHANGED: MetricDesc = MetricDesc::histogram(
    "endpoint_slice_controller_endpointslices_changed_per_sync",
    "Number of EndpointSlices changed on each Service sync",
    &["topology", "traffic_distribution"],
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
);
const ADDED: MetricDesc = MetricDesc::histogram(
    "endpoint_slice_controller_endpoints_added_per_sync",
    "Number of endpoints added on each Service sync",
    &[],
    &exponential_buckets::<15>(2.0, 2.0),
);
const REMOVED: MetricDesc = MetricDesc::histogram(
    "endpoint_slice_controller_endpoints_removed_per_sync",
    "Number of endpoints removed on each Service sync",
    &[],
    &exponential_buckets::<15>(2.0, 2.0),
);
const ENDPOINTS: MetricDesc = MetricDesc::gauge(
    "endpoint_slice_controller_endpoints_desired",
    "Number of endpoints desired",
    &[],
);
const SLICES: MetricDesc = MetricDesc::gauge(
    "endpoint_slice_controller_num_endpoint_slices",
    "Number of EndpointSlices",
    &[],
);
const BEST: MetricDesc = MetricDesc::gauge(
    "endpoint_slice_controller_desired_endpoint_slices",
    "Number of EndpointSlices that would exist with perfect endpoint allocation",
    &[],
);

/// Records metrics of slices.
pub(super) struct EndpointSliceMetrics {
    metrics: Metrics,
    all: Mutex<TotalSizes>,
}

/// Totals and per-Service values, so that an update does not iterate over all Services.
#[derive(Default)]
struct TotalSizes {
    services: HashMap<Key, SliceSizes>,
    sum: SliceSizes,
}

#[derive(Clone, Copy, Default)]
struct SliceSizes {
    endpoints: usize,
    slices: usize,
    /// Number of slices with perfect packing.
    best: usize,
}

// --- EndpointSliceMetrics ---

impl EndpointSliceMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        EndpointSliceMetrics {
            metrics: metrics.clone(),
            all: Mutex::default(),
        }
    }

    /// Records a sync of a Service.
    pub(super) fn record_sync(&self, service: &Service, plans: &[SlicePlan], errors: &SyncErrors) {
        let result = if errors.is_empty() { "success" } else { "error" };
        self.metrics.increment(&SYNCS, &[result], 1);
        let mut changed = 0;
        let mut added = 0;
        let mut removed = 0;
        for SlicePlan { changes, .. } in plans {
            for (operation, count) in [
                ("create", changes.create.len()),
                ("update", changes.update.len()),
                ("delete", changes.delete.len()),
            ] {
                if count > 0 {
                    self.metrics.increment(&CHANGES, &[operation], count as u64);
                }
                changed += count;
            }
            let (more, fewer) = difference(changes);
            added += more;
            removed += fewer;
        }
        let topology = if super::hints::is_automatic(service) {
            "Auto"
        } else {
            "Disabled"
        };
        let labels = [topology, &*service.spec.traffic_distribution];
        self.metrics.observe(&CHANGED, &labels, number(changed));
        self.metrics.observe(&ADDED, &[], number(added));
        self.metrics.observe(&REMOVED, &[], number(removed));
    }

    /// Records the slices of a Service.
    // upstream: staging/src/k8s.io/endpointslice/metrics/cache.go UpdateServicePortCache, updateMetrics
    pub(super) fn record_slices(&self, service: &Key, slices: &[Arc<EndpointSlice>]) {
        let mut by_ports: BTreeMap<_, usize> = BTreeMap::new();
        for slice in slices {
            *by_ports.entry((&slice.address_type, &slice.ports)).or_default() += slice.endpoints.len();
        }
        let best = |endpoints: &usize| endpoints.div_ceil(MAX_ENDPOINTS_PER_SLICE).max(1);
        let sizes = SliceSizes {
            endpoints: by_ports.values().sum(),
            slices: slices.len(),
            best: by_ports.values().map(best).sum(),
        };
        self.change(service, Some(sizes));
    }

    /// Removes a deleted Service.
    // upstream: staging/src/k8s.io/endpointslice/metrics/cache.go DeleteService
    pub(super) fn forget(&self, service: &Key) {
        self.change(service, None);
    }

    fn change(&self, service: &Key, sizes: Option<SliceSizes>) {
        let mut all = self.all.lock();
        let old = match sizes {
            Some(sizes) => all.services.insert(service.clone(), sizes),
            None => all.services.remove(service),
        };
        let old = old.unwrap_or_default();
        let new = sizes.unwrap_or_default();
        let sum = &mut all.sum;
        sum.endpoints = sum.endpoints + new.endpoints - old.endpoints;
        sum.slices = sum.slices + new.slices - old.slices;
        sum.best = sum.best + new.best - old.best;
        for (figure, now) in [(ENDPOINTS, sum.endpoints), (SLICES, sum.slices), (BEST, sum.best)] {
            self.metrics.set_gauge(&figure, &[], number(now));
        }
    }
}

/// Numbers of added and removed endpoints.
fn difference(changes: &SliceChanges) -> (usize, usize) {
    fn addresses<'e>(endpoints: impl IntoIterator<Item = &'e Endpoint>) -> impl Iterator<Item = &'e str> {
        endpoints
            .into_iter()
            .filter_map(|endpoint| endpoint.addresses.first().map(|address| &**address))
    }
    let updated = changes.update.iter();
    let before: HashSet<&str> = updated
        .clone()
        .map(|(slice, _)| slice)
        .chain(&changes.delete)
        .flat_map(|slice| addresses(&slice.endpoints))
        .collect();
    let after: HashSet<&str> = updated
        .map(|(_, desired_slice)| desired_slice)
        .chain(&changes.create)
        .flat_map(|desired_slice| addresses(&desired_slice.endpoints))
        .collect();
    (
        after.difference(&before).count(),
        before.difference(&after).count(),
    )
}

/// A count as a float, which is exact for these sizes.
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
