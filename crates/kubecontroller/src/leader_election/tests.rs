//! Tests of leader election.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    LeaderElectionConfig, LeaderElectionConfigError, LeaderElector,
    simulation::{LeaseServer, Link},
};
use crate::{Clock, manager::Stop};

const SECOND: Duration = Duration::from_secs(1);

/// Candidates that log when they start and stop leading.
struct Election {
    server: LeaseServer,
    log: TermLog,
    begin: Instant,
    tasks: JoinSet<()>,
}

type TermLog = Arc<Mutex<Vec<(&'static str, &'static str, Duration)>>>;

/// Logs the end of a term when it is dropped.
struct LoggedTerm {
    candidate: &'static str,
    log: TermLog,
    begin: Instant,
    was_stopped: bool,
}

impl Election {
    fn new() -> Self {
        Election {
            server: LeaseServer::default(),
            log: TermLog::default(),
            begin: Instant::now(),
            tasks: JoinSet::new(),
        }
    }

    /// Adds a candidate whose tasks take `ending` to end after their stop.
    fn join(
        &mut self,
        candidate: &'static str,
        link: &Link,
        ending: Duration,
    ) -> (Stop, tokio::task::AbortHandle) {
        let mut options = LeaderElectionConfig::new("default", "test");
        options.identity = candidate.to_owned();
        let elector = LeaderElector::new(self.server.client(link), options).unwrap();
        let stop = Stop::new();
        let stopped = stop.clone();
        let log = Arc::clone(&self.log);
        let begin = self.begin;
        let handle = self.tasks.spawn(async move {
            let lead = |term: Stop| {
                let log = Arc::clone(&log);
                async move {
                    log.lock().push((candidate, "leads", begin.elapsed()));
                    let mut logged = LoggedTerm {
                        candidate,
                        log,
                        begin,
                        was_stopped: false,
                    };
                    term.stopped().await;
                    logged.was_stopped = true;
                    sleep(ending).await;
                }
            };
            elector.run(&stopped, lead).await;
        });
        (stop, handle)
    }

    fn log(&self) -> Vec<(&'static str, &'static str, Duration)> {
        self.log.lock().clone()
    }

    /// Waits for an entry of the log and returns its time.
    async fn when(&self, candidate: &str, what: &str) -> Duration {
        let found = async {
            loop {
                let found = self
                    .log()
                    .into_iter()
                    .rev()
                    .find(|entry| (entry.0, entry.1) == (candidate, what));
                if let Some((_, _, when)) = found {
                    return when;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let found = timeout(Duration::from_mins(1), found).await;
        found.unwrap_or_else(|_| panic!("{candidate} never {what}: {:?}", self.log()))
    }
}

impl Drop for LoggedTerm {
    fn drop(&mut self) {
        let what = if self.was_stopped { "ends" } else { "is dropped" };
        self.log.lock().push((self.candidate, what, self.begin.elapsed()));
    }
}

#[tokio::test(start_paused = true)]
async fn first_candidate_leads_and_second_waits() {
    let mut election = Election::new();
    election.join("a", &Link::default(), SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(election.log().len(), 1);
    let lease = election.server.lease();
    assert_eq!(lease["spec"]["holderIdentity"], json!("a"));
    assert_eq!(lease["spec"]["leaseDurationSeconds"], json!(15));
    assert_eq!(lease["spec"]["leaseTransitions"], json!(0));
    // The leader renews every 2 seconds; the other candidate checks every 2 to 4.4 seconds.
    let requests = election.server.requests();
    assert!((150 + 60..150 + 160).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn stopped_leader_releases_lease_after_its_tasks() {
    let mut election = Election::new();
    let (stop, _) = election.join("a", &Link::default(), 20 * SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    sleep(10 * SECOND).await;
    stop.stop(30 * SECOND);
    let ended = election.when("a", "ends").await;
    let next = election.when("b", "leads").await;
    assert!(ended >= 30 * SECOND && next >= ended, "{ended:?} {next:?}");
    assert!(
        next.saturating_sub(ended) < 5 * SECOND,
        "the lease was released: {ended:?} {next:?}"
    );
    assert_eq!(election.server.lease()["spec"]["leaseTransitions"], json!(1));
    election.tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lease_expires_if_tasks_do_not_end_by_the_deadline() {
    let mut election = Election::new();
    let (stop, _) = election.join("a", &Link::default(), 100 * SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    stop.stop(3 * SECOND);
    election.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(election.server.lease()["spec"]["holderIdentity"], json!("a"));
    let next = election.when("b", "leads").await;
    assert!(next >= 15 * SECOND, "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn takeover_after_crash_waits_for_lease_duration() {
    let mut election = Election::new();
    let (_, crash) = election.join("a", &Link::default(), SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    sleep(60 * SECOND).await;
    crash.abort();
    let crashed = election.begin.elapsed();
    let next = election.when("b", "leads").await;
    // The last renewal was up to 2 seconds before the crash; the next check is up to 4.4 seconds late.
    assert!(
        next.saturating_sub(crashed) >= 13 * SECOND && next.saturating_sub(crashed) <= 20 * SECOND,
        "{:?}",
        next.saturating_sub(crashed)
    );
    assert_eq!(election.server.lease()["spec"]["leaseTransitions"], json!(1));
}

#[tokio::test(start_paused = true)]
async fn outage_stops_tasks_after_renew_deadline_and_drops_them_before_expiry() {
    for (ending, end, latest) in [(SECOND, "ends", 13), (100 * SECOND, "ends", 15)] {
        let mut election = Election::new();
        let link = Link::default();
        election.join("a", &link, ending);
        election.when("a", "leads").await;
        sleep(30 * SECOND).await;
        link.cut();
        let cut = election.begin.elapsed();
        election.join("b", &Link::default(), SECOND);
        let ended = election.when("a", end).await.saturating_sub(cut);
        assert!(ended >= 8 * SECOND && ended < latest * SECOND, "{ended:?}");
        let next = election.when("b", "leads").await.saturating_sub(cut);
        assert!(next > ended && next >= 13 * SECOND, "{ended:?} {next:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn former_leader_campaigns_again() {
    let mut election = Election::new();
    let link = Link::default();
    election.join("a", &link, SECOND);
    election.when("a", "leads").await;
    link.cut();
    election.when("a", "ends").await;
    sleep(60 * SECOND).await;
    link.mend();
    let back = election.begin.elapsed();
    sleep(10 * SECOND).await;
    assert!(election.when("a", "leads").await >= back);
}

#[tokio::test(start_paused = true)]
async fn short_outage_does_not_end_the_term() {
    let mut election = Election::new();
    let link = Link::default();
    election.join("a", &link, SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    for _ in 0..10 {
        link.cut();
        sleep(5 * SECOND).await;
        link.mend();
        sleep(5 * SECOND).await;
    }
    assert_eq!(election.log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn foreign_holder_ends_the_term_at_once() {
    let mut election = Election::new();
    election.join("a", &Link::default(), 100 * SECOND);
    election.when("a", "leads").await;
    election
        .server
        .edit(|lease| lease.as_mut().unwrap()["spec"]["holderIdentity"] = json!("admin"));
    election.when("a", "is dropped").await;
    assert!(election.begin.elapsed() < 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn holder_keeps_edited_or_deleted_lease() {
    let mut election = Election::new();
    election.join("a", &Link::default(), SECOND);
    election.when("a", "leads").await;
    election
        .server
        .edit(|lease| lease.as_mut().unwrap()["metadata"]["labels"] = json!({"team": "blue"}));
    sleep(20 * SECOND).await;
    assert_eq!(
        election.server.lease()["metadata"]["labels"]["team"],
        json!("blue")
    );
    election.server.edit(|lease| *lease = None);
    sleep(20 * SECOND).await;
    assert_eq!(election.server.lease()["spec"]["holderIdentity"], json!("a"));
    assert_eq!(election.log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wall_clock_may_stand_still_or_jump() {
    let server = LeaseServer::default();
    let time = Arc::new(Mutex::new(1_700_000_000_i64));
    let current = Arc::clone(&time);
    let clock = Clock::new(move || Timestamp::from_second(*current.lock()).unwrap());
    let mut tasks = JoinSet::new();
    let led = Arc::new(Mutex::new(Vec::new()));
    for candidate in ["a", "b"] {
        let mut options = LeaderElectionConfig::new("default", "test");
        options.identity = candidate.to_owned();
        let elector = LeaderElector::new(server.client(&Link::default()), options)
            .unwrap()
            .clock(clock.clone());
        let led = Arc::clone(&led);
        tasks.spawn(async move {
            let lead = |term: Stop| {
                led.lock().push(candidate);
                async move { term.stopped().await }
            };
            elector.run(&Stop::new(), lead).await;
        });
    }
    for second in [1_700_000_000, 1_800_000_000, 1_600_000_000, 0] {
        *time.lock() = second;
        sleep(60 * SECOND).await;
    }
    assert_eq!(led.lock().len(), 1);
}

#[test]
fn unsafe_configurations_are_rejected() {
    let good = LeaderElectionConfig::new("default", "test");
    assert_eq!(good.validate(), Ok(()));
    let mut bad = good.clone();
    bad.renew_deadline = bad.duration;
    assert_eq!(bad.validate(), Err(LeaderElectionConfigError::LateRenewal));
    let mut bad = good.clone();
    bad.retry = Duration::from_millis(8400);
    assert_eq!(bad.validate(), Err(LeaderElectionConfigError::RareRetry));
    let mut bad = good.clone();
    bad.name.clear();
    assert_eq!(bad.validate(), Err(LeaderElectionConfigError::Nameless));
    assert_ne!(
        good.identity,
        LeaderElectionConfig::new("default", "test").identity
    );
}
