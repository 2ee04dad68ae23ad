//! What groups pods: services, and the sets that make them.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use kubecontroller::selector::Selector;

use crate::{
    interner::Text,
    labels::Labels,
    object::{Owner, Pod},
};

type SetKey = (Text, Text, Text);
type SelectorQuery = (Text, Arc<Labels>, Option<Owner>);

/// Services and sets. From them it is known which pods a pod stands beside.
#[derive(Debug, Default)]
pub(crate) struct DefaultSelectors {
    services: HashMap<Text, HashMap<Text, Selector>>,
    sets: HashMap<SetKey, Selector>,
    known: RefCell<HashMap<SelectorQuery, Arc<Selector>>>,
}

/// Answers are kept until something changes, but not more than this.
const KEPT: usize = 4096;

impl DefaultSelectors {
    /// Takes a service as it is now. One without a selector selects nothing.
    pub(crate) fn set_service(&mut self, namespace: Text, name: Text, selector: Option<Selector>) {
        self.known.get_mut().clear();
        let services = self.services.entry(namespace).or_default();
        match selector {
            Some(selector) if !selector.is_empty() => services.insert(name, selector),
            _ => services.remove(&name),
        };
    }

    /// Takes a set as it is now, by its kind.
    pub(crate) fn set_set(&mut self, kind: Text, namespace: Text, name: Text, selector: Option<Selector>) {
        self.known.get_mut().clear();
        let key = (kind, namespace, name);
        match selector {
            Some(selector) => self.sets.insert(key, selector),
            None => self.sets.remove(&key),
        };
    }

    /// Which pods a pod stands beside: those of its services and of its set. Empty when there are none.
    // upstream: pkg/scheduler/framework/plugins/helper/spread.go DefaultSelector
    pub(crate) fn selector_of(&self, pod: &Pod) -> Arc<Selector> {
        let mut known = self.known.borrow_mut();
        if known.len() >= KEPT {
            known.clear();
        }
        let key = (pod.namespace.clone(), pod.labels.clone(), pod.owner.clone());
        known
            .entry(key)
            .or_insert_with(|| Arc::new(self.find(pod)))
            .clone()
    }

    fn find(&self, pod: &Pod) -> Selector {
        let services = self.services.get(&pod.namespace).into_iter();
        let services = services.flat_map(HashMap::values);
        let services = services.filter(|service| service.matches(&*pod.labels));
        // Services that select the pod agree on the values of its labels.
        let labels: BTreeMap<_, _> = services
            .flat_map(Selector::requirements)
            .map(|one| (one.key(), one))
            .collect();
        let of_services = Selector::new(labels.into_values().cloned().collect());
        let set = pod.owner.as_ref().and_then(|owner| {
            self.sets
                .get(&(owner.kind.clone(), pod.namespace.clone(), owner.name.clone()))
        });
        of_services.and(set.map_or(&[], |set| set.requirements()))
    }
}
