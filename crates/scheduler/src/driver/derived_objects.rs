//! What the scheduler keeps of the objects of informers that it shares with others.

use std::sync::Arc;

use hashbrown::HashMap;
use kubecontroller::{Key, informer::Delta, object::Object};
use parking_lot::Mutex;

use super::informer_event::{InformerChange, is_changed};
use crate::{interner::StringInterner, object::SchedulerObject};

/// Derives what the scheduler keeps from the decoded objects of a shared informer, once for each change.
pub(super) struct DerivedObjects<T> {
    interner: Arc<Mutex<StringInterner>>,
    /// The relevant objects, as they were derived last.
    known: HashMap<Key, Arc<T>>,
}

impl<T: SchedulerObject> DerivedObjects<T> {
    pub(super) fn new(interner: &Arc<Mutex<StringInterner>>) -> Self {
        DerivedObjects {
            interner: Arc::clone(interner),
            known: HashMap::new(),
        }
    }

    /// Converts an informer's delta; `None` if nothing changes for the scheduler. An object that stops being relevant is deleted
    /// for the scheduler.
    pub(super) fn change(&mut self, delta: &Delta<T::Source>) -> Option<InformerChange<T>> {
        let source = match delta {
            Delta::Added { new, .. } => Some(new),
            Delta::Updated { old, new } | Delta::Replaced { old, new } if is_changed(&**old, &**new) => {
                Some(new)
            }
            Delta::Updated { .. } | Delta::Replaced { .. } | Delta::Sync { .. } => return None,
            Delta::Deleted { .. } => None,
        };
        let key = delta.object().key();
        let Some(source) = source.filter(|source| T::is_relevant(source)) else {
            let old = self.known.remove(&key)?;
            return Some(InformerChange {
                old: Some(old),
                new: None,
            });
        };
        let new = {
            let mut interner = self.interner.lock();
            Arc::new(T::read(source, &mut interner))
        };
        let old = self.known.insert(key, Arc::clone(&new));
        Some(InformerChange { old, new: Some(new) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Pod;

    fn pod(version: &str, phase: &str) -> Arc<k3_workloads::Pod> {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": version},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn versions(change: Option<InformerChange<Pod>>) -> Option<[Option<String>; 2]> {
        let version = |pod: Option<Arc<Pod>>| pod.map(|pod| pod.version.to_string());
        change.map(|change| [version(change.old), version(change.new)])
    }

    #[test]
    fn a_pod_that_ends_is_deleted_once() {
        let mut pods = DerivedObjects::<Pod>::new(&Arc::default());
        let added = Delta::Added {
            new: pod("1", "Pending"),
            initial: true,
        };
        assert_eq!(versions(pods.change(&added)), Some([None, Some("1".into())]));
        let running = Delta::Updated {
            old: pod("1", "Pending"),
            new: pod("2", "Running"),
        };
        let change = pods.change(&running).unwrap();
        let [old, new] = [change.old.unwrap(), change.new.unwrap()];
        assert!(Arc::ptr_eq(&old.spec, &new.spec), "the spec is derived once");
        let ended = Delta::Updated {
            old: pod("2", "Running"),
            new: pod("3", "Succeeded"),
        };
        assert_eq!(versions(pods.change(&ended)), Some([Some("2".into()), None]));
        let deleted = Delta::Deleted {
            last: pod("3", "Succeeded"),
            missed: false,
        };
        assert_eq!(versions(pods.change(&deleted)), None);
    }

    #[test]
    fn a_relist_without_changes_is_no_change() {
        let mut pods = DerivedObjects::<Pod>::new(&Arc::default());
        let relisted = Delta::Replaced {
            old: pod("1", "Running"),
            new: pod("1", "Running"),
        };
        assert_eq!(versions(pods.change(&relisted)), None);
    }
}
