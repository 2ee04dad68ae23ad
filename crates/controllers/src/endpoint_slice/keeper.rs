//! Writes the slices of services.

use std::time::Duration;

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::Recorder,
    informer::Informer,
    store::Store,
};

use super::{
    MANAGER,
    plan::{Plan, Seen, labels},
};
use crate::{
    calm::Calm,
    news::News,
    objects::{EndpointSlice, Meta, Node, Service},
    resource::SERVICES,
    services::{
        members::Members,
        slices::{ByService, Notes, Scribe},
        trigger::Triggers,
    },
    writer::Writer,
};

/// When it is looked again for the node of a pod.
const LOST: Duration = Duration::from_secs(1);

/// Keeps slices as services have them.
pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: Recorder,
    pub(super) services: Store<Service>,
    pub(super) nodes: Store<Node>,
    pub(super) slices: Informer<EndpointSlice>,
    pub(super) by_service: ByService,
    pub(super) members: Members,
    pub(super) triggers: Triggers,
    pub(super) calm: Calm,
}

/// What was not done for a service.
#[derive(Debug, Default, thiserror::Error)]
#[error("{}", told(.words))]
struct Trouble {
    words: Vec<String>,
    #[source]
    source: Option<kube::Error>,
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(service) = self.services.get(key) else {
            // Its slices go with it.
            self.triggers.forget(key);
            self.calm.forget(key);
            return Ok(Outcome::Done);
        };
        if !service.selects_pods() {
            return Ok(Outcome::Done);
        }
        if let Some(left) = self.calm.left(key) {
            return Ok(Outcome::After(left));
        }
        let pods = self.members.pods(&service);
        let slices = self.by_service.get(key, MANAGER);
        let trigger = self.triggers.look(key, &service, &pods);
        let seen = Seen {
            service: &service,
            pods: &pods,
            slices: &slices,
        };
        let (plans, foreign) = seen.plans(|node| self.nodes.get(&Key::new("", node)));
        let Meta { namespace, name, .. } = &service.metadata;
        let scribe = Scribe {
            writer: &self.writer,
            slices: &self.slices,
            request: &request,
            whose: format!("Service {namespace}/{name}"),
            owner: service.metadata.as_controller(&SERVICES),
            prefix: format!("{name}-"),
            labels: labels(&service),
            notes: Notes::Trigger(trigger),
        };
        let mut trouble = Trouble::default();
        for Plan { changes, lost } in &plans {
            trouble.words.extend(lost.iter().map(|(pod, node)| {
                format!("skipping Pod {pod} for Service {namespace}/{name}: Node {node} Not Found")
            }));
            if !changes.is_empty() {
                self.calm.wrote(key);
            }
            if let Err(undone) = scribe.write(changes).await {
                trouble.add(undone.words, undone.source);
            }
        }
        for slice in &foreign {
            if let Err(undone) = scribe.delete(slice).await {
                trouble.add(undone.words, undone.source);
            }
        }
        if trouble.words.is_empty() {
            return Ok(Outcome::Done);
        }
        let words = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {trouble}");
        let about = service.metadata.reference(&SERVICES);
        News::warning("FailedToUpdateEndpointSlices", words).tell(&self.recorder, &about);
        match &trouble.source {
            Some(_) => Err(trouble.into()),
            // Nodes do not come that fast.
            None => Err(Error::transient(trouble).not_before(LOST)),
        }
    }
}

// --- Trouble ---

impl Trouble {
    fn add(&mut self, words: String, source: kube::Error) {
        self.words.push(words);
        self.source = Some(source);
    }
}

/// One thing as it is, several as a list.
fn told(words: &[String]) -> String {
    match words {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
