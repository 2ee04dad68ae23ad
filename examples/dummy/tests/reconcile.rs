//! A `Dummy`, from its creation to its copy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use dummy::{Dummies, Dummy, DummySpec};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{Clock, controller::Outcome, testing::FakeApi};

#[tokio::test]
async fn data_is_copied_when_the_wait_is_over_and_a_change_begins_another() {
    let now = Arc::new(AtomicI64::new(100));
    let told = now.clone();
    let clock = Clock::new(move || Timestamp::from_second(told.load(Ordering::Relaxed)).unwrap());
    let api = FakeApi::with_clock(clock.clone());
    let dummies = Dummies::new(api.client(), clock);
    let spec = DummySpec {
        transition_defer: 5,
        data: "one".to_owned(),
    };
    let mut dummy = Dummy::new("d", spec);
    dummy.metadata.namespace = Some("default".to_owned());
    api.put(&dummy);
    let there = || api.get::<Dummy>("default", "d").unwrap();
    let copied = || there().status.unwrap().data;

    assert_eq!(
        dummies.reconcile(&there()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(5))
    );
    now.store(103, Ordering::Relaxed);
    assert_eq!(
        dummies.reconcile(&there()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(2))
    );
    assert_eq!(copied(), "");
    now.store(105, Ordering::Relaxed);
    assert_eq!(dummies.reconcile(&there()).await.unwrap(), Outcome::Done);
    assert_eq!(copied(), "one");
    let writes = api.writes().len();
    assert_eq!(dummies.reconcile(&there()).await.unwrap(), Outcome::Done);
    assert_eq!(api.writes().len(), writes, "what was copied is left alone");

    api.edit::<Dummy>("default", "d", |dummy| {
        dummy.spec.data = "two".to_owned();
        dummy.metadata.generation = Some(2);
    });
    assert_eq!(
        dummies.reconcile(&there()).await.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(5))
    );
    assert_eq!(copied(), "one");
    now.store(110, Ordering::Relaxed);
    dummies.reconcile(&there()).await.unwrap();
    assert_eq!(copied(), "two");
}
