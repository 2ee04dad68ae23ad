//! Watches inside one process, for backends that see every commit as it happens.
//!
//! Promises: publishing never waits for a watcher; a watcher that falls behind loses nothing, it is
//! fed from the history until it has caught up; the cost of a commit grows with the watchers it
//! concerns (a pointer copied for each), not with those it does not.

mod dispatch;
mod watch;

pub(crate) use self::{
    dispatch::EventFeed,
    watch::{FeedWatch, WatchHistory},
};
