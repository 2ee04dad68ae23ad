//! What goes wrong, when a test says so.

use std::{sync::Mutex, time::Duration};

use tokio::sync::watch;

use super::recorded_request::RecordedRequest;

/// What goes wrong. Clones of an API share one.
///
/// Rules of requests are asked in the order they were given; the first one that fits, and is not used up, is followed.
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
    watches: Mutex<WatchFaults>,
    /// Tells watches that something other than an object changed.
    signal: watch::Sender<Signal>,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this code, and does nothing.
    Status(u16),
    /// The connection breaks before it does anything.
    Broken,
    /// It does what it asks, and the connection breaks before the answer: the caller cannot know.
    Lost,
    /// It waits this long before it does anything.
    Late(Duration),
    /// It does what it asks, and its answer takes this long: what is answered is no longer new.
    SlowAnswer(Duration),
    /// It is never answered, and does nothing.
    Hang,
}

/// Which requests a fault befalls. All, unless told otherwise.
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
    /// How many requests fitted so far.
    seen: usize,
}

/// How watches misbehave from now on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchFaults {
    /// A watch ends after this many events.
    pub(super) end_after: Option<usize>,
    /// Each event is sent this many times more.
    pub(super) duplicates: usize,
    /// A watch begins with this many events that it has seen already.
    pub(super) replays: usize,
    /// This many frames are cut in the middle, and the connection with them.
    tears: usize,
}

/// How often each of these was asked for. A watch compares it with what it was at its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signal {
    pub(super) version: u64,
    pub(super) drops: u64,
    pub(super) breaks: u64,
    pub(super) expiries: u64,
    pub(super) bookmarks: u64,
}

/// The verbs that change something.
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

    /// These requests suffer this fault from now on.
    pub fn on(&self, requests: RequestMatcher, fault: Fault) {
        self.rules().push(Rule {
            requests,
            fault,
            seen: 0,
        });
    }

    /// The next requests are refused with a code.
    pub fn fail_next(&self, times: usize, code: u16) {
        self.on(RequestMatcher::all().times(times), Fault::Status(code));
    }

    /// Every write after the first `n` is refused, and does nothing: the process died before it.
    pub fn refuse_writes_after(&self, n: usize) {
        self.on(RequestMatcher::writes().skip(n), Fault::Status(503));
    }

    /// The write after the first `n` is done, but not answered, and all later ones are refused: the process died after it.
    pub fn lose_write_after(&self, n: usize) {
        self.on(RequestMatcher::writes().skip(n).times(1), Fault::Lost);
        self.on(RequestMatcher::writes().skip(n), Fault::Status(503));
    }

    /// Lists take this long to be answered; what they show is as old.
    pub fn slow_list(&self, time: Duration) {
        self.on(RequestMatcher::verb("list"), Fault::SlowAnswer(time));
    }

    /// The next watches are refused with HTTP 410, as proxies and older servers do.
    pub fn refuse_watches(&self, times: usize) {
        self.on(RequestMatcher::verb("watch").times(times), Fault::Status(410));
    }

    /// Nothing is answered any more.
    pub fn hang(&self) {
        self.on(RequestMatcher::all(), Fault::Hang);
    }

    /// All that go on end now, without a word. What they have not delivered yet is not delivered.
    pub fn drop_watches(&self) {
        self.signal.send_modify(|signal| signal.drops += 1);
    }

    /// The connections of all watches break now.
    pub fn break_watches(&self) {
        self.signal.send_modify(|signal| signal.breaks += 1);
    }

    /// Each watch ends after this many events. Zero: not at all.
    pub fn drop_watches_every(&self, events: usize) {
        self.watch_faults().end_after = (events > 0).then_some(events);
    }

    /// The next events are cut in the middle, and the connection with them.
    pub fn tear_frames(&self, frames: usize) {
        self.watch_faults().tears = frames;
    }

    /// Each event is sent this many times more.
    pub fn duplicate_events(&self, more: usize) {
        self.watch_faults().duplicates = more;
    }

    /// A watch that resumes is sent this many events that came before.
    pub fn replay_events(&self, events: usize) {
        self.watch_faults().replays = events;
    }

    /// Nothing goes wrong any more. What hangs goes on hanging.
    pub fn clear(&self) {
        self.rules().clear();
        *self.watch_faults() = WatchFaults::default();
    }

    /// What is to happen to a request.
    pub(super) fn of(&self, request: &RecordedRequest) -> Option<Fault> {
        let mut found = None;
        for rule in self.rules().iter_mut().filter(|rule| rule.requests.fits(request)) {
            // Every rule counts what fits it, also where an earlier one was followed.
            rule.seen += 1;
            let nth = rule.seen - 1;
            let (skip, times) = (rule.requests.skip, rule.requests.times.unwrap_or(usize::MAX));
            if nth >= skip && nth - skip < times && found.is_none() {
                found = Some(rule.fault);
            }
        }
        found
    }

    pub(super) fn of_watches(&self) -> WatchFaults {
        *self.watch_faults()
    }

    /// Whether the next frame is to be torn.
    pub(super) fn tears(&self) -> bool {
        let mut watches = self.watch_faults();
        let tears = watches.tears > 0;
        watches.tears = watches.tears.saturating_sub(1);
        tears
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Signal)) {
        self.signal.send_modify(change);
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.rules
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn watch_faults(&self) -> std::sync::MutexGuard<'_, WatchFaults> {
        self.watches
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

// --- RequestMatcher ---

impl RequestMatcher {
    /// Every request.
    pub fn all() -> Self {
        RequestMatcher::default()
    }

    /// RequestMatcher that change something.
    pub fn writes() -> Self {
        RequestMatcher {
            verbs: WRITES.to_vec(),
            ..RequestMatcher::default()
        }
    }

    /// RequestMatcher with this verb, as RBAC calls them: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`.
    pub fn verb(verb: &'static str) -> Self {
        RequestMatcher {
            verbs: vec![verb],
            ..RequestMatcher::default()
        }
    }

    /// Only for this resource: `pods`, `pods/status` or `deployments.apps`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only for the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only from clients whose user agent is this (see `FakeApi::client_with_user_agent`).
    #[must_use]
    pub fn user_agent(mut self, agent: &str) -> Self {
        self.agent = Some(agent.to_owned());
        self
    }

    /// The first `n` pass.
    #[must_use]
    pub fn skip(mut self, n: usize) -> Self {
        self.skip = n;
        self
    }

    /// At most this many.
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
