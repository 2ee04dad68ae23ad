//! Reconciles the Endpoints of Services.

use std::collections::BTreeMap;

use k3_workloads::ObjectMeta;
use kubecontroller::{
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Store,
    writer::{
        ApiWriter, ObjectRef, WrittenObject, delete_options_for_uid, error_message, is_namespace_terminating,
    },
};
use serde_json::json;

use super::desired::DesiredEndpoints;
use crate::{
    event_message::EventMessage,
    objects::{Endpoints, Service},
    patch_values,
    resource::ENDPOINTS,
    services::{
        service_pods::ServicePods,
        trigger_time::{self, TriggerTimeTracker},
    },
    status_throttle::StatusThrottle,
    update::UpdateWithPatch,
};

/// Annotation of Endpoints with truncated addresses.
pub(super) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

// upstream: pkg/controller/endpoint/endpoints_controller.go Controller, syncService
pub(super) struct EndpointsController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) services: Store<Service>,
    pub(super) endpoints: Informer<Endpoints>,
    pub(super) service_pods: ServicePods,
    pub(super) trigger_times: TriggerTimeTracker,
    pub(super) status_throttle: StatusThrottle,
}

impl Reconciler for EndpointsController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(service) = self.services.get(key) else {
            self.trigger_times.forget(key);
            self.status_throttle.forget(key);
            self.delete(&request).await?;
            return Ok(Outcome::Done);
        };
        if !service.selects_pods() {
            return Ok(Outcome::Done);
        }
        if let Some(left) = self.status_throttle.left(key) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let pods = self.service_pods.pods(&service);
        let time = self.trigger_times.compute_trigger_time(key, &service, &pods);
        let desired = DesiredEndpoints::new(&service, &pods);
        let existing = self.endpoints.store().get(key);
        if existing
            .as_ref()
            .is_some_and(|existing| desired.is_up_to_date(existing))
        {
            return Ok(Outcome::Done);
        }
        let mut annotations = existing
            .as_ref()
            .map_or_else(BTreeMap::new, |existing| existing.metadata.annotations.to_map());
        trigger_time::mark(&mut annotations, time);
        if desired.is_truncated {
            annotations.insert(OVER_CAPACITY.into(), "truncated".into());
        } else {
            annotations.remove(OVER_CAPACITY);
        }
        let written: kube::Result<WrittenObject> = match &existing {
            Some(existing) => {
                let meta = &existing.metadata;
                let patch = json!({
                    "metadata": {
                        "resourceVersion": meta.resource_version,
                        "labels": patch_values::replacing_map(&meta.labels, &desired.labels),
                        "annotations": patch_values::replacing_map(&meta.annotations, &annotations),
                    },
                    "subsets": patch_values::list(&desired.subsets),
                });
                self.writer.update_with_merge(endpoints_ref(meta), &patch).await
            }
            None => {
                self.writer
                    .create(
                        &ENDPOINTS,
                        key.namespace(),
                        &json!({
                            "apiVersion": "v1",
                            "kind": "Endpoints",
                            "metadata": {"name": key.name(), "labels": desired.labels, "annotations": annotations},
                            "subsets": patch_values::list(&desired.subsets),
                        }),
                    )
                    .await
            }
        };
        match written {
            Ok(written) => {
                request.record_write(&self.endpoints, &written.metadata.resource_version);
                self.status_throttle.wrote(key);
                Ok(Outcome::Done)
            }
            Err(error) if existing.is_none() && is_namespace_terminating(&error) => Ok(Outcome::Done),
            Err(error) => {
                self.record_failure_event(&service, existing.as_deref(), &error);
                Err(error.into())
            }
        }
    }
}

fn endpoints_ref(meta: &ObjectMeta) -> ObjectRef<'_> {
    ObjectRef::new(&ENDPOINTS, &meta.namespace, &meta.name)
}

impl EndpointsController {
    /// Deletes the Endpoints of a deleted Service.
    async fn delete(&self, request: &Request) -> kube::Result<()> {
        let Some(existing) = self.endpoints.store().get(&request.key) else {
            return Ok(());
        };
        self.writer
            .delete(
                endpoints_ref(&existing.metadata),
                &delete_options_for_uid(&existing.metadata.uid),
            )
            .await
    }

    fn record_failure_event(&self, service: &Service, existing: Option<&Endpoints>, error: &kube::Error) {
        let ObjectMeta { namespace, name, .. } = &service.metadata;
        let why = error_message(error);
        if let Some(existing) = existing {
            let message = format!("Failed to update endpoint {namespace}/{name}: {why}");
            let about = existing.metadata.reference(&ENDPOINTS);
            return EventMessage::warning("FailedToUpdateEndpoint", message).record(&self.recorder, &about);
        }
        let wanted = ObjectMeta {
            namespace: namespace.clone(),
            name: name.clone(),
            ..ObjectMeta::default()
        };
        let message = format!("Failed to create endpoint for service {namespace}/{name}: {why}");
        EventMessage::warning("FailedToCreateEndpoint", message)
            .record(&self.recorder, &wanted.reference(&ENDPOINTS));
    }
}
