//! What event handlers receive, and when.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::sleep};

use super::{
    TestFields, TestObject, fake_server::FakeServer, informer, observer::Observer, stored_versions,
    wait_until,
};
use crate::{
    informer::{
        Delta, EventHandlerRegistration, InformerHealth, InformerOptions, InformerScope, ListWatch,
        ListWatchError, ListWatchStart, SharedInformerFactory, WatchEvent, WatcherStream,
    },
    object::Object,
};

#[tokio::test(start_paused = true)]
async fn a_late_handler_receives_the_initial_objects() {
    let server = FakeServer::new();
    server.set("a", "1");
    let (_informers, informer) = informer(&server, InformerOptions::default());
    informer.wait_for_sync().await;
    informer.wait_for_version(server.set("b", "1")).await;
    let late = Observer::new(&informer);
    assert!(!late.registration.is_synced());
    late.registration.wait_for_sync().await;
    let mut log = late.take_log();
    log.sort();
    assert_eq!(log, ["initial a=1", "initial b=1"]);
    informer.wait_for_version(server.set("b", "2")).await;
    assert_eq!(late.take_log(), ["updated b=2"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_drop_its_own_registration() {
    let server = FakeServer::new();
    let (_informers, informer) = informer(&server, InformerOptions::default());
    let own: Arc<Mutex<Option<EventHandlerRegistration>>> = Arc::default();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let registration = Arc::clone(&own);
    *own.lock() = Some(informer.add_event_handler(move |delta| {
        sender.send(delta.object().name().to_owned()).unwrap();
        registration.lock().take();
    }));
    server.set("a", "1");
    server.set("b", "1");
    assert_eq!(receiver.recv().await.as_deref(), Some("a"));
    assert_eq!(
        receiver.recv().await,
        None,
        "the handler and its sender are dropped"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_does_not_affect_others() {
    let server = FakeServer::new();
    server.set("a", "1");
    let (_informers, informer) = informer(&server, InformerOptions::default());
    let _bad = informer.add_event_handler(|delta| assert_ne!(delta.object().name(), "a"));
    let good = Observer::new(&informer);
    informer.wait_for_sync().await;
    informer.wait_for_version(server.set("b", "1")).await;
    informer.wait_for_version(server.set("a", "2")).await;
    assert_eq!(good.take_log(), ["initial a=1", "added b=1", "updated a=2"]);
    assert_eq!(informer.core.counters.panics.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_the_new_state_in_the_store() {
    let server = FakeServer::new();
    let (_informers, informer) = informer(&server, InformerOptions::default());
    informer.wait_for_sync().await;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let store = informer.store().clone();
    let core = Arc::clone(&informer.core);
    let _registration = informer.add_event_handler(move |delta| {
        let held = store
            .get(&delta.object().key())
            .and_then(|object| object.revision());
        sender.send((held, core.progress.borrow().version)).unwrap();
    });
    for value in ["1", "2"] {
        let version = Some(server.set("a", value));
        assert_eq!(receiver.recv().await, Some((version, version)));
    }
    let version = server.delete("a");
    assert_eq!(receiver.recv().await, Some((None, version)));
}

#[tokio::test(start_paused = true)]
async fn deltas_are_available_as_a_stream() {
    let server = FakeServer::new();
    server.set("a", "1");
    let (_informers, informer) = informer(&server, InformerOptions::default());
    let changes = informer.delta_stream();
    changes.wait_for_sync().await;
    informer.wait_for_version(server.set("a", "2")).await;
    informer.wait_for_version(server.delete("a").unwrap()).await;
    let deltas: Vec<_> = changes.take(3).collect().await;
    let [
        Delta::Added {
            new: first,
            initial: true,
        },
        Delta::Updated { old, new },
        Delta::Deleted { last, missed: false },
    ] = &*deltas
    else {
        panic!("{deltas:?}");
    };
    assert!(Arc::ptr_eq(first, old));
    assert_eq!((new.resource_version(), last.resource_version()), ("2", "3"));
}

#[tokio::test(start_paused = true)]
async fn resync_sends_every_object_periodically_if_enabled() {
    for (resync, expected) in [
        (Some(Duration::from_mins(1)), 6),
        (Some(Duration::ZERO), 0),
        (None, 0),
    ] {
        let server = FakeServer::new();
        server.set("a", "1");
        server.set("b", "1");
        let options = InformerOptions {
            resync,
            ..InformerOptions::default()
        };
        let (_informers, informer) = informer(&server, options);
        let observer = Observer::new(&informer);
        observer.registration.wait_for_sync().await;
        observer.take_log();
        sleep(Duration::from_secs(190)).await;
        let log = observer.take_log();
        assert_eq!(log.len(), expected);
        assert!(log.iter().all(|entry| entry.starts_with("sync ")), "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_transformed_before_they_are_stored() {
    let server = FakeServer::new();
    server.set("a", "1");
    let options = InformerOptions::default().transform(|object: &mut TestObject| object.fields.data.clear());
    let (_informers, informer) = informer(&server, options);
    let observer = Observer::new(&informer);
    informer.wait_for_sync().await;
    informer.wait_for_version(server.set("a", "2")).await;
    assert_eq!(observer.take_log(), ["initial a=", "updated a="]);
}

#[tokio::test(start_paused = true)]
async fn a_large_list_decoded_on_other_threads_stays_in_order() {
    let server = FakeServer::new();
    let value = "x\\\"{".repeat(1_000);
    for index in 0..300 {
        server.set(&format!("n{index}"), &value);
    }
    for streaming in [false, true] {
        let options = InformerOptions {
            streaming,
            ..InformerOptions::default()
        };
        let (_informers, informer) = informer(&server, options);
        let mut changes = informer.delta_stream();
        changes.wait_for_sync().await;
        assert_eq!(stored_versions(&informer), server.objects());
        let mut names: Vec<String> = server.objects().into_keys().collect();
        for name in names.drain(..) {
            let delta = changes.next().await.unwrap();
            assert_eq!(
                (delta.object().name(), &delta.object().fields.data["value"]),
                (&*name, &value),
                "in order"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kube_watcher_stream_is_a_source() {
    let server = FakeServer::new();
    server.set("a", "1");
    server.set("b", "1");
    let stream = watcher(
        kube::Api::<ConfigMap>::all(server.client()),
        watcher::Config::default(),
    );
    let informers = SharedInformerFactory::new(server.client());
    let options =
        InformerOptions::default().transform(|object: &mut ConfigMap| object.metadata.labels = None);
    let informer = informers.from_list_watch("maps", WatcherStream::new(stream), options);
    let mut changes = informer.delta_stream();
    informers.start();
    informer.wait_for_sync().await;
    wait_until("a watch", || server.open_watches() == 1).await;
    informer.wait_for_version(server.set("a", "2")).await;
    server.delete("b");
    server.compact();
    server.cut();
    wait_until("the deletion of b", || {
        stored_versions(&informer) == server.objects()
    })
    .await;
    let mut deltas = Vec::new();
    while deltas.len() < 5 {
        deltas.push(changes.next().await.unwrap());
    }
    assert!(
        matches!(&deltas[2], Delta::Updated { old, .. } if old.name() == "a"),
        "{deltas:?}"
    );
    assert!(
        deltas
            .iter()
            .any(|delta| matches!(delta, Delta::Deleted { last, missed: true } if last.name() == "b"))
    );
    assert!(
        deltas
            .iter()
            .all(|delta| delta.object().labels().next().is_none())
    );
}

/// Sends scripted events, one list per call of `open`.
struct ScriptedListWatch {
    streams: std::vec::IntoIter<Vec<Result<WatchEvent<TestObject>, ListWatchError>>>,
    starts: mpsc::UnboundedSender<ListWatchStart>,
}

impl ListWatch<TestObject> for ScriptedListWatch {
    fn open(
        &mut self,
        start: ListWatchStart,
    ) -> stream::BoxStream<'static, Result<WatchEvent<TestObject>, ListWatchError>> {
        self.starts.send(start).unwrap();
        let events = self
            .streams
            .next()
            .unwrap_or_else(|| vec![Err(ListWatchError::Ended)]);
        stream::iter(events).boxed()
    }
}

fn test_object(name: &str, version: &str) -> Arc<TestObject> {
    let text = serde_json::json!({"metadata": {"name": name, "uid": name, "resourceVersion": version}});
    let object: TestObject = serde_json::from_value(text).unwrap();
    Arc::new(object)
}

#[tokio::test(start_paused = true)]
async fn rejects_a_list_that_is_older_than_the_store_unless_it_is_consistent() {
    let (starts, mut started) = mpsc::unbounded_channel();
    let complete = |version: &str| {
        Ok(WatchEvent::ListComplete {
            version: version.to_owned(),
        })
    };
    let lost = || Err(ListWatchError::Failed("lost".to_owned()));
    let streams = vec![
        vec![
            Ok(WatchEvent::ListStarted),
            Ok(WatchEvent::ListItems(vec![test_object("a", "5")])),
            lost(),
        ],
        vec![
            Ok(WatchEvent::ListStarted),
            Ok(WatchEvent::ListItems(vec![test_object("a", "3")])),
            complete("4"),
        ],
        // The server was restored from a backup: a consistent list counts whatever its version.
        vec![
            Ok(WatchEvent::ListStarted),
            Ok(WatchEvent::ListItems(vec![test_object("b", "2")])),
            complete("2"),
        ],
    ];
    let script = ScriptedListWatch {
        streams: streams.into_iter(),
        starts,
    };
    let server = FakeServer::new();
    let informers = SharedInformerFactory::new(server.client());
    let informer = informers.from_list_watch("script", script, InformerOptions::<TestObject>::default());
    informers.start();
    informer.wait_for_sync().await;
    for expected in [
        ListWatchStart::List { consistent: false },
        ListWatchStart::List { consistent: false },
        ListWatchStart::List { consistent: true },
        ListWatchStart::Version("2".to_owned()),
    ] {
        assert_eq!(started.recv().await, Some(expected));
    }
    assert_eq!(
        stored_versions(&informer).into_iter().collect::<Vec<_>>(),
        [("b".to_owned(), "2".to_owned())]
    );
    assert_eq!(informer.version(), Some(2));
    wait_until("the end of the source", || {
        matches!(informer.health(), InformerHealth::Failing { error, .. } if error == "the source has ended")
    })
    .await;
    assert!(
        started.try_recv().is_err(),
        "a source that has ended is not opened again"
    );
}

#[tokio::test(start_paused = true)]
async fn the_namespace_is_part_of_the_request_path() {
    let server = FakeServer::new();
    let informers = SharedInformerFactory::new(server.client());
    informers.start();
    let informer = informers.slim::<ConfigMap, TestFields>(InformerScope::default().namespace("shop"));
    informer.wait_for_sync().await;
    assert_eq!(informer.name(), "/api/v1/namespaces/shop/configmaps");
    wait_until("a watch", || server.open_watches() == 1).await;
    let requests = server.requests();
    assert_eq!(
        requests[0],
        "/api/v1/namespaces/shop/configmaps?&resourceVersion=0 application/json"
    );
    let watch = "/api/v1/namespaces/shop/configmaps?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion=0 application/json";
    assert_eq!(requests[1], watch);
}
