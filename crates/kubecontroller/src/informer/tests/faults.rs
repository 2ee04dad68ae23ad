//! Recovery from errors of the server and the connection.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    TestObject,
    fake_server::{FakeServer, Fault, RETRY_AFTER},
    informer,
    observer::Observer,
    stored_versions, wait_until,
};
use crate::informer::{Informer, InformerHealth, InformerOptions, SharedInformerFactory};

const DAY: Duration = Duration::from_hours(24);

/// A server with some objects, a synced informer, and a handler that has received them.
async fn synced(names: &[&str]) -> (FakeServer, SharedInformerFactory, Informer<TestObject>, Observer) {
    let server = FakeServer::new();
    for name in names {
        server.set(name, "1");
    }
    let (informers, informer) = informer(&server, InformerOptions::default());
    let observer = Observer::new(&informer);
    observer.registration.wait_for_sync().await;
    wait_until("a watch", || server.open_watches() == 1).await;
    observer.take_log();
    (server, informers, informer, observer)
}

fn retry_in(informer: &Informer<TestObject>) -> Option<Duration> {
    match informer.health() {
        InformerHealth::Failing { retry_in, .. } => Some(retry_in),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_cut_continues_from_its_last_version() {
    let (server, _informers, informer, observer) = synced(&["a"]).await;
    informer.wait_for_version(server.set("a", "2")).await;
    let mark = server.bookmark();
    informer.wait_for_version(mark).await;
    server.cut();
    informer.wait_for_version(server.set("b", "1")).await;
    assert_eq!(observer.take_log(), ["updated a=2", "added b=1"]);
    assert_eq!(informer.stats().lists, 1);
    let last = server.requests().pop().unwrap();
    assert!(last.contains(&format!("resourceVersion={mark} ")), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_truncated_event_is_ignored_and_received_again() {
    for fault in [Fault::Break(60), Fault::End(60), Fault::Torn(3)] {
        let (server, _informers, informer, observer) = synced(&["a"]).await;
        server.add_faults([fault]);
        server.cut();
        sleep(Duration::from_secs(10)).await;
        informer.wait_for_version(server.set("a", "2")).await;
        assert_eq!(observer.take_log(), ["updated a=2"], "{fault:?}");
        assert_eq!(informer.stats().lists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_recovers_missed_changes() {
    // `Fault::Nothing`: the server itself sends the ERROR event because the log is compacted.
    for fault in [Fault::Status(410), Fault::ErrorEvent, Fault::Nothing] {
        let (server, _informers, informer, observer) =
            synced(&["changed", "deleted", "recreated", "same"]).await;
        server.add_faults([fault]);
        server.cut();
        server.delete("deleted");
        server.delete("recreated");
        server.set("recreated", "2");
        server.set("changed", "2");
        let last = server.set("new", "1");
        server.compact();
        informer.wait_for_version(last).await;
        let mut log = observer.take_log();
        log.sort();
        let expected = [
            "added new=1",
            "added recreated=2",
            "missed deleted=1",
            "missed recreated=1",
            "replaced changed=2",
            "replaced same=1",
        ];
        assert_eq!(log, expected, "{fault:?}");
        assert_eq!(informer.stats().lists, 2);
        assert_eq!(
            server.count_requests("resourceVersion=0 "),
            1,
            "only the first list may come from the watch cache"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_keeps_unchanged_objects_in_memory() {
    let (server, _informers, informer, _viewer) = synced(&["a", "b"]).await;
    let before = informer.store().all();
    server.compact();
    server.set("b", "2");
    server.compact();
    server.cut();
    wait_until("a second list", || informer.stats().lists == 2).await;
    informer.wait_for_version(server.bookmark()).await;
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
async fn a_repeated_old_event_is_dropped() {
    let (server, _informers, informer, observer) = synced(&["a", "b"]).await;
    server.set("a", "2");
    informer.wait_for_version(server.delete("b").unwrap()).await;
    observer.take_log();
    server.add_faults([Fault::Repeat]);
    server.cut();
    informer.wait_for_version(server.set("a", "3")).await;
    assert_eq!(observer.take_log(), ["updated a=3"]);
    assert_eq!(stored_versions(&informer), server.objects());
}

#[tokio::test(start_paused = true)]
async fn a_list_restarts_when_its_continue_token_expires() {
    let server = FakeServer::new();
    for name in ["a", "b", "c"] {
        server.set(name, "1");
    }
    server.add_faults([Fault::Nothing, Fault::ForgetPages]);
    let options = InformerOptions {
        page_size: Some(1),
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&server, options);
    let observer = Observer::new(&informer);
    observer.registration.wait_for_sync().await;
    assert_eq!(
        observer.take_log(),
        ["initial a=1", "replaced a=1", "initial b=1", "initial c=1"]
    );
    assert_eq!((informer.stats().lists, server.count_requests("limit=1")), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn the_backoff_grows_and_is_reset_when_healthy() {
    let server = FakeServer::new();
    server.set("a", "1");
    server.add_faults([
        Fault::Status(500),
        Fault::Status(500),
        Fault::Status(429),
        Fault::Status(500),
    ]);
    let (_informers, informer) = informer(&server, InformerOptions::default());
    // The jitter is fixed at 0.5, so each delay is 3/4 of its maximum.
    for wait in [
        Duration::from_millis(600),
        Duration::from_millis(1_200),
        RETRY_AFTER,
        Duration::from_millis(4_800),
    ] {
        wait_until("the next wait", || retry_in(&informer) == Some(wait)).await;
    }
    informer.wait_for_sync().await;
    assert_eq!(informer.health(), InformerHealth::Synced);
    sleep(Duration::from_mins(1)).await;
    server.add_faults([Fault::Status(500)]);
    server.cut();
    wait_until("a short wait", || {
        retry_in(&informer) == Some(Duration::from_millis(600))
    })
    .await;
    wait_until("health", || informer.health() == InformerHealth::Synced).await;
    assert_eq!(informer.stats().lists, 5);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_retried_with_backoff() {
    let (server, _informers, informer, _viewer) = synced(&["a"]).await;
    sleep(Duration::from_mins(1)).await;
    server.add_faults([Fault::End(0); 30]);
    server.cut();
    let before = server.requests().len();
    sleep(Duration::from_mins(2)).await;
    let attempts = server.requests().len() - before;
    assert!((5..=12).contains(&attempts), "{attempts} attempts in two minutes");
    assert!(retry_in(&informer).is_some());
    informer.wait_for_version(server.set("a", "2")).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_watch_connection_is_aborted() {
    // The connection dies after the response headers, or before them.
    for fault in [Fault::Hang(0), Fault::Slow(DAY)] {
        let (server, _informers, informer, _viewer) = synced(&["a"]).await;
        server.add_faults([fault]);
        server.cut();
        sleep(Duration::from_secs(10)).await;
        let start = Instant::now();
        let version = server.set("a", "2");
        informer.wait_for_version(version).await;
        assert!(start.elapsed() < Duration::from_mins(5), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_list_is_aborted() {
    let server = FakeServer::new();
    server.set("a", "1");
    server.add_faults([Fault::Hang(30), Fault::Slow(Duration::from_secs(50))]);
    let (_informers, informer) = informer(&server, InformerOptions::default());
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
async fn falls_back_to_a_paged_list_if_the_server_cannot_stream_lists() {
    // The server rejects the parameter, or never sends the bookmark that ends the list.
    for fault in [Fault::Status(422), Fault::Hang(200)] {
        let server = FakeServer::new();
        server.set("a", "1");
        server.add_faults([fault]);
        let options = InformerOptions {
            streaming: true,
            ..InformerOptions::default()
        };
        let (_informers, informer) = informer(&server, options);
        informer.wait_for_sync().await;
        assert_eq!(stored_versions(&informer), server.objects());
        let lists = server
            .requests()
            .iter()
            .filter(|request| !request.contains("watch=true"))
            .count();
        assert_eq!(
            (server.count_requests("sendInitialEvents=true"), lists),
            (1, 1),
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_becomes_the_watch() {
    let server = FakeServer::new();
    server.set("a", "1");
    let options = InformerOptions {
        streaming: true,
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&server, options);
    let observer = Observer::new(&informer);
    observer.registration.wait_for_sync().await;
    informer.wait_for_version(server.set("a", "2")).await;
    assert_eq!(observer.take_log(), ["initial a=1", "updated a=2"]);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_keeps_its_last_state_and_others_go_on() {
    let (server, _informers, informer, observer) = synced(&["a", "b"]).await;
    let bad =
        serde_json::json!({"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "3"}, "data": 7});
    server.send_line(&serde_json::json!({"type": "MODIFIED", "object": bad}).to_string());
    server.put("a", bad);
    informer.wait_for_version(server.set("b", "2")).await;
    assert_eq!(observer.take_log(), ["updated b=2"]);
    server.compact();
    server.set("b", "3");
    server.compact();
    server.cut();
    wait_until("a second list", || informer.stats().lists == 2).await;
    wait_until("the end of the list", || observer.take_log() == ["replaced b=3"]).await;
    assert_eq!(informer.store().len(), 2, "the last known state of a is kept");
    assert_eq!(informer.stats().undecodable, 2);
}

#[tokio::test(start_paused = true)]
async fn max_objects_limits_the_store() {
    let server = FakeServer::new();
    server.set("a", "1");
    server.set("b", "1");
    let options = InformerOptions {
        max_objects: Some(2),
        ..InformerOptions::default()
    };
    let (_informers, informer) = informer(&server, options);
    informer.wait_for_sync().await;
    let observer = Observer::new(&informer);
    server.set("c", "1");
    wait_until("the error", || {
        matches!(informer.health(), InformerHealth::Failing { error, .. } if error.contains("more than 2 objects"))
    })
    .await;
    sleep(DAY).await;
    assert_eq!(informer.store().len(), 2);
    informer.wait_for_version(server.delete("a").unwrap()).await;
    assert_eq!(informer.health(), InformerHealth::Synced);
    assert_eq!(stored_versions(&informer), server.objects());
    assert_eq!(observer.objects(), server.objects());
}
