//! Watches for backends that observe every commit in order.
//!
//! Guarantees: publishing never waits for a watcher; a watcher that falls behind loses no events, but reads the history until
//! it has caught up; the cost of a commit depends only on the number of watchers of its key (one pointer copy each).

mod dispatch;
mod watch;

pub(crate) use self::{
    dispatch::EventFeed,
    watch::{FeedWatch, WatchHistory},
};
