//! What a handler makes of what it is told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use super::Thing;
use crate::{
    Key,
    informer::{Delta, EventHandlerRegistration, Informer},
    object::Object,
};

/// Objects as they are told, and what of it does not fit together.
#[derive(Default)]
pub(super) struct View {
    objects: BTreeMap<Key, Arc<Thing>>,
    pub(super) mistakes: Vec<String>,
    /// What was told, in short.
    pub(super) told: Vec<String>,
}

/// A handler with its view.
pub(super) struct Viewer {
    pub(super) view: Arc<Mutex<View>>,
    pub(super) subscription: EventHandlerRegistration,
}

impl Viewer {
    pub(super) fn new(informer: &Informer<Thing>) -> Self {
        let view = Arc::new(Mutex::new(View::default()));
        let shared = Arc::clone(&view);
        let subscription = informer.add_event_handler(move |delta| shared.lock().unwrap().take(delta));
        Viewer { view, subscription }
    }

    /// The names, with their versions.
    pub(super) fn objects(&self) -> BTreeMap<String, String> {
        let view = self.view.lock().unwrap();
        let objects = view.objects.values();
        objects
            .map(|object| (object.name().to_owned(), object.resource_version().to_owned()))
            .collect()
    }

    pub(super) fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.view.lock().unwrap().told)
    }
}

impl View {
    fn take(&mut self, delta: &Delta<Thing>) {
        let object = delta.object();
        let key = object.key();
        let known = self.objects.get(&key).cloned();
        let value = object.fields.data.get("value").map_or("", String::as_str);
        let fits = match delta {
            Delta::Added { .. } => known.is_none(),
            Delta::Updated { old, new } => {
                is(known.as_ref(), old) && old.uid() == new.uid() && old.revision() < new.revision()
            }
            Delta::Replaced { old, new } => {
                is(known.as_ref(), old) && old.uid() == new.uid() && old.revision() <= new.revision()
            }
            Delta::Sync { object } => is(known.as_ref(), object),
            Delta::Deleted { last, .. } => known.as_ref().is_some_and(|known| known.uid() == last.uid()),
        };
        let word = match delta {
            Delta::Added { initial: true, .. } => "initial",
            Delta::Added { .. } => "added",
            Delta::Updated { .. } => "updated",
            Delta::Replaced { .. } => "replaced",
            Delta::Sync { .. } => "sync",
            Delta::Deleted { missed: true, .. } => "missed",
            Delta::Deleted { .. } => "deleted",
        };
        let told = format!("{word} {}={value}", object.name());
        if !fits {
            self.mistakes.push(format!("{told} after {known:?}"));
        }
        self.told.push(told);
        match delta.new() {
            Some(new) => self.objects.insert(key, Arc::clone(new)),
            None => self.objects.remove(&key),
        };
    }
}

fn is(known: Option<&Arc<Thing>>, old: &Arc<Thing>) -> bool {
    known.is_some_and(|known| Arc::ptr_eq(known, old))
}
