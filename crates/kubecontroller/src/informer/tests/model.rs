//! Whatever happens, what handlers are told leads to what the server has.

use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, prelude::*};
use tokio::time::{sleep, timeout};

use super::{
    held, informer,
    view::Viewer,
    world::{Fault, World},
};
use crate::informer::InformerOptions;

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u8),
    Delete(u8),
    Bookmark,
    Cut,
    Forget,
    Wait(u16),
    Fault(Fault),
    Subscribe,
    Unsubscribe,
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
        1 => Just(Step::Forget),
        4 => prop_oneof![Just(0), 1..3_000_u16].prop_map(Step::Wait),
        4 => fault().prop_map(Step::Fault),
        1 => Just(Step::Subscribe),
        1 => Just(Step::Unsubscribe),
    ]
}

async fn play(
    steps: Vec<Step>,
    faults: Vec<Fault>,
    pages: Option<u32>,
    streaming: bool,
) -> Result<(), TestCaseError> {
    let world = World::new();
    world.set("n0", "first");
    world.set("n1", "first");
    world.set("n2", "first");
    world.faults(faults);
    let options = InformerOptions {
        page_size: pages,
        streaming,
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&world, options);
    let mut viewers = vec![Viewer::new(&informer)];
    for step in steps {
        match step {
            Step::Set(name, value) => _ = world.set(&format!("n{name}"), &value.to_string()),
            Step::Delete(name) => _ = world.delete(&format!("n{name}")),
            Step::Bookmark => _ = world.bookmark(),
            Step::Cut => world.cut(),
            Step::Forget => world.forget(),
            Step::Wait(time) => sleep(Duration::from_millis(time.into())).await,
            Step::Fault(fault) => world.faults([fault]),
            Step::Subscribe => viewers.push(Viewer::new(&informer)),
            Step::Unsubscribe => _ = viewers.pop(),
        }
    }
    viewers.push(Viewer::new(&informer));
    let version = world.bookmark();
    let reached = timeout(Duration::from_hours(6), informer.wait_for_version(version)).await;
    prop_assert!(
        reached.is_ok(),
        "{:?} after {:?}",
        informer.health(),
        world.requests()
    );
    let expected: BTreeMap<_, _> = world.objects();
    prop_assert_eq!(held(&informer), expected.clone());
    for viewer in &viewers {
        viewer.subscription.wait_for_sync().await;
        prop_assert_eq!(viewer.objects(), expected.clone());
        prop_assert_eq!(&viewer.view.lock().unwrap().mistakes, &Vec::<String>::new());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn handlers_end_up_with_what_the_server_has(
        steps in vec(step(), 0..40),
        faults in vec(fault(), 0..6),
        pages in proptest::option::of(1..4_u32),
        streaming in any::<bool>(),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(steps, faults, pages, streaming))?;
    }
}
