//! The recent events of a resource, for watches that start at an older resource version.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use k3_storage::Revision;
use tokio::time::Instant;

use super::event::WatchCacheEvent;

/// Events younger than this are kept, up to [`MAX_EVENTS`]. Upstream's `DefaultEventFreshDuration`.
const EVENT_FRESH_DURATION: Duration = Duration::from_secs(90);
/// The bounds of the number of events. Up to the minimum, events are kept however old they are.
const MIN_EVENTS: usize = 128;
const MAX_EVENTS: usize = 102_400;
/// The budget in bytes of objects. It applies to young events too: otherwise memory would grow with the rate of writes.
const MAX_BYTES: usize = 32 << 20;
/// When a resource has had no event for so long, only the newest events are kept, up to so many bytes: watches that were
/// interrupted by then have started again. Upstream keeps events at least this long.
const QUIET: Duration = Duration::from_secs(75);
const MAX_QUIET_BYTES: usize = 1 << 20;

/// The events after `horizon`, in order.
pub(super) struct EventWindow {
    events: VecDeque<(Instant, Arc<WatchCacheEvent>)>,
    horizon: Revision,
    /// The bytes of the objects in `events`.
    bytes: usize,
}

// --- EventWindow ---

impl EventWindow {
    /// A window without events, which begins after a revision.
    pub(super) fn new(horizon: Revision) -> Self {
        EventWindow {
            events: VecDeque::new(),
            horizon,
            bytes: 0,
        }
    }

    /// The oldest revision that a watch can begin after.
    pub(super) fn horizon(&self) -> Revision {
        self.horizon
    }

    /// The events after a revision, in order.
    pub(super) fn range_after(&self, revision: Revision) -> impl Iterator<Item = &Arc<WatchCacheEvent>> {
        let from = self
            .events
            .partition_point(|(_, event)| event.revision <= revision);
        self.events.range(from..).map(|(_, event)| event)
    }

    /// Appends an event, and removes the events that are too old, too many or too large together.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache_history.go updateCache
    pub(super) fn append(&mut self, event: Arc<WatchCacheEvent>, now: Instant) {
        self.bytes += event.object().len();
        self.events.push_back((now, event));
        while let Some((time, _)) = self.events.front()
            && self.events.len() > 1
        {
            let count = self.events.len();
            let is_young = now.duration_since(*time) < EVENT_FRESH_DURATION && count <= MAX_EVENTS;
            if (count <= MIN_EVENTS || is_young) && self.bytes <= MAX_BYTES {
                break;
            }
            self.pop_oldest();
        }
    }

    /// Removes the events that a resource without recent events need not keep, and returns them.
    pub(super) fn shrink_if_quiet(&mut self, now: Instant) -> Vec<Arc<WatchCacheEvent>> {
        let mut removed = Vec::new();
        let is_quiet = |(time, _): &(Instant, _)| now.duration_since(*time) >= QUIET;
        if !self.events.back().is_some_and(is_quiet) {
            return removed;
        }
        while self.bytes > MAX_QUIET_BYTES && self.events.len() > 1 {
            removed.extend(self.pop_oldest());
        }
        if !removed.is_empty() {
            self.events.shrink_to_fit();
        }
        removed
    }

    fn pop_oldest(&mut self) -> Option<Arc<WatchCacheEvent>> {
        let (_, event) = self.events.pop_front()?;
        self.horizon = event.revision;
        self.bytes -= event.object().len();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use k3_storage::Key;

    use super::{super::CachedObject, *};

    fn event(revision: u64, size: usize) -> Arc<WatchCacheEvent> {
        let key = Key::try_new("/registry/core/configmaps/default/a").unwrap();
        let revision = Revision::new(revision);
        let object = CachedObject::new(key, Bytes::from(vec![b' '; size]), revision);
        Arc::new(WatchCacheEvent {
            revision,
            before: None,
            after: Some(Arc::new(object)),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_resource_keeps_its_newest_events() {
        let mut window = EventWindow::new(Revision::ZERO);
        for revision in 1..=20 {
            window.append(event(revision, MAX_QUIET_BYTES / 4), Instant::now());
        }
        tokio::time::advance(QUIET / 2).await;
        window.append(event(21, MAX_QUIET_BYTES / 4), Instant::now());
        tokio::time::advance(QUIET / 2).await;
        assert_eq!(window.shrink_if_quiet(Instant::now()).len(), 0);
        assert_eq!(window.horizon(), Revision::ZERO);
        tokio::time::advance(QUIET / 2).await;
        assert_eq!(window.shrink_if_quiet(Instant::now()).len(), 17);
        assert_eq!(window.bytes, MAX_QUIET_BYTES);
        assert_eq!(window.horizon(), Revision::new(17));
        assert_eq!(window.range_after(Revision::new(17)).count(), 4);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut window = EventWindow::new(Revision::ZERO);
        let now = Instant::now();
        for revision in 1..=200 {
            window.append(event(revision, 1 << 20), now);
        }
        let bytes: usize = window.events.iter().map(|(_, event)| event.object().len()).sum();
        assert_eq!(bytes, MAX_BYTES);
        assert_eq!(window.bytes, bytes);
        // A watch can start at the revision before the first event of the window.
        assert_eq!(window.horizon(), Revision::new(200 - 32));
    }
}
