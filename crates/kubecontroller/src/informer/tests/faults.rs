//! What happens when something goes wrong.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    Thing, held, informer, until,
    view::Viewer,
    world::{Fault, RETRY_AFTER, World},
};
use crate::informer::{Informer, InformerHealth, InformerOptions, SharedInformerFactory};

const DAY: Duration = Duration::from_hours(24);

/// A world with some objects, an informer that is synced, and a handler that has been told of them.
async fn synced(names: &[&str]) -> (World, SharedInformerFactory, Informer<Thing>, Viewer) {
    let world = World::new();
    for name in names {
        world.set(name, "1");
    }
    let (informers, informer) = informer(&world, InformerOptions::default());
    let viewer = Viewer::new(&informer);
    viewer.subscription.wait_for_sync().await;
    until("a watch", || world.open_watches() == 1).await;
    viewer.told();
    (world, informers, informer, viewer)
}

fn retry_in(informer: &Informer<Thing>) -> Option<Duration> {
    match informer.health() {
        InformerHealth::Broken { retry_in, .. } => Some(retry_in),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_goes_on_where_it_was() {
    let (world, _informers, informer, viewer) = synced(&["a"]).await;
    informer.wait_for_version(world.set("a", "2")).await;
    let mark = world.bookmark();
    informer.wait_for_version(mark).await;
    world.cut();
    informer.wait_for_version(world.set("b", "1")).await;
    assert_eq!(viewer.told(), ["updated a=2", "added b=1"]);
    assert_eq!(informer.stats().lists, 1);
    let last = world.requests().pop().unwrap();
    assert!(last.contains(&format!("resourceVersion={mark} ")), "{last}");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_read_whole_or_not_at_all() {
    for fault in [Fault::Break(60), Fault::End(60), Fault::Torn(3)] {
        let (world, _informers, informer, viewer) = synced(&["a"]).await;
        world.faults([fault]);
        world.cut();
        sleep(Duration::from_secs(10)).await;
        informer.wait_for_version(world.set("a", "2")).await;
        assert_eq!(viewer.told(), ["updated a=2"], "{fault:?}");
        assert_eq!(informer.stats().lists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_found_by_a_list() {
    // Forgetting lets the server say it as an event.
    for fault in [Fault::Status(410), Fault::ErrorEvent, Fault::Nothing] {
        let (world, _informers, informer, viewer) = synced(&["changed", "gone", "made anew", "same"]).await;
        world.faults([fault]);
        world.cut();
        world.delete("gone");
        world.delete("made anew");
        world.set("made anew", "2");
        world.set("changed", "2");
        let last = world.set("new", "1");
        world.forget();
        informer.wait_for_version(last).await;
        let mut told = viewer.told();
        told.sort();
        let expected = [
            "added made anew=2",
            "added new=1",
            "missed gone=1",
            "missed made anew=1",
            "replaced changed=2",
            "replaced same=1",
        ];
        assert_eq!(told, expected, "{fault:?}");
        assert_eq!(informer.stats().lists, 2);
        assert_eq!(
            world.asked("resourceVersion=0 "),
            1,
            "only the first list may be old"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_not_changed_is_not_held_twice() {
    let (world, _informers, informer, _viewer) = synced(&["a", "b"]).await;
    let before = informer.store().all();
    world.forget();
    world.set("b", "2");
    world.forget();
    world.cut();
    until("a second list", || informer.stats().lists == 2).await;
    informer.wait_for_version(world.bookmark()).await;
    let kept = |name: &str| {
        let object = informer
            .store()
            .get(&format!("ns/{name}").parse().unwrap())
            .unwrap();
        before.iter().any(|old| std::sync::Arc::ptr_eq(old, &object))
    };
    assert!(kept("a") && !kept("b"));
}

#[tokio::test(start_paused = true)]
async fn an_old_event_that_comes_again_is_not_heard() {
    let (world, _informers, informer, viewer) = synced(&["a", "b"]).await;
    world.set("a", "2");
    informer.wait_for_version(world.delete("b").unwrap()).await;
    viewer.told();
    world.faults([Fault::Repeat]);
    world.cut();
    informer.wait_for_version(world.set("a", "3")).await;
    assert_eq!(viewer.told(), ["updated a=3"]);
    assert_eq!(held(&informer), world.objects());
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_asked_for_again() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.set(name, "1");
    }
    world.faults([Fault::Nothing, Fault::ForgetPages]);
    let options = InformerOptions {
        page_size: Some(1),
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&world, options);
    let viewer = Viewer::new(&informer);
    viewer.subscription.wait_for_sync().await;
    assert_eq!(
        viewer.told(),
        ["initial a=1", "replaced a=1", "initial b=1", "initial c=1"]
    );
    assert_eq!((informer.stats().lists, world.asked("limit=1")), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn waits_get_longer_and_start_over_after_health() {
    let world = World::new();
    world.set("a", "1");
    world.faults([
        Fault::Status(500),
        Fault::Status(500),
        Fault::Status(429),
        Fault::Status(500),
    ]);
    let (_informers, informer) = informer(&world, InformerOptions::default());
    // Half of each wait is random: here it is always in the middle.
    for wait in [
        Duration::from_millis(600),
        Duration::from_millis(1_200),
        RETRY_AFTER,
        Duration::from_millis(4_800),
    ] {
        until("the next wait", || retry_in(&informer) == Some(wait)).await;
    }
    informer.wait_for_sync().await;
    assert_eq!(informer.health(), InformerHealth::Synced);
    sleep(Duration::from_mins(1)).await;
    world.faults([Fault::Status(500)]);
    world.cut();
    until("a short wait", || {
        retry_in(&informer) == Some(Duration::from_millis(600))
    })
    .await;
    until("health", || informer.health() == InformerHealth::Synced).await;
    assert_eq!(informer.stats().lists, 5);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_dies_at_once_is_not_begun_again_and_again() {
    let (world, _informers, informer, _viewer) = synced(&["a"]).await;
    sleep(Duration::from_mins(1)).await;
    world.faults([Fault::End(0); 30]);
    world.cut();
    let before = world.requests().len();
    sleep(Duration::from_mins(2)).await;
    let tries = world.requests().len() - before;
    assert!((5..=12).contains(&tries), "{tries} tries in two minutes");
    assert!(retry_in(&informer).is_some());
    informer.wait_for_version(world.set("a", "2")).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dead_is_noticed() {
    // It dies after the answer has begun, or before.
    for fault in [Fault::Hang(0), Fault::Slow(DAY)] {
        let (world, _informers, informer, _viewer) = synced(&["a"]).await;
        world.faults([fault]);
        world.cut();
        sleep(Duration::from_secs(10)).await;
        let (start, version) = (Instant::now(), world.set("a", "2"));
        informer.wait_for_version(version).await;
        assert!(start.elapsed() < Duration::from_mins(5), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_go_on_is_given_up() {
    let world = World::new();
    world.set("a", "1");
    world.faults([Fault::Hang(30), Fault::Slow(Duration::from_secs(50))]);
    let (_informers, informer) = informer(&world, InformerOptions::default());
    let start = Instant::now();
    informer.wait_for_sync().await;
    assert!(
        (110..120).contains(&start.elapsed().as_secs()),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(informer.stats().lists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_asked_for_pages() {
    // It says so; or it never says that the list is complete.
    for fault in [Fault::Status(422), Fault::Hang(200)] {
        let world = World::new();
        world.set("a", "1");
        world.faults([fault]);
        let options = InformerOptions {
            streaming: true,
            ..InformerOptions::default()
        };
        let (_informers, informer) = informer(&world, options);
        informer.wait_for_sync().await;
        assert_eq!(held(&informer), world.objects());
        let lists = world
            .requests()
            .iter()
            .filter(|request| !request.contains("watch=true"))
            .count();
        assert_eq!(
            (world.asked("sendInitialEvents=true"), lists),
            (1, 1),
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_becomes_the_watch() {
    let world = World::new();
    world.set("a", "1");
    let options = InformerOptions {
        streaming: true,
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&world, options);
    let viewer = Viewer::new(&informer);
    viewer.subscription.wait_for_sync().await;
    informer.wait_for_version(world.set("a", "2")).await;
    assert_eq!(viewer.told(), ["initial a=1", "updated a=2"]);
    assert_eq!(world.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_keeps_nobody_from_going_on() {
    let (world, _informers, informer, viewer) = synced(&["a", "b"]).await;
    let bad =
        serde_json::json!({"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "3"}, "data": 7});
    world.say(&serde_json::json!({"type": "MODIFIED", "object": bad}).to_string());
    world.put("a", bad);
    informer.wait_for_version(world.set("b", "2")).await;
    assert_eq!(viewer.told(), ["updated b=2"]);
    world.forget();
    world.set("b", "3");
    world.forget();
    world.cut();
    until("a second list", || informer.stats().lists == 2).await;
    until("its end", || viewer.told() == ["replaced b=3"]).await;
    assert_eq!(informer.store().len(), 2, "its last known state is kept");
    assert_eq!(informer.stats().unreadable, 2);
}

#[tokio::test(start_paused = true)]
async fn more_objects_than_may_be_held_are_not_held() {
    let world = World::new();
    world.set("a", "1");
    world.set("b", "1");
    let options = InformerOptions {
        max_objects: Some(2),
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&world, options);
    informer.wait_for_sync().await;
    let viewer = Viewer::new(&informer);
    world.set("c", "1");
    until("it says so", || {
        matches!(informer.health(), InformerHealth::Broken { error, .. } if error.contains("more than 2 objects"))
    })
    .await;
    sleep(DAY).await;
    assert_eq!(informer.store().len(), 2);
    informer.wait_for_version(world.delete("a").unwrap()).await;
    assert_eq!(informer.health(), InformerHealth::Synced);
    assert_eq!(held(&informer), world.objects());
    assert_eq!(viewer.objects(), world.objects());
}
