//! Writes what is behind services.

use std::collections::BTreeMap;

use kubecontroller::{
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Store,
};
use serde_json::json;

use super::plan::Plan;
use crate::{
    calm::Calm,
    news::News,
    objects::{Endpoints, Meta, Service},
    resource::ENDPOINTS,
    services::{
        members::Members,
        trigger::{self, Triggers},
    },
    writer::{Made, Place, Writer, is_namespace_going, only, words},
    written,
};

/// The note of endpoints that are not all that there are.
pub(super) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Keeps endpoints as services have them.
pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) services: Store<Service>,
    pub(super) endpoints: Informer<Endpoints>,
    pub(super) members: Members,
    pub(super) triggers: Triggers,
    pub(super) calm: Calm,
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(service) = self.services.get(key) else {
            self.triggers.forget(key);
            self.calm.forget(key);
            self.delete(&request).await?;
            return Ok(Outcome::Done);
        };
        if !service.selects_pods() {
            return Ok(Outcome::Done);
        }
        if let Some(left) = self.calm.left(key) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let pods = self.members.pods(&service);
        let time = self.triggers.look(key, &service, &pods);
        let plan = Plan::new(&service, &pods);
        let known = self.endpoints.store().get(key);
        if known.as_ref().is_some_and(|known| plan.is_told(known)) {
            return Ok(Outcome::Done);
        }
        let mut notes = known
            .as_ref()
            .map_or_else(BTreeMap::new, |known| (*known.metadata.annotations).clone());
        trigger::mark(&mut notes, time);
        if plan.is_cut {
            notes.insert(OVER_CAPACITY.into(), "truncated".into());
        } else {
            notes.remove(OVER_CAPACITY);
        }
        let made: kube::Result<Made> = match &known {
            Some(known) => {
                let meta = &known.metadata;
                let patch = json!({
                    "metadata": {
                        "resourceVersion": meta.resource_version,
                        "labels": written::instead(&meta.labels, &plan.labels),
                        "annotations": written::instead(&meta.annotations, &notes),
                    },
                    "subsets": written::list(&plan.subsets),
                });
                self.writer.update(place(meta), &patch).await
            }
            None => {
                self.writer
                    .create(
                        &ENDPOINTS,
                        key.namespace(),
                        &json!({
                            "apiVersion": "v1",
                            "kind": "Endpoints",
                            "metadata": {"name": key.name(), "labels": plan.labels, "annotations": notes},
                            "subsets": written::list(&plan.subsets),
                        }),
                    )
                    .await
            }
        };
        match made {
            Ok(made) => {
                request.record_write(&self.endpoints, &made.metadata.resource_version);
                self.calm.wrote(key);
                Ok(Outcome::Done)
            }
            Err(error) if known.is_none() && is_namespace_going(&error) => Ok(Outcome::Done),
            Err(error) => {
                self.tell(&service, known.as_deref(), &error);
                Err(error.into())
            }
        }
    }
}

fn place(meta: &Meta) -> Place<'_> {
    Place::new(&ENDPOINTS, &meta.namespace, &meta.name)
}

impl Keeper {
    /// Deletes the endpoints of a service that is gone.
    async fn delete(&self, request: &Request) -> kube::Result<()> {
        let Some(known) = self.endpoints.store().get(&request.key) else {
            return Ok(());
        };
        self.writer
            .delete(place(&known.metadata), &only(&known.metadata.uid))
            .await
    }

    fn tell(&self, service: &Service, known: Option<&Endpoints>, error: &kube::Error) {
        let Meta { namespace, name, .. } = &service.metadata;
        let why = words(error);
        if let Some(known) = known {
            let words = format!("Failed to update endpoint {namespace}/{name}: {why}");
            let about = known.metadata.reference(&ENDPOINTS);
            return News::warning("FailedToUpdateEndpoint", words).tell(&self.recorder, &about);
        }
        let wanted = Meta {
            namespace: namespace.clone(),
            name: name.clone(),
            ..Meta::default()
        };
        let words = format!("Failed to create endpoint for service {namespace}/{name}: {why}");
        News::warning("FailedToCreateEndpoint", words).tell(&self.recorder, &wanted.reference(&ENDPOINTS));
    }
}
