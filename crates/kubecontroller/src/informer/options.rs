//! What an informer is told when it is made.

use std::{fmt, sync::Arc, time::Duration};

use crate::workqueue::ExponentialBackoff;

/// The settings of an informer.
pub struct InformerOptions<T> {
    /// How often every object is told of again, as [`Delta::Sync`](super::Delta::Sync). `None` and zero: never.
    pub resync: Option<Duration>,
    /// What happens to each object before anybody sees it, such as the removal of what nobody reads.
    pub transform: Option<Transform<T>>,
    /// How many objects the server is asked for at a time. `None`: all at once, from what the server has in memory; they are
    /// read one by one all the same.
    pub page_size: Option<u32>,
    /// Whether the first objects come as events of the watch (`sendInitialEvents`). A server that does not know that is
    /// asked for a list.
    pub streaming: bool,
    /// Whether the first list is as new as anything anybody has written before it was asked for. Without this it may be as
    /// old as the server's memory, which is quick; lists after an interruption are never older than what was seen before.
    pub consistent: bool,
    /// How long a list may bring nothing new before it is given up and asked for again.
    pub list_timeout: Duration,
    /// How long the server may keep a watch. A connection that lives longer than that, and a bit, is dead.
    pub watch_timeout: Duration,
    /// How many objects may be held at most. With more of them the informer is not healthy, and holds what it has: memory
    /// does not grow without end because somebody makes objects without end.
    pub max_objects: Option<usize>,
    /// How long to wait after failures in a row. The waits are spread at random over half of their length.
    pub backoff: ExponentialBackoff,
}

/// What a program wants of all its informers, as far as they are asked for without settings of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InformerDefaults {
    /// See [`InformerOptions::resync`].
    pub resync: Option<Duration>,
    /// See [`InformerOptions::list_timeout`].
    pub list_timeout: Option<Duration>,
    /// See [`InformerOptions::max_objects`].
    pub max_objects: Option<usize>,
    /// See [`InformerOptions::streaming`].
    pub streaming: bool,
}

/// A change to each object before anybody sees it.
pub type Transform<T> = Arc<dyn Fn(&mut T) + Send + Sync>;

// --- InformerDefaults ---

impl InformerDefaults {
    /// Settings with these in them.
    pub(super) fn options<T>(&self) -> InformerOptions<T> {
        let defaults = InformerOptions::default();
        InformerOptions {
            resync: self.resync,
            list_timeout: self.list_timeout.unwrap_or(defaults.list_timeout),
            max_objects: self.max_objects,
            streaming: self.streaming,
            ..defaults
        }
    }
}

// --- InformerOptions ---

impl<T> Default for InformerOptions<T> {
    /// All at once, no resync, no limit; 60 s for a list, 290 s for a watch, 800 ms to 30 s after failures.
    fn default() -> Self {
        InformerOptions {
            resync: None,
            transform: None,
            page_size: None,
            streaming: false,
            consistent: false,
            list_timeout: Duration::from_mins(1),
            watch_timeout: Duration::from_secs(290),
            max_objects: None,
            backoff: ExponentialBackoff {
                base: Duration::from_millis(800),
                max: Duration::from_secs(30),
            },
        }
    }
}

impl<T> InformerOptions<T> {
    /// With a change to each object before anybody sees it.
    #[must_use]
    pub fn transform(mut self, transform: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// How often every object is told of again, if ever.
    pub(super) fn resync_period(&self) -> Option<Duration> {
        self.resync.filter(|period| !period.is_zero())
    }

    /// The first setting that others want otherwise.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        let transforms_differ = match (&self.transform, &other.transform) {
            (Some(one), Some(another)) => !Arc::ptr_eq(one, another),
            (None, None) => false,
            _ => true,
        };
        let settings = [
            ("resync", self.resync_period() != other.resync_period()),
            ("transform", transforms_differ),
            ("page_size", self.page_size != other.page_size),
            ("streaming", self.streaming != other.streaming),
            ("consistent", self.consistent != other.consistent),
            ("list_timeout", self.list_timeout != other.list_timeout),
            ("watch_timeout", self.watch_timeout != other.watch_timeout),
            ("max_objects", self.max_objects != other.max_objects),
            ("backoff", self.backoff != other.backoff),
        ];
        settings
            .into_iter()
            .find_map(|(name, differs)| differs.then_some(name))
    }
}

impl<T> Clone for InformerOptions<T> {
    fn clone(&self) -> Self {
        InformerOptions {
            transform: self.transform.clone(),
            ..*self
        }
    }
}

impl<T> fmt::Debug for InformerOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("resync", &self.resync)
            .field("transform", &self.transform.is_some())
            .field("page_size", &self.page_size)
            .field("streaming", &self.streaming)
            .field("consistent", &self.consistent)
            .field("list_timeout", &self.list_timeout)
            .field("watch_timeout", &self.watch_timeout)
            .field("max_objects", &self.max_objects)
            .field("backoff", &self.backoff)
            .finish()
    }
}
