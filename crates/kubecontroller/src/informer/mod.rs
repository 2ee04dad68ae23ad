//! Shared informers: the objects of a kind, kept up to date in memory.
//!
//! An [`Informer`] lists the objects of a kind and scope once, then watches them, and keeps them in a [`Store`]. It is what
//! client-go calls a `SharedIndexInformer`: reflector, indexer and event handlers in one. A [`SharedInformerFactory`] creates
//! informers and shares them: every caller that asks for the same kind, stored type and scope gets the same informer. Fifty
//! controllers that read Pods cause one watch, and each event is decoded once.
//!
//! Guarantees:
//! - Deltas arrive in the order of the changes. Each one starts from the state that the one before it left, so replaying all
//!   of them on an empty map yields the contents of the store.
//! - Changes that were missed while the connection was down are recovered by a relist. An object that was deleted meanwhile
//!   arrives as [`Delta::Deleted`] with its last known state (client-go's `DeletedFinalStateUnknown`). An object that was
//!   deleted and recreated under the same name arrives as a deletion and an addition. State never moves backwards: an event
//!   that is older than the store is dropped.
//! - A handler that is added late first receives every object in the store, then every later change: no gap, no duplicate.
//! - Lists are decoded item by item while they arrive. A whole list response is never held in memory.
//! - Each informer has its own backoff and its own health. An informer that cannot list its kind does not delay the others.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kubecontroller::informer::{InformerScope, SharedInformerFactory};
//!
//! # async fn run(client: kube::Client) {
//! let informers = SharedInformerFactory::new(client);
//! let pods = informers.typed::<Pod>(InformerScope::default().namespace("shop"));
//! let registration = pods.add_event_handler(|delta| println!("{:?}", delta.object().metadata.name));
//! informers.start();
//! registration.wait_for_sync().await;
//! println!("{} pods", pods.store().len());
//! # }
//! ```
//!
//! [`Store`]: crate::store::Store

mod api_list_watch;
mod chunk_buffer;
mod decode;
mod decode_pool;
mod delta;
mod event_handlers;
mod factory;
mod factory_constructors;
mod health;
mod identity;
mod list_items;
mod list_watch;
mod options;
mod producer_stream;
mod reflector;
mod scope;
mod shared_informer;
mod store_updater;
#[cfg(test)]
mod tests;
mod watch_lines;
mod watcher_stream;

pub use self::delta::Delta;
pub use self::event_handlers::{DeltaStream, EventHandlerRegistration};
pub use self::factory::{InformerOptionsConflict, SharedInformerFactory};
pub use self::health::{InformerHealth, InformerStats};
pub use self::list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent};
pub use self::options::{InformerDefaults, InformerOptions, Transform};
pub use self::scope::InformerScope;
pub use self::shared_informer::Informer;
pub use self::watcher_stream::WatcherStream;
