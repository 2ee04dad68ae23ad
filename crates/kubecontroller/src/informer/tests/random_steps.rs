//! Property test: whatever happens, the deltas lead to the state of the server.

use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, prelude::*};
use tokio::time::{sleep, timeout};

use super::{
    fake_server::{FakeServer, Fault},
    informer,
    observer::Observer,
    stored_versions,
};
use crate::informer::InformerOptions;

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u8),
    Delete(u8),
    Bookmark,
    Cut,
    Compact,
    Wait(u16),
    Fault(Fault),
    AddHandler,
    RemoveHandler,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::Nothing),
        1 => prop_oneof![Just(410), Just(429), Just(500), Just(504), Just(403)].prop_map(Fault::Status),
        1 => Just(Fault::ErrorEvent),
        2 => (0..600_usize).prop_map(Fault::Break),
        2 => (0..600_usize).prop_map(Fault::End),
        1 => (1..40_usize).prop_map(Fault::Torn),
        2 => Just(Fault::Repeat),
        1 => (0..90_u64).prop_map(|seconds| Fault::Slow(Duration::from_secs(seconds))),
        1 => (0..600_usize).prop_map(Fault::Hang),
        1 => Just(Fault::ForgetPages),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6_u8, 0..9_u8).prop_map(|(name, value)| Step::Set(name, value)),
        4 => (0..6_u8).prop_map(Step::Delete),
        1 => Just(Step::Bookmark),
        2 => Just(Step::Cut),
        1 => Just(Step::Compact),
        4 => prop_oneof![Just(0), 1..3_000_u16].prop_map(Step::Wait),
        4 => fault().prop_map(Step::Fault),
        1 => Just(Step::AddHandler),
        1 => Just(Step::RemoveHandler),
    ]
}

async fn run_steps(
    steps: Vec<Step>,
    faults: Vec<Fault>,
    pages: Option<u32>,
    streaming: bool,
) -> Result<(), TestCaseError> {
    let server = FakeServer::new();
    server.set("n0", "first");
    server.set("n1", "first");
    server.set("n2", "first");
    server.add_faults(faults);
    let options = InformerOptions {
        page_size: pages,
        streaming,
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&server, options);
    let mut observers = vec![Observer::new(&informer)];
    for step in steps {
        match step {
            Step::Set(name, value) => _ = server.set(&format!("n{name}"), &value.to_string()),
            Step::Delete(name) => _ = server.delete(&format!("n{name}")),
            Step::Bookmark => _ = server.bookmark(),
            Step::Cut => server.cut(),
            Step::Compact => server.compact(),
            Step::Wait(time) => sleep(Duration::from_millis(time.into())).await,
            Step::Fault(fault) => server.add_faults([fault]),
            Step::AddHandler => observers.push(Observer::new(&informer)),
            Step::RemoveHandler => _ = observers.pop(),
        }
    }
    observers.push(Observer::new(&informer));
    let version = server.bookmark();
    let reached = timeout(Duration::from_hours(6), informer.wait_for_version(version)).await;
    prop_assert!(
        reached.is_ok(),
        "{:?} after {:?}",
        informer.health(),
        server.requests()
    );
    let expected: BTreeMap<_, _> = server.objects();
    prop_assert_eq!(stored_versions(&informer), expected.clone());
    for observer in &observers {
        observer.registration.wait_for_sync().await;
        prop_assert_eq!(observer.objects(), expected.clone());
        prop_assert_eq!(&observer.state.lock().inconsistencies, &Vec::<String>::new());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn handlers_end_up_with_the_state_of_the_server(
        steps in vec(step(), 0..40),
        faults in vec(fault(), 0..6),
        pages in proptest::option::of(1..4_u32),
        streaming in any::<bool>(),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run_steps(steps, faults, pages, streaming))?;
    }
}
