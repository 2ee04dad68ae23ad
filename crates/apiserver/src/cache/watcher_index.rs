//! The watchers of one resource, by what they look at.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    CachedObject, WatchFilter,
    event::{EventDelivery, WatchCacheEvent},
    watcher::{WatchQueue, WatchSender},
};

/// Where an event finds the watchers that it concerns.
#[derive(Default)]
pub(super) struct WatcherIndex {
    everything: Vec<WatchSender>,
    under: HashMap<Box<str>, Vec<WatchSender>>,
    by_key: HashMap<Box<str>, Vec<WatchSender>>,
    /// By the position of the field, then by its value.
    by_field: BTreeMap<usize, HashMap<Box<str>, Vec<WatchSender>>>,
}

// --- WatcherIndex ---

impl WatcherIndex {
    /// Whether a watcher selects by a field, so that the fields of events are looked at.
    pub(super) fn selects_by_field(&self) -> bool {
        !self.by_field.is_empty()
    }

    pub(super) fn add(&mut self, filter: &WatchFilter, sender: WatchSender) {
        let senders = match filter {
            WatchFilter::Everything => &mut self.everything,
            WatchFilter::Under(prefix) => self.under.entry(prefix.as_str().into()).or_default(),
            WatchFilter::Key(key) => self.by_key.entry(key.as_str().into()).or_default(),
            WatchFilter::Field(position, value) => {
                let values = self.by_field.entry(*position).or_default();
                values.entry(value.as_str().into()).or_default()
            }
        };
        // Closed watchers are removed when an event is sent to them. A filter without events would keep them for ever.
        senders.retain(|sender| !sender.is_closed());
        senders.push(sender);
    }

    /// Queues an event for the watchers that it concerns, and forgets those that are closed or too slow. Sending never blocks.
    /// Watchers that wait for events are added to `due`, to be woken.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go dispatchEvent, startDispatching
    pub(super) fn send<'o>(
        &mut self,
        event: &'o Arc<WatchCacheEvent>,
        due: &mut Vec<Arc<WatchQueue>>,
        field: impl Fn(&'o CachedObject, usize) -> &'o str,
    ) {
        let key: &str = &event.object().key;
        // A namespaced key has its namespace before the name.
        let prefix = key.rfind('/').map(|slash| &key[..=slash]);
        let values = |position: usize| {
            let before = event.before.as_deref().map(|object| field(object, position));
            let after = event.after.as_deref().map(|object| field(object, position));
            [before, after.filter(|after| before != Some(*after))]
        };
        let has_receivers = !self.everything.is_empty()
            || prefix.is_some_and(|prefix| self.under.contains_key(prefix))
            || self.by_key.contains_key(key)
            || self.by_field.iter().any(|(position, watchers)| {
                let mut values = values(*position).into_iter().flatten();
                values.any(|value| watchers.contains_key(value))
            });
        if !has_receivers {
            return;
        }
        let delivery = Arc::new(EventDelivery::new(Arc::clone(event)));
        self.everything.retain(|sender| sender.send(&delivery, due));
        if let Some(prefix) = prefix {
            send_to(&mut self.under, prefix, &delivery, due);
        }
        send_to(&mut self.by_key, key, &delivery, due);
        self.by_field.retain(|position, watchers| {
            for value in values(*position).into_iter().flatten() {
                send_to(watchers, value, &delivery, due);
            }
            !watchers.is_empty()
        });
    }

    /// Takes all watchers out.
    pub(super) fn take_all(&mut self) -> Vec<WatchSender> {
        let index = std::mem::take(self);
        let by_field = index.by_field.into_values().flat_map(HashMap::into_values);
        index
            .everything
            .into_iter()
            .chain(index.under.into_values().flatten())
            .chain(index.by_key.into_values().flatten())
            .chain(by_field.flatten())
            .collect()
    }
}

/// Sends an event to the watchers with this value.
fn send_to(
    watchers: &mut HashMap<Box<str>, Vec<WatchSender>>,
    value: &str,
    delivery: &Arc<EventDelivery>,
    due: &mut Vec<Arc<WatchQueue>>,
) {
    let Some(senders) = watchers.get_mut(value) else {
        return;
    };
    senders.retain(|sender| sender.send(delivery, due));
    if senders.is_empty() {
        watchers.remove(value);
    }
}
