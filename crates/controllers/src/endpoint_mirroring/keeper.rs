//! Writes the slices that tell what endpoints tell.

use kubecontroller::{
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Store,
};

use super::{
    MANAGER,
    plan::{MOST, Plan, is_meant, labels, notes},
};
use crate::{
    calm::Calm,
    news::News,
    objects::{EndpointSlice, Endpoints, Service},
    resource::ENDPOINTS,
    services::slices::{ByService, Changes, Notes, Scribe, Undone},
    writer::Writer,
};

/// The longest name that a slice can have.
const LONGEST: usize = 253;

/// Keeps slices as endpoints have them.
pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) services: Store<Service>,
    pub(super) endpoints: Store<Endpoints>,
    pub(super) slices: Informer<EndpointSlice>,
    pub(super) by_service: ByService,
    pub(super) calm: Calm,
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        // What was written and deleted just now is seen by then.
        if let Some(left) = self.calm.left(key) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let slices = self.by_service.get(key, MANAGER);
        let endpoints = self.endpoints.get(key).filter(|endpoints| is_meant(endpoints));
        let is_chosen = |service: &Service| !service.spec.selector.is_empty();
        let is_meant = self.services.get(key).is_some_and(|service| !is_chosen(&service));
        let Some(endpoints) = endpoints.filter(|_| is_meant) else {
            // What is deleted is told of by its name, and by nothing else.
            let gone = Endpoints::default();
            let changes = Changes {
                delete: slices,
                ..Changes::default()
            };
            self.write(&self.scribe(&request, &gone), &changes).await?;
            return Ok(Outcome::Done);
        };
        let plan = Plan::new(&endpoints, &slices);
        self.tell(&endpoints, &plan);
        self.write(&self.scribe(&request, &endpoints), &plan.changes)
            .await?;
        Ok(Outcome::Done)
    }
}

impl Keeper {
    async fn write(&self, scribe: &Scribe<'_>, changes: &Changes) -> Result<(), Undone> {
        if !changes.is_empty() {
            self.calm.wrote(&scribe.request.key);
        }
        scribe.write(changes).await
    }

    fn scribe<'a>(&'a self, request: &'a Request, endpoints: &Endpoints) -> Scribe<'a> {
        let (namespace, name) = (request.key.namespace(), request.key.name());
        let dash = if name.len() < LONGEST { "-" } else { "" };
        Scribe {
            writer: &self.writer,
            slices: &self.slices,
            request,
            whose: format!("Endpoints {namespace}/{name}"),
            owner: endpoints.metadata.as_controller(&ENDPOINTS),
            prefix: format!("{name}{dash}"),
            labels: labels(endpoints),
            notes: Notes::All(notes(endpoints)),
        }
    }

    /// People are told of addresses that are not in slices.
    fn tell(&self, endpoints: &Endpoints, plan: &Plan) {
        let Plan { invalid, skipped, .. } = plan;
        let about = endpoints.metadata.reference(&ENDPOINTS);
        if *invalid > 0 {
            let words = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            News::warning("InvalidIPAddress", words).tell(&self.recorder, &about);
        }
        if skipped > invalid {
            let words = format!(
                "A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            News::warning("TooManyAddressesToMirror", words).tell(&self.recorder, &about);
        }
    }
}
