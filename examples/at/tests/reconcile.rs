//! An `At`, from its creation to its pod.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use at::{At, AtPhase, AtSpec, Ats};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kubecontroller::{
    Clock,
    controller::{ErrorClass, Outcome},
    testing::{FakeApi, Fault, RequestMatcher},
};

/// An API with an `At`, and a clock that the test sets.
struct Scene {
    api: FakeApi,
    ats: Ats,
    now: Arc<AtomicI64>,
}

impl Scene {
    fn new(schedule: &str) -> Self {
        let now = Arc::new(AtomicI64::new(0));
        let told = now.clone();
        let clock = Clock::new(move || Timestamp::from_second(told.load(Ordering::Relaxed)).unwrap());
        let api = FakeApi::with_clock(clock.clone());
        let spec = AtSpec {
            schedule: schedule.to_owned(),
            command: "echo hello".to_owned(),
        };
        let mut at = At::new("hello", spec);
        at.metadata.namespace = Some("default".to_owned());
        api.put(&at);
        let ats = Ats::new(api.client(), clock);
        Scene { api, ats, now }
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
async fn the_pod_is_made_at_that_second_and_not_before() {
    let scene = Scene::new("1970-01-01T00:00:20Z");
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
async fn a_schedule_that_is_no_time_is_an_error_and_says_so() {
    let scene = Scene::new("tomorrow");
    let error = scene.ats.reconcile(&scene.at()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Permanent);
    assert!(scene.at().status.unwrap().message.contains("tomorrow"));
    assert!(scene.pods().is_empty());
}

#[tokio::test]
async fn whatever_write_fails_there_is_one_pod_in_the_end() {
    for (nth, fault) in (0..3).flat_map(|nth| [(nth, Fault::Status(503)), (nth, Fault::Lost)]) {
        let scene = Scene::new("1970-01-01T00:00:00Z");
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
        assert_eq!(scene.api.writes().len(), writes, "what is done is left alone");
    }
}

#[tokio::test]
async fn the_pod_of_somebody_else_is_not_taken_for_ours() {
    let scene = Scene::new("1970-01-01T00:00:00Z");
    let mut other = at::pod(&scene.at()).unwrap();
    other.metadata.owner_references = None;
    scene.api.put(&other);
    let error = scene.ats.reconcile(&scene.at()).await.unwrap_err();
    assert!(error.to_string().contains("somebody else's"), "{error}");
    assert_eq!(scene.phase(), AtPhase::Running);
}
