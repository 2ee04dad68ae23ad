//! The options of informers.

use std::{fmt, sync::Arc, time::Duration};

use crate::Backoff;

/// The options of an informer.
pub struct InformerOptions<T> {
    /// How often every object is sent to the handlers again, as [`Delta::Sync`](super::Delta::Sync). `None` or zero disables
    /// the resync. A resync reads the store, not the server.
    pub resync: Option<Duration>,
    /// Modifies each object before it is stored, for example to drop fields that no controller reads.
    pub transform: Option<Transform<T>>,
    /// The `limit` of list requests. `None` requests everything in one response, which the server can answer from its watch
    /// cache; items are decoded one by one in both cases, so paging does not save memory here.
    pub page_size: Option<u32>,
    /// Whether the initial list is a streaming list (`sendInitialEvents`, KEP-3157). If the server does not support it, the
    /// informer falls back to a plain list.
    pub streaming: bool,
    /// Whether the initial list must include every write before it (`resourceVersion` unset). Otherwise the server may answer
    /// from its watch cache, which is cheaper. Relists are always consistent, so that state never moves backwards.
    pub consistent: bool,
    /// How long a list may make no progress before it is aborted and retried.
    pub list_timeout: Duration,
    /// The `timeoutSeconds` of watch requests. A watch that is open 5 s longer is aborted: its connection is dead.
    pub watch_timeout: Duration,
    /// The maximum number of objects in the store. Beyond it the informer reports [`InformerHealth::Failing`] and keeps what it
    /// has. This bounds the memory of a controller when objects are created without limit.
    ///
    /// [`InformerHealth::Failing`]: super::InformerHealth::Failing
    pub max_objects: Option<usize>,
    /// The backoff after failures. Each delay is chosen at random between half of it and all of it.
    pub backoff: Backoff,
}

/// Options that a program sets for all its informers that are requested without options.
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

/// Modifies an object before it is stored (client-go's `TransformFunc`).
#[doc(alias = "TransformFunc")]
pub type Transform<T> = Arc<dyn Fn(&mut T) + Send + Sync>;

// --- InformerDefaults ---

impl InformerDefaults {
    /// Informer options with these defaults.
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
    /// One unpaged list, no resync, no object limit. Timeouts: 60 s for a list, 290 s for a watch. Backoff: 800 ms to 30 s.
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
            backoff: Backoff::exponential(Duration::from_millis(800), Duration::from_secs(30)),
        }
    }
}

impl<T> InformerOptions<T> {
    /// Sets the transform.
    #[must_use]
    pub fn transform(mut self, transform: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// The resync period, unless resync is disabled.
    pub(super) fn resync_period(&self) -> Option<Duration> {
        self.resync.filter(|period| !period.is_zero())
    }

    /// The name of the first option that differs.
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
