//! Tests of the `Dummy` controller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use dummy::{Dummy, DummyReconciler, DummySpec};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{Clock, controller::Outcome, testing::FakeApi};

#[tokio::test]
async fn copies_data_after_delay_and_restarts_delay_after_change() {
    let now = Arc::new(AtomicI64::new(100));
    let seconds = now.clone();
    let clock = Clock::new(move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap());
    let api = FakeApi::with_clock(clock.clone());
    let dummies = DummyReconciler::new(api.client(), clock);
    let spec = DummySpec {
        transition_defer: 5,
        data: "one".to_owned(),
    };
    let mut dummy = Dummy::new("d", spec);
    dummy.metadata.namespace = Some("default".to_owned());
    api.put(&dummy);
    let stored = || api.get::<Dummy>("default", "d").unwrap();
    let copied = || stored().status.unwrap().data;

    assert_eq!(
        dummies.reconcile(&stored()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(5))
    );
    now.store(103, Ordering::Relaxed);
    assert_eq!(
        dummies.reconcile(&stored()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(2))
    );
    assert_eq!(copied(), "");
    now.store(105, Ordering::Relaxed);
    assert_eq!(dummies.reconcile(&stored()).await.unwrap(), Outcome::Done);
    assert_eq!(copied(), "one");
    let writes = api.writes().len();
    assert_eq!(dummies.reconcile(&stored()).await.unwrap(), Outcome::Done);
    assert_eq!(api.writes().len(), writes, "a copied Dummy is not written");

    api.edit::<Dummy>("default", "d", |dummy| {
        dummy.spec.data = "two".to_owned();
        dummy.metadata.generation = Some(2);
    });
    assert_eq!(
        dummies.reconcile(&stored()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(5))
    );
    assert_eq!(copied(), "one");
    now.store(110, Ordering::Relaxed);
    dummies.reconcile(&stored()).await.unwrap();
    assert_eq!(copied(), "two");
}
