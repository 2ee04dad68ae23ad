//! Fault injection.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::recorded_request::RecordedRequest;

/// The injected faults of a [`FakeApi`](super::FakeApi).
///
/// Rules are evaluated in the order in which they were added; the first matching rule that is not used up applies.
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    watches: Mutex<WatchFaults>,
    /// Wakes watches for reasons other than changes of objects.
    signal: watch::Sender<Signal>,
}

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request fails with this status code and has no effect.
    Status(u16),
    /// The connection breaks before the request has an effect.
    ConnectionReset,
    /// The request takes effect, but the connection breaks before the response: the client cannot know.
    LostResponse,
    /// The request takes effect only after this time.
    Delay(Duration),
    /// The request takes effect, but its response is delayed by this time and may be stale.
    SlowResponse(Duration),
    /// The request has no effect and never gets a response.
    Hang,
}

/// Selects requests. Default: all.
#[derive(Clone, Debug, Default)]
pub struct RequestMatcher {
    verbs: Vec<&'static str>,
    resource: Option<String>,
    name: Option<String>,
    agent: Option<String>,
    skip: usize,
    times: Option<usize>,
}

struct Rule {
    requests: RequestMatcher,
    fault: Fault,
    /// The number of matching requests so far.
    seen: usize,
}

/// The faults of watches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchFaults {
    /// A watch ends after this many events.
    pub(super) end_after: Option<usize>,
    /// Each event is sent this many additional times.
    pub(super) duplicates: usize,
    /// A resumed watch starts with this many earlier events.
    pub(super) replays: usize,
    /// This many frames are truncated, which ends their watch.
    truncations: usize,
}

/// Counters of requested faults. A watch compares them with those at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) version: u64,
    pub(super) drops: u64,
    pub(super) breaks: u64,
    pub(super) expiries: u64,
    pub(super) bookmarks: u64,
}

/// The verbs of writes.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

// --- Faults ---

impl Faults {
    pub(super) fn new() -> Self {
        Faults {
            rules: Mutex::default(),
            watches: Mutex::default(),
            signal: watch::Sender::default(),
        }
    }

    /// Injects a fault into matching requests.
    pub fn on(&self, requests: RequestMatcher, fault: Fault) {
        self.rules().push(Rule {
            requests,
            fault,
            seen: 0,
        });
    }

    /// The next requests fail with a status code.
    pub fn fail_next(&self, times: usize, code: u16) {
        self.on(RequestMatcher::all().times(times), Fault::Status(code));
    }

    /// Every write after the first `n` fails without effect, as if the process had died before it.
    pub fn reject_writes_after(&self, n: usize) {
        self.on(RequestMatcher::writes().skip(n), Fault::Status(503));
    }

    /// Write `n + 1` takes effect without a response and all later ones fail, as if the process had died after it.
    pub fn lose_write_after(&self, n: usize) {
        self.on(RequestMatcher::writes().skip(n).times(1), Fault::LostResponse);
        self.on(RequestMatcher::writes().skip(n), Fault::Status(503));
    }

    /// Delays the responses of lists, which are then stale by this time.
    pub fn slow_list(&self, time: Duration) {
        self.on(RequestMatcher::verb("list"), Fault::SlowResponse(time));
    }

    /// The next watches fail with HTTP 410, as proxies and older servers do.
    pub fn reject_watches(&self, times: usize) {
        self.on(RequestMatcher::verb("watch").times(times), Fault::Status(410));
    }

    /// No request gets a response any more.
    pub fn hang(&self) {
        self.on(RequestMatcher::all(), Fault::Hang);
    }

    /// Ends all running watches without an error. Events that were not delivered are lost.
    pub fn drop_watches(&self) {
        self.signal.send_modify(|signal| signal.drops += 1);
    }

    /// Breaks the connections of all running watches.
    pub fn break_watches(&self) {
        self.signal.send_modify(|signal| signal.breaks += 1);
    }

    /// Ends each watch after this many events. Zero disables the fault.
    pub fn drop_watches_every(&self, events: usize) {
        self.watch_faults().end_after = (events > 0).then_some(events);
    }

    /// Truncates the next event frames, which ends their watches.
    pub fn truncate_frames(&self, frames: usize) {
        self.watch_faults().truncations = frames;
    }

    /// Sends each event this many additional times.
    pub fn duplicate_events(&self, more: usize) {
        self.watch_faults().duplicates = more;
    }

    /// A resumed watch starts with this many earlier events.
    pub fn replay_events(&self, events: usize) {
        self.watch_faults().replays = events;
    }

    /// Removes all faults. Hanging requests keep hanging.
    pub fn clear(&self) {
        self.rules().clear();
        *self.watch_faults() = WatchFaults::default();
    }

    /// The fault of a request.
    pub(super) fn of(&self, request: &RecordedRequest) -> Option<Fault> {
        let mut found = None;
        for rule in self.rules().iter_mut().filter(|rule| rule.requests.fits(request)) {
            // Every matching rule counts the request, even if an earlier rule applies.
            rule.seen += 1;
            let nth = rule.seen - 1;
            let skip = rule.requests.skip;
            let times = rule.requests.times.unwrap_or(usize::MAX);
            if nth >= skip && nth - skip < times && found.is_none() {
                found = Some(rule.fault);
            }
        }
        found
    }

    pub(super) fn of_watches(&self) -> WatchFaults {
        *self.watch_faults()
    }

    /// Whether to truncate the next frame.
    pub(super) fn truncates(&self) -> bool {
        let mut watches = self.watch_faults();
        let truncations = watches.truncations > 0;
        watches.truncations = watches.truncations.saturating_sub(1);
        truncations
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    pub(super) fn signal(&self, change: impl FnOnce(&mut Signal)) {
        self.signal.send_modify(change);
    }

    fn rules(&self) -> parking_lot::MutexGuard<'_, Vec<Rule>> {
        self.rules.lock()
    }

    fn watch_faults(&self) -> parking_lot::MutexGuard<'_, WatchFaults> {
        self.watches.lock()
    }
}

// --- RequestMatcher ---

impl RequestMatcher {
    /// All requests.
    pub fn all() -> Self {
        RequestMatcher::default()
    }

    /// All writes.
    pub fn writes() -> Self {
        RequestMatcher {
            verbs: WRITES.to_vec(),
            ..RequestMatcher::default()
        }
    }

    /// Requests with an RBAC verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`.
    pub fn verb(verb: &'static str) -> Self {
        RequestMatcher {
            verbs: vec![verb],
            ..RequestMatcher::default()
        }
    }

    /// Only requests for a resource: `pods`, `pods/status` or `deployments.apps`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only requests for objects of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only requests of clients with this user agent; see `FakeApi::client_with_user_agent`.
    #[must_use]
    pub fn user_agent(mut self, agent: &str) -> Self {
        self.agent = Some(agent.to_owned());
        self
    }

    /// Skips the first `n` matching requests.
    #[must_use]
    pub fn skip(mut self, n: usize) -> Self {
        self.skip = n;
        self
    }

    /// Applies to at most `n` requests.
    #[must_use]
    pub fn times(mut self, n: usize) -> Self {
        self.times = Some(n);
        self
    }

    fn fits(&self, request: &RecordedRequest) -> bool {
        let is_of = |resource: &String| request.is_for(resource);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self.resource.as_ref().is_none_or(is_of)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
            && self.agent.as_ref().is_none_or(|agent| *agent == request.agent)
    }
}
