//! The pods of this node, as far as its workers know them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::{
    api::core::v1::{Pod, PodStatus},
    jiff::Timestamp,
};
use tokio::{sync::watch, time::Instant};

use super::{
    resize::{Kept, Refusal},
    status::{Course, End, Seen, Waiting},
};
use crate::runtime::ContainerId;

/// All pods, by their uid.
#[derive(Default)]
pub(super) struct Known {
    entries: Mutex<HashMap<String, Entry>>,
}

/// A pod.
#[derive(Debug)]
pub(super) struct Entry {
    /// As new as it is known.
    pub pod: Arc<Pod>,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether nobody wants it any more: it was deleted without us, or its file is gone.
    pub is_gone: bool,
    /// Where it is on its way. Only ever goes on.
    pub course: Course,
    /// Why it ends, if not because it was deleted or is over.
    pub end: Option<End>,
    /// The seconds it has to end, if somebody other than its spec says so.
    pub grace: Option<i64>,
    /// Whether this node takes it.
    pub admission: Admission,
    /// The last status that was computed.
    pub previous: Option<PodStatus>,
    /// Why containers were not started.
    pub waiting: BTreeMap<String, Waiting>,
    /// Containers that could not be started are not tried again before then.
    pub held: BTreeMap<String, Timestamp>,
    /// What containers that ended left as their message; `None` once looked for in vain.
    pub messages: BTreeMap<ContainerId, Option<String>>,
    /// What was there of it at the last look.
    pub seen: Arc<Seen>,
    /// Its resources; read from its folder once.
    pub kept: Option<Kept>,
    /// Why a change of its resources does not happen now, and for which generation that was said.
    pub refusal: Option<(Refusal, Option<i64>)>,
    /// What went wrong when containers were given other resources.
    pub resize_error: String,
    /// Whether a change of its resources was granted that users were not told the end of.
    pub is_resizing: bool,
    /// When its volumes were last brought up to date.
    pub refreshed: Option<Instant>,
    /// Whether its volumes are gone, after its end.
    pub is_torn_down: bool,
    /// Told when it has to end, with the seconds it has; workers that start something let go then.
    pub halt: watch::Sender<Option<i64>>,
}

/// Where a pod comes from.
#[derive(Clone, Debug, Default)]
pub(super) enum Origin {
    /// The API.
    #[default]
    Api,
    /// A file of this machine; with the pod in the API that shows it, if there is one.
    File(Option<Arc<Pod>>),
    /// Nobody knows: only its containers are there.
    Runtime,
}

/// Whether this node takes a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Admission {
    /// Nobody has looked.
    #[default]
    Open,
    /// It does.
    Taken,
    /// It does not.
    Refused,
}

// --- Known ---

impl Known {
    /// All of them. Never held while anything is waited for.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads something of a pod.
    pub(super) fn read<T>(&self, uid: &str, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        self.lock().get(uid).map(read)
    }

    /// Changes something of a pod.
    pub(super) fn change<T>(&self, uid: &str, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.lock().get_mut(uid).map(change)
    }

    /// The pod in the API that shows this one: itself, or its mirror.
    pub(super) fn shown(&self, uid: &str) -> Option<Arc<Pod>> {
        self.read(uid, |entry| match &entry.origin {
            Origin::Api => (!entry.is_gone).then(|| Arc::clone(&entry.pod)),
            Origin::File(mirror) => mirror.clone(),
            Origin::Runtime => None,
        })?
    }
}

// --- Entry ---

impl Entry {
    /// One that was just heard of.
    pub(super) fn new(pod: Arc<Pod>, origin: Origin) -> Self {
        Entry {
            pod,
            origin,
            is_gone: false,
            course: Course::Living,
            end: None,
            grace: None,
            admission: Admission::Open,
            previous: None,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            messages: BTreeMap::new(),
            seen: Arc::default(),
            kept: None,
            refusal: None,
            resize_error: String::new(),
            is_resizing: false,
            refreshed: None,
            is_torn_down: false,
            halt: watch::Sender::new(None),
        }
    }

    /// Whether somebody has decided that it ends.
    pub(super) fn has_to_end(&self) -> bool {
        self.is_gone || self.end.is_some() || self.is_deleted()
    }

    /// Whether the API waits for us to let go of it.
    pub(super) fn is_deleted(&self) -> bool {
        matches!(self.origin, Origin::Api) && self.pod.metadata.deletion_timestamp.is_some()
    }

    /// Whether nothing of it shall stay.
    pub(super) fn has_to_vanish(&self) -> bool {
        self.is_gone || self.is_deleted()
    }

    /// The seconds it has to end.
    pub(super) fn effective_grace(&self) -> i64 {
        let spec = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        let deleted = self.pod.metadata.deletion_grace_period_seconds;
        let seconds = match self.origin {
            Origin::Runtime => Some(1),
            _ => deleted.or(self.grace).or(spec),
        };
        // Whoever sets nothing, or too little, gives a moment.
        seconds.unwrap_or(30).max(1)
    }

    /// Tells workers if it has to end; a shorter time than before, too.
    pub(super) fn tell_halt(&self) {
        if self.has_to_end() {
            let grace = self.effective_grace();
            self.halt.send_if_modified(|known| {
                let is_news = known.is_none_or(|known| grace < known);
                if is_news {
                    *known = Some(grace);
                }
                is_news
            });
        }
    }

    /// Whether it uses something of this node.
    pub(super) fn is_active(&self) -> bool {
        self.admission == Admission::Taken && self.course != Course::Stopped
    }
}
