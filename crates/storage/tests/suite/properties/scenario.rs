//! What random clients and watchers set out to do, on few keys, so that they meet.

use proptest::{collection::vec, prelude::*};

/// Keys with neighbours that a careless prefix would reach.
pub(crate) const KEYS: [&str; 5] = ["/a/x", "/a/y", "/ab/x", "/b", "/b/x/y"];

/// Prefixes of one key, of several, of all, and of none.
pub(crate) const PREFIXES: [&str; 6] = ["", "/", "/a/", "/ab/", "/b/", "/none/"];

/// A step of a client. Keys and prefixes are numbers into the lists above.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Puts a value, expecting what the client saw of the key last.
    Put { key: usize },
    /// Creates the key, whatever the client saw.
    Create { key: usize },
    /// Deletes what the client saw of the key last.
    Delete { key: usize },
    /// Reads the key.
    Get { key: usize },
    /// Lists a prefix.
    List { prefix: usize, limit: usize },
    /// Lists a prefix as it was at a revision the client saw, some steps ago.
    ListOld { prefix: usize, ago: usize },
    /// Asks where the store stands.
    Ask,
}

/// What a watcher does.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    pub(crate) prefix: usize,
    /// After how many batches it begins again, and how many batches before its last it is reset then,
    /// periodically.
    pub(crate) restarts: Vec<(usize, usize)>,
}

/// What happens at once in a case.
#[derive(Clone, Debug)]
pub(crate) struct WatchScenario {
    pub(crate) clients: Vec<Vec<Step>>,
    pub(crate) watchers: Vec<Watcher>,
}

/// Random plans.
pub(crate) fn plans() -> impl Strategy<Value = WatchScenario> {
    let clients = vec(vec(step(), 10..30), 2..6);
    let watchers = vec(watcher(), 1..4);
    (clients, watchers).prop_map(|(clients, watchers)| WatchScenario { clients, watchers })
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    let prefix = 0..PREFIXES.len();
    prop_oneof![
        6 => key.clone().prop_map(|key| Step::Put { key }),
        2 => key.clone().prop_map(|key| Step::Create { key }),
        2 => key.clone().prop_map(|key| Step::Delete { key }),
        3 => key.prop_map(|key| Step::Get { key }),
        2 => (prefix.clone(), 0..3_usize).prop_map(|(prefix, limit)| Step::List { prefix, limit }),
        1 => (prefix, 0..4_usize).prop_map(|(prefix, ago)| Step::ListOld { prefix, ago }),
        1 => Just(Step::Ask),
    ]
}

fn watcher() -> impl Strategy<Value = Watcher> {
    let restarts = vec((1..6_usize, 0..3_usize), 0..5);
    (0..PREFIXES.len(), restarts).prop_map(|(prefix, restarts)| Watcher { prefix, restarts })
}
