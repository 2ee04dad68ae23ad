//! What candidates for a lease promise.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    LeaderElectionConfig, LeaderElectionConfigError, LeaderElector,
    simulation::{Link, Server},
};
use crate::{Clock, manager::Stop};

const SECOND: Duration = Duration::from_secs(1);

/// Candidates that write down when they begin and end to lead.
struct Election {
    server: Server,
    diary: Diary,
    begin: Instant,
    tasks: JoinSet<()>,
}

type Diary = Arc<Mutex<Vec<(&'static str, &'static str, Duration)>>>;

/// Writes the end of a turn down, however it comes.
struct Turn {
    who: &'static str,
    diary: Diary,
    begin: Instant,
    was_told: bool,
}

impl Election {
    fn new() -> Self {
        Election {
            server: Server::default(),
            diary: Diary::default(),
            begin: Instant::now(),
            tasks: JoinSet::new(),
        }
    }

    /// A candidate whose leader's work takes `ending` to end when told to.
    fn join(&mut self, who: &'static str, link: &Link, ending: Duration) -> (Stop, tokio::task::AbortHandle) {
        let mut options = LeaderElectionConfig::new("default", "test");
        options.identity = who.to_owned();
        let elector = LeaderElector::new(self.server.client(link), options).unwrap();
        let stop = Stop::new();
        let (stopped, diary, begin) = (stop.clone(), Arc::clone(&self.diary), self.begin);
        let handle = self.tasks.spawn(async move {
            let lead = |term: Stop| {
                let diary = Arc::clone(&diary);
                async move {
                    diary.lock().unwrap().push((who, "leads", begin.elapsed()));
                    let mut turn = Turn {
                        who,
                        diary,
                        begin,
                        was_told: false,
                    };
                    term.stopped().await;
                    turn.was_told = true;
                    sleep(ending).await;
                }
            };
            elector.run(&stopped, lead).await;
        });
        (stop, handle)
    }

    fn diary(&self) -> Vec<(&'static str, &'static str, Duration)> {
        self.diary.lock().unwrap().clone()
    }

    /// When somebody did that.
    async fn when(&self, who: &str, what: &str) -> Duration {
        let found = async {
            loop {
                let found = self
                    .diary()
                    .into_iter()
                    .rev()
                    .find(|entry| (entry.0, entry.1) == (who, what));
                if let Some((_, _, when)) = found {
                    return when;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let found = timeout(Duration::from_mins(1), found).await;
        found.unwrap_or_else(|_| panic!("{who} never {what}: {:?}", self.diary()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let what = if self.was_told { "ends" } else { "is dropped" };
        self.diary
            .lock()
            .unwrap()
            .push((self.who, what, self.begin.elapsed()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_the_second_waits() {
    let mut election = Election::new();
    election.join("a", &Link::default(), SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(election.diary().len(), 1);
    let lease = election.server.lease();
    assert_eq!(lease["spec"]["holderIdentity"], json!("a"));
    assert_eq!(lease["spec"]["leaseDurationSeconds"], json!(15));
    assert_eq!(lease["spec"]["leaseTransitions"], json!(0));
    // One renewal in two seconds, one look in two to four and a half.
    let requests = election.server.requests();
    assert!((150 + 60..150 + 160).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_gives_the_lease_back_when_its_tasks_have_ended() {
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
        "it was free: {ended:?} {next:?}"
    );
    assert_eq!(election.server.lease()["spec"]["leaseTransitions"], json!(1));
    election.tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_tasks_do_not_end_keeps_the_lease_until_it_lapses() {
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
async fn a_crash_is_followed_by_a_takeover_after_the_lease_and_not_before() {
    let mut election = Election::new();
    let (_, crash) = election.join("a", &Link::default(), SECOND);
    election.when("a", "leads").await;
    election.join("b", &Link::default(), SECOND);
    sleep(60 * SECOND).await;
    crash.abort();
    let crashed = election.begin.elapsed();
    let next = election.when("b", "leads").await;
    // The last renewal was up to two seconds ago; the last look comes up to four and a half late.
    assert!(
        next.saturating_sub(crashed) >= 13 * SECOND && next.saturating_sub(crashed) <= 20 * SECOND,
        "{:?}",
        next.saturating_sub(crashed)
    );
    assert_eq!(election.server.lease()["spec"]["leaseTransitions"], json!(1));
}

#[tokio::test(start_paused = true)]
async fn an_outage_stops_the_tasks_after_the_renew_deadline_and_drops_them_before_the_lease_lapses() {
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
async fn a_leader_that_lost_the_lease_waits_for_its_next_turn() {
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
async fn a_short_outage_changes_nothing() {
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
    assert_eq!(election.diary().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_takes_the_lease_away_ends_the_turn_at_once() {
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
async fn a_lease_that_is_edited_or_deleted_is_still_its_holders() {
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
    assert_eq!(election.diary().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_day_may_stand_still_or_jump() {
    let server = Server::default();
    let time = Arc::new(Mutex::new(1_700_000_000_i64));
    let told = Arc::clone(&time);
    let clock = Clock::new(move || Timestamp::from_second(*told.lock().unwrap()).unwrap());
    let mut tasks = JoinSet::new();
    let led = Arc::new(Mutex::new(Vec::new()));
    for who in ["a", "b"] {
        let mut options = LeaderElectionConfig::new("default", "test");
        options.identity = who.to_owned();
        let elector = LeaderElector::new(server.client(&Link::default()), options)
            .unwrap()
            .clock(clock.clone());
        let led = Arc::clone(&led);
        tasks.spawn(async move {
            let lead = |term: Stop| {
                led.lock().unwrap().push(who);
                async move { term.stopped().await }
            };
            elector.run(&Stop::new(), lead).await;
        });
    }
    for second in [1_700_000_000, 1_800_000_000, 1_600_000_000, 0] {
        *time.lock().unwrap() = second;
        sleep(60 * SECOND).await;
    }
    assert_eq!(led.lock().unwrap().len(), 1);
}

#[test]
fn settings_that_would_elect_nobody_or_two_are_refused() {
    let good = LeaderElectionConfig::new("default", "test");
    assert_eq!(good.check(), Ok(()));
    let mut bad = good.clone();
    bad.renew_deadline = bad.duration;
    assert_eq!(bad.check(), Err(LeaderElectionConfigError::LateRenewal));
    let mut bad = good.clone();
    bad.retry = Duration::from_millis(8400);
    assert_eq!(bad.check(), Err(LeaderElectionConfigError::RareRetry));
    let mut bad = good.clone();
    bad.name.clear();
    assert_eq!(bad.check(), Err(LeaderElectionConfigError::Nameless));
    assert_ne!(
        good.identity,
        LeaderElectionConfig::new("default", "test").identity
    );
}
