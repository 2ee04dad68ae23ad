//! An event handler that records deltas and checks that they are consistent.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::TestObject;
use crate::{
    Key,
    informer::{Delta, EventHandlerRegistration, Informer},
    object::Object,
};

/// The objects that result from the deltas.
#[derive(Default)]
pub(super) struct ObservedState {
    objects: BTreeMap<Key, Arc<TestObject>>,
    /// Deltas that do not continue from the state before them.
    pub(super) inconsistencies: Vec<String>,
    /// The deltas, in short.
    log: Vec<String>,
}

pub(super) struct Observer {
    pub(super) state: Arc<Mutex<ObservedState>>,
    pub(super) registration: EventHandlerRegistration,
}

impl Observer {
    pub(super) fn new(informer: &Informer<TestObject>) -> Self {
        let state = Arc::new(Mutex::new(ObservedState::default()));
        let shared = Arc::clone(&state);
        let registration = informer.add_event_handler(move |delta| shared.lock().record(delta));
        Observer { state, registration }
    }

    /// The names of the objects, with their resource versions.
    pub(super) fn objects(&self) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let objects = state.objects.values();
        objects
            .map(|object| (object.name().to_owned(), object.resource_version().to_owned()))
            .collect()
    }

    /// The deltas since the last call.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().log)
    }
}

impl ObservedState {
    fn record(&mut self, delta: &Delta<TestObject>) {
        let object = delta.object();
        let key = object.key();
        let before = self.objects.get(&key).cloned();
        let value = object.fields.data.get("value").map_or("", String::as_str);
        let is_consistent = match delta {
            Delta::Added { .. } => before.is_none(),
            Delta::Updated { old, new } => {
                is_same_object(before.as_ref(), old)
                    && old.uid() == new.uid()
                    && old.revision() < new.revision()
            }
            Delta::Replaced { old, new } => {
                is_same_object(before.as_ref(), old)
                    && old.uid() == new.uid()
                    && old.revision() <= new.revision()
            }
            Delta::Sync { object } => is_same_object(before.as_ref(), object),
            Delta::Deleted { last, .. } => before.as_ref().is_some_and(|before| before.uid() == last.uid()),
        };
        let kind = match delta {
            Delta::Added { initial: true, .. } => "initial",
            Delta::Added { .. } => "added",
            Delta::Updated { .. } => "updated",
            Delta::Replaced { .. } => "replaced",
            Delta::Sync { .. } => "sync",
            Delta::Deleted { missed: true, .. } => "missed",
            Delta::Deleted { .. } => "deleted",
        };
        let entry = format!("{kind} {}={value}", object.name());
        if !is_consistent {
            self.inconsistencies.push(format!("{entry} after {before:?}"));
        }
        self.log.push(entry);
        match delta.new() {
            Some(new) => self.objects.insert(key, Arc::clone(new)),
            None => self.objects.remove(&key),
        };
    }
}

fn is_same_object(before: Option<&Arc<TestObject>>, old: &Arc<TestObject>) -> bool {
    before.is_some_and(|before| Arc::ptr_eq(before, old))
}
