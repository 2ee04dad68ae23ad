//! Writers that are at work while something else is tried.

use std::sync::Arc;

use k3_storage::{Change, Event, Store};
use tokio::task::JoinSet;

use crate::acts::{Acts, key};

/// Starts writers that create keys `/w/<writer>/<round>`, and return what they committed.
pub(super) fn write_on(handles: &[Arc<dyn Store>], writers: usize, rounds: usize) -> JoinSet<Vec<Event>> {
    let mut set = JoinSet::new();
    for writer in 0..writers {
        let store = Arc::clone(&handles[writer % handles.len()]);
        set.spawn(async move {
            let mut committed = Vec::new();
            for round in 0..rounds {
                let name = format!("/w/{writer}/{round:04}");
                let value = format!("{writer}.{round}");
                let revision = store.create(&name, value.clone()).await;
                committed.push(Event {
                    revision,
                    key: key(&name),
                    change: Change::Created(value.into()),
                });
            }
            committed
        });
    }
    set
}
