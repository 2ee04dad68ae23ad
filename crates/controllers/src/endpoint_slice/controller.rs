//! Reconciles the EndpointSlices of Services.

use std::{collections::HashSet, time::Duration};

use k3_workloads::{Node, ObjectMeta};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    object::Object,
    store::Store,
    writer::ApiWriter,
};
use parking_lot::{Mutex, MutexGuard};

use super::{
    MANAGER,
    hints::is_automatic,
    metrics::EndpointSliceMetrics,
    reconcile::{ObservedService, SlicePlan, labels},
    topology::ZoneCpu,
};
use crate::{
    event_message::EventMessage,
    objects::{EndpointSlice, Service},
    resource::SERVICES,
    services::{
        service_pods::ServicePods,
        slice_writer::{EndpointSliceWriter, SliceAnnotations, SlicesByService},
        trigger_time::TriggerTimeTracker,
    },
    status_throttle::StatusThrottle,
};

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

/// Requeue delay for pods whose node is not in the cache.
const UNKNOWN_NODE_DELAY: Duration = Duration::from_secs(1);

// upstream: pkg/controller/endpointslice/endpointslice_controller.go Controller, syncService
pub(super) struct EndpointSliceController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) services: Store<Service>,
    pub(super) nodes: Store<Node>,
    pub(super) slices: Informer<EndpointSlice>,
    pub(super) by_service: SlicesByService,
    pub(super) service_pods: ServicePods,
    pub(super) trigger_times: TriggerTimeTracker,
    pub(super) status_throttle: StatusThrottle,
    pub(super) metrics: EndpointSliceMetrics,
    /// Services with topology aware hints.
    pub(super) hinted: Mutex<HashSet<Key>>,
}

/// What failed for a Service.
#[derive(Debug, Default, thiserror::Error)]
#[error("{}", join_messages(.messages))]
pub(super) struct SyncErrors {
    messages: Vec<String>,
    #[source]
    source: Option<kube::Error>,
}

impl Reconciler for EndpointSliceController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(service) = self.services.get(key) else {
            // The garbage collector deletes its slices.
            self.trigger_times.forget(key);
            self.status_throttle.forget(key);
            self.metrics.forget(key);
            self.hinted().remove(key);
            return Ok(Outcome::Done);
        };
        if !service.selects_pods() {
            return Ok(Outcome::Done);
        }
        if let Some(left) = self.status_throttle.left(key) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let pods = self.service_pods.pods(&service);
        let slices = self.by_service.get(key, MANAGER);
        let trigger = self.trigger_times.compute_trigger_time(key, &service, &pods);
        let zones = is_automatic(&service)
            .then(|| ZoneCpu::of(&self.nodes.all()))
            .flatten();
        let observed = ObservedService {
            service: &service,
            pods: &pods,
            slices: &slices,
            zones: zones.as_ref(),
        };
        let (plans, foreign) = observed.plans(|node| self.nodes.get(&Key::new("", node)));
        let ObjectMeta { namespace, name, .. } = &service.metadata;
        let scribe = EndpointSliceWriter {
            writer: &self.writer,
            slices: &self.slices,
            request: &request,
            whose: format!("Service {namespace}/{name}"),
            owner: service.metadata.as_controller(&SERVICES),
            prefix: format!("{name}-"),
            labels: labels(&service),
            notes: SliceAnnotations::Trigger(trigger),
        };
        let mut errors = SyncErrors::default();
        self.record_hints_event(&service, &plans);
        for SlicePlan {
            changes,
            skipped_pods,
            ..
        } in &plans
        {
            errors.messages.extend(skipped_pods.iter().map(|(pod, node)| {
                format!("skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found")
            }));
            if !changes.is_empty() {
                self.status_throttle.wrote(key);
            }
            if let Err(write_error) = scribe.write(changes).await {
                errors.add(write_error.message, write_error.source);
            }
        }
        for slice in &foreign {
            if let Err(write_error) = scribe.delete(slice).await {
                errors.add(write_error.message, write_error.source);
            }
        }
        self.metrics.record_slices(key, &slices);
        self.metrics.record_sync(&service, &plans, &errors);
        if errors.is_empty() {
            return Ok(Outcome::Done);
        }
        let messages = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {errors}");
        let about = service.metadata.reference(&SERVICES);
        EventMessage::warning("FailedToUpdateEndpointSlices", messages).record(&self.recorder, &about);
        match &errors.source {
            Some(_) => Err(errors.into()),
            // The node event is expected within this time.
            None => Err(Error::transient(errors).with_retry_after(UNKNOWN_NODE_DELAY)),
        }
    }
}

impl EndpointSliceController {
    fn hinted(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.hinted.lock()
    }

    /// Records when topology aware hints are enabled, disabled, or impossible.
    // upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go AddHints
    fn record_hints_event(&self, service: &Service, plans: &[SlicePlan]) {
        let key = service.key();
        let about = service.metadata.reference(&SERVICES);
        for SlicePlan {
            address_type, hinted, ..
        } in plans
        {
            let event = match hinted {
                Some(Ok(())) => {
                    let is_new = self.hinted().insert(key.clone());
                    is_new.then(|| {
                        EventMessage::normal(
                            ENABLED,
                            format_with_address_type("Topology Aware Hints has been enabled", address_type),
                        )
                    })
                }
                Some(Err(error)) => {
                    self.hinted().remove(&key);
                    Some(EventMessage::warning(
                        DISABLED,
                        format_with_address_type(&error.to_string(), address_type),
                    ))
                }
                None => {
                    let was_there = self.hinted().remove(&key);
                    was_there.then(|| {
                        EventMessage::warning(
                            DISABLED,
                            format_with_address_type("Topology Aware Hints has been disabled", address_type),
                        )
                    })
                }
            };
            if let Some(event) = event {
                event.record(&self.recorder, &about);
            }
        }
    }
}

// --- SyncErrors ---

impl SyncErrors {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn add(&mut self, messages: String, source: kube::Error) {
        self.messages.push(messages);
        self.source = Some(source);
    }
}

// upstream: staging/src/k8s.io/endpointslice/topologycache/utils.go FormatWithAddressType
fn format_with_address_type(what: &str, address_type: &str) -> String {
    format!("{what}, addressType: {address_type}")
}

/// A single message as it is, several as a list.
fn join_messages(messages: &[String]) -> String {
    match messages {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
