//! Writes the slices of services.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    object::Object,
    store::Store,
};

use super::{
    MANAGER,
    figures::Figures,
    hints::is_automatic,
    plan::{Plan, Seen, labels},
    topology::Zones,
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

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

/// When it is looked again for the node of a pod.
const LOST: Duration = Duration::from_secs(1);

/// Keeps slices as services have them.
pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) services: Store<Service>,
    pub(super) nodes: Store<Node>,
    pub(super) slices: Informer<EndpointSlice>,
    pub(super) by_service: ByService,
    pub(super) members: Members,
    pub(super) triggers: Triggers,
    pub(super) calm: Calm,
    pub(super) figures: Figures,
    /// The services that have hints by where processors are.
    pub(super) hinted: Mutex<HashSet<Key>>,
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
            self.figures.forget(key);
            self.hinted().remove(key);
            return Ok(Outcome::Done);
        };
        if !service.selects_pods() {
            return Ok(Outcome::Done);
        }
        if let Some(left) = self.calm.left(key) {
            return Ok(Outcome::RequeueAfter(left));
        }
        let pods = self.members.pods(&service);
        let slices = self.by_service.get(key, MANAGER);
        let trigger = self.triggers.look(key, &service, &pods);
        let zones = is_automatic(&service)
            .then(|| Zones::of(&self.nodes.all()))
            .flatten();
        let seen = Seen {
            service: &service,
            pods: &pods,
            slices: &slices,
            zones: zones.as_ref(),
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
        self.tell_hints(&service, &plans);
        for Plan { changes, lost, .. } in &plans {
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
        self.figures.has(key, &slices);
        self.figures.looked(&service, &plans, trouble.words.is_empty());
        if trouble.words.is_empty() {
            return Ok(Outcome::Done);
        }
        let words = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {trouble}");
        let about = service.metadata.reference(&SERVICES);
        News::warning("FailedToUpdateEndpointSlices", words).tell(&self.recorder, &about);
        match &trouble.source {
            Some(_) => Err(trouble.into()),
            // Nodes do not come that fast.
            None => Err(Error::transient(trouble).with_retry_after(LOST)),
        }
    }
}

impl Keeper {
    fn hinted(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.hinted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether hints follow from where processors are, when that begins or ends, and why it cannot be.
    fn tell_hints(&self, service: &Service, plans: &[Plan]) {
        let (key, about) = (service.key(), service.metadata.reference(&SERVICES));
        for Plan { family, hinted, .. } in plans {
            let news = match hinted {
                Some(Ok(())) => {
                    let is_new = self.hinted().insert(key.clone());
                    is_new.then(|| {
                        News::normal(
                            ENABLED,
                            in_family("Topology Aware Hints has been enabled", family),
                        )
                    })
                }
                Some(Err(why)) => {
                    self.hinted().remove(&key);
                    Some(News::warning(DISABLED, in_family(why, family)))
                }
                None => {
                    let was_there = self.hinted().remove(&key);
                    was_there.then(|| {
                        News::warning(
                            DISABLED,
                            in_family("Topology Aware Hints has been disabled", family),
                        )
                    })
                }
            };
            if let Some(news) = news {
                news.tell(&self.recorder, &about);
            }
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

fn in_family(what: &str, family: &str) -> String {
    format!("{what}, addressType: {family}")
}

/// One thing as it is, several as a list.
fn told(words: &[String]) -> String {
    match words {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
