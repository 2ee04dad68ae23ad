//! A store in an etcd (version 3.4 or newer), which other programs may use too.
//!
//! Layout, all under one prefix (default `/k3/`), readable with `etcdctl`:
//!
//! | key | holds |
//! | --- | --- |
//! | `<prefix>data/<key>` | the value of an entry, byte for byte |
//! | `<prefix>meta/format` | the number of this layout |
//! | `<prefix>meta/state` | whether the store is open or being imported, and the offset of its revisions |
//! | `<prefix>meta/history-mark` | the revision and the time that compactors remember |
//! | `<prefix>meta/beat` | nothing; it is written to measure the progress of the watch |
//!
//! A revision of the store is etcd's own revision plus the offset, which is zero until an import from
//! a store that was further ahead. Each request compares the state key in the same transaction, so two
//! processes always agree on the offset and on whether an import is under way.
//!
//! One watch of etcd, over the whole prefix, feeds all watches of this process.
//!
//! Layers from the bottom: the protocol (`messages`, `connection`, `failure`), the layout (`keyspace`, `state`, `lease`),
//! transactions (`session`), the operations (`commit`, `read`, `import`), and the watches (`watcher`,
//! `event_publisher`, `replay`).

mod backend;
mod commit;
mod connection;
mod credentials;
mod event_publisher;
mod failure;
mod history_mark;
mod import;
mod keyspace;
mod lease;
mod messages;
mod options;
mod progress_notifier;
mod read;
mod recent_events;
mod replay;
mod session;
mod state;
mod store;
mod watcher;

use std::time::Duration;

use k3_task::Backoff;

pub use self::{
    backend::EtcdBackend,
    options::{ClientCertificate, EtcdOptions, Login, Pem, Tls},
    store::EtcdStore,
};

/// The name of this backend in health reports and errors.
const BACKEND: &str = "etcd";
/// Delays before a broken watch or a failed request of the background work is tried again.
const RETRY_BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(2));
