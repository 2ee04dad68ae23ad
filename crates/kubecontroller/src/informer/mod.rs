//! Objects of a kind, kept up to date in memory.
//!
//! An [`Informer`] lists the objects of a kind and scope once, then watches them, and keeps them in a [`Store`]. [`SharedInformerFactory`]
//! hands them out: whoever asks for the same kind, type and scope gets the same informer, so that fifty controllers of a kind
//! have one watch and one decoding of each event.
//!
//! Promises:
//! - Deltas come in the order of the changes, and each continues where the one before it ended: applied one after the other
//!   they lead from nothing to what the store holds.
//! - What was missed while the server was away is found by the next list: objects that have gone meanwhile arrive as
//!   [`Delta::Deleted`] with their last known state, and one that was made anew under the same name as a deletion and an
//!   addition. Nothing goes back in time: an old event that arrives again is not heard.
//! - A handler that comes late is told first what is there, and then of every change after that: no gap, no repetition.
//! - A list is read item by item while it arrives; it is never in memory as a whole.
//! - Each informer has its own back-off and its own health. One that cannot reach its kind does not hold up others.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kubecontroller::informer::{SharedInformerFactory, InformerScope};
//!
//! # async fn run(client: kube::Client) {
//! let informers = SharedInformerFactory::new(client);
//! let pods = informers.typed::<Pod>(InformerScope::default().namespace("shop"));
//! let changes = pods.add_event_handler(|delta| println!("{:?}", delta.object().metadata.name));
//! informers.start();
//! changes.synced().await;
//! println!("{} pods", pods.store().len());
//! # }
//! ```
//!
//! [`Store`]: crate::store::Store

mod adapter;
mod api;
mod apply;
mod decode;
mod delta;
mod factory;
mod flow;
mod health;
mod identity;
mod informer;
mod items;
mod kinds;
mod lines;
mod list_watch;
mod options;
mod pieces;
mod pool;
mod reflector;
mod scope;
mod subscribers;
#[cfg(test)]
mod tests;

pub use self::adapter::WatcherStream;
pub use self::delta::Delta;
pub use self::factory::{InformerOptionsConflict, SharedInformerFactory};
pub use self::health::{InformerHealth, InformerStats};
pub use self::informer::Informer;
pub use self::list_watch::{ListWatch, ListWatchError, ListWatchStart, WatchEvent};
pub use self::options::{InformerDefaults, InformerOptions, Transform};
pub use self::scope::InformerScope;
pub use self::subscribers::{DeltaStream, EventHandlerRegistration};
