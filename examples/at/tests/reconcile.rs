//! Tests of the `At` controller.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use at::{At, AtPhase, AtReconciler, AtSpec};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kubecontroller::{
    Clock,
    controller::{ErrorClass, Outcome},
    testing::{FakeApi, Fault, RequestMatcher},
};

/// A fake API with an `At`, and a clock that the test sets.
struct TestCluster {
    api: FakeApi,
    ats: AtReconciler,
    now: Arc<AtomicI64>,
}

impl TestCluster {
    fn new(schedule: &str) -> Self {
        let now = Arc::new(AtomicI64::new(0));
        let seconds = now.clone();
        let clock = Clock::new(move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap());
        let api = FakeApi::with_clock(clock.clone());
        let spec = AtSpec {
            schedule: schedule.to_owned(),
            command: "echo hello".to_owned(),
        };
        let mut at = At::new("hello", spec);
        at.metadata.namespace = Some("default".to_owned());
        api.put(&at);
        let ats = AtReconciler::new(api.client(), clock);
        TestCluster { api, ats, now }
    }

    fn at(&self) -> At {
        self.api.get("default", "hello").unwrap()
    }

    fn phase(&self) -> AtPhase {
        self.at().status.unwrap_or_default().phase
    }

    fn pods(&self) -> Vec<Pod> {
        self.api.list()
    }
}

#[tokio::test]
async fn creates_pod_at_scheduled_second() {
    let scene = TestCluster::new("1970-01-01T00:00:20Z");
    let outcome = scene.ats.reconcile(&scene.at()).await.unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(20)));
    scene.now.store(19, Ordering::Relaxed);
    assert_eq!(
        scene.ats.reconcile(&scene.at()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(1))
    );
    assert_eq!((scene.phase(), scene.pods().len()), (AtPhase::Pending, 0));
    scene.now.store(20, Ordering::Relaxed);
    assert_eq!(scene.ats.reconcile(&scene.at()).await.unwrap(), Outcome::Done);
    assert_eq!(scene.phase(), AtPhase::Done);
    let pods = scene.pods();
    assert_eq!(pods[0].metadata.name.as_deref(), Some("hello-pod"));
    assert_eq!(
        pods[0].spec.as_ref().unwrap().containers[0]
            .command
            .as_deref()
            .unwrap(),
        ["echo", "hello"]
    );
    assert_eq!(
        pods[0].metadata.owner_references.as_ref().unwrap()[0].uid,
        scene.at().metadata.uid.unwrap()
    );
}

#[tokio::test]
async fn invalid_schedule_is_permanent_error_in_status() {
    let scene = TestCluster::new("tomorrow");
    let error = scene.ats.reconcile(&scene.at()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Permanent);
    assert!(scene.at().status.unwrap().message.contains("tomorrow"));
    assert!(scene.pods().is_empty());
}

#[tokio::test]
async fn creates_one_pod_whichever_write_fails() {
    for (nth, fault) in (0..3).flat_map(|nth| [(nth, Fault::Status(503)), (nth, Fault::LostResponse)]) {
        let scene = TestCluster::new("1970-01-01T00:00:00Z");
        scene
            .api
            .faults()
            .on(RequestMatcher::writes().skip(nth).times(1), fault);
        scene.ats.reconcile(&scene.at()).await.unwrap_err();
        scene.ats.reconcile(&scene.at()).await.unwrap();
        assert_eq!(
            (scene.phase(), scene.pods().len()),
            (AtPhase::Done, 1),
            "{fault:?} of write {nth}"
        );
        let writes = scene.api.writes().len();
        scene.ats.reconcile(&scene.at()).await.unwrap();
        assert_eq!(scene.api.writes().len(), writes, "a finished At is not written");
    }
}

#[tokio::test]
async fn does_not_adopt_pod_of_another_owner() {
    let scene = TestCluster::new("1970-01-01T00:00:00Z");
    let mut other = at::pod(&scene.at()).unwrap();
    other.metadata.owner_references = None;
    scene.api.put(&other);
    let error = scene.ats.reconcile(&scene.at()).await.unwrap_err();
    assert!(error.to_string().contains("another owner"), "{error}");
    assert_eq!(scene.phase(), AtPhase::Running);
}
