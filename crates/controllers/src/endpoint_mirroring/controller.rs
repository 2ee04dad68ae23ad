//! Reconciles Endpoints into mirrored EndpointSlices.

use kubecontroller::{
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Store,
};

use super::{
    MANAGER,
    mirror::{MAX_ADDRESSES_PER_SUBSET, MirroringPlan, annotations_for, labels_for, should_mirror},
};
use crate::{
    event_message::EventMessage,
    objects::{EndpointSlice, Endpoints, Service},
    resource::ENDPOINTS,
    services::slice_writer::{
        EndpointSliceWriteError, EndpointSliceWriter, SliceAnnotations, SliceChanges, SlicesByService,
    },
    status_throttle::StatusThrottle,
    writer::ApiWriter,
};

/// DNS-1123 subdomain limit.
const MAX_NAME_LENGTH: usize = 253;

// upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go Controller, syncEndpoints
pub(super) struct EndpointSliceMirroringController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) services: Store<Service>,
    pub(super) endpoints: Store<Endpoints>,
    pub(super) slices: Informer<EndpointSlice>,
    pub(super) by_service: SlicesByService,
    pub(super) status_throttle: StatusThrottle,
}

impl Reconciler for EndpointSliceMirroringController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        // By then the informer has delivered what was just written.
        if let Some(left) = self.status_throttle.left(key) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let slices = self.by_service.get(key, MANAGER);
        let endpoints = self
            .endpoints
            .get(key)
            .filter(|endpoints| should_mirror(endpoints));
        let is_chosen = |service: &Service| !service.spec.selector.is_empty();
        let is_meant = self.services.get(key).is_some_and(|service| !is_chosen(&service));
        let Some(endpoints) = endpoints.filter(|_| is_meant) else {
            // Slices of deleted Endpoints are identified by name alone.
            let deleted = Endpoints::default();
            let changes = SliceChanges {
                delete: slices,
                ..SliceChanges::default()
            };
            self.write(&self.slice_writer(&request, &deleted), &changes)
                .await?;
            return Ok(Outcome::Done);
        };
        let plan = MirroringPlan::new(&endpoints, &slices);
        self.record_skipped_addresses(&endpoints, &plan);
        self.write(&self.slice_writer(&request, &endpoints), &plan.changes)
            .await?;
        Ok(Outcome::Done)
    }
}

impl EndpointSliceMirroringController {
    // upstream: pkg/controller/endpointslicemirroring/reconciler.go finalize
    async fn write(
        &self,
        slice_writer: &EndpointSliceWriter<'_>,
        changes: &SliceChanges,
    ) -> Result<(), EndpointSliceWriteError> {
        if !changes.is_empty() {
            self.status_throttle.wrote(&slice_writer.request.key);
        }
        slice_writer.write(changes).await
    }

    // upstream: pkg/controller/endpointslicemirroring/utils.go newEndpointSlice, getEndpointSlicePrefix
    fn slice_writer<'a>(&'a self, request: &'a Request, endpoints: &Endpoints) -> EndpointSliceWriter<'a> {
        let namespace = request.key.namespace();
        let name = request.key.name();
        let dash = if name.len() < MAX_NAME_LENGTH { "-" } else { "" };
        EndpointSliceWriter {
            writer: &self.writer,
            slices: &self.slices,
            request,
            whose: format!("Endpoints {namespace}/{name}"),
            owner: ENDPOINTS.controller_reference(&endpoints.metadata),
            prefix: format!("{name}{dash}"),
            labels: labels_for(endpoints),
            notes: SliceAnnotations::All(annotations_for(endpoints)),
        }
    }

    /// Records events for addresses that are not mirrored.
    // upstream: pkg/controller/endpointslicemirroring/reconciler.go reconcile; events InvalidIPAddresses and TooManyAddressesToMirror
    fn record_skipped_addresses(&self, endpoints: &Endpoints, plan: &MirroringPlan) {
        let MirroringPlan { invalid, skipped, .. } = plan;
        let about = ENDPOINTS.object_reference(&endpoints.metadata);
        if *invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            EventMessage::warning("InvalidIPAddress", message).record(&self.recorder, &about);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {MAX_ADDRESSES_PER_SUBSET} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            EventMessage::warning("TooManyAddressesToMirror", message).record(&self.recorder, &about);
        }
    }
}
