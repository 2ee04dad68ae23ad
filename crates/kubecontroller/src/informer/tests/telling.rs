//! What handlers are told, and when.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher;
use tokio::{sync::mpsc, time::sleep};

use super::{Content, Thing, held, informer, until, view::Viewer, world::World};
use crate::{
    informer::{
        Delta, EventHandlerRegistration, InformerHealth, InformerOptions, InformerScope, ListWatch,
        ListWatchError, ListWatchStart, SharedInformerFactory, WatchEvent, WatcherStream,
    },
    object::Object,
};

#[tokio::test(start_paused = true)]
async fn a_late_handler_is_told_what_is_there() {
    let world = World::new();
    world.set("a", "1");
    let (_informers, informer) = informer(&world, InformerOptions::default());
    informer.wait_for_sync().await;
    informer.wait_for_version(world.set("b", "1")).await;
    let late = Viewer::new(&informer);
    assert!(!late.subscription.is_synced());
    late.subscription.wait_for_sync().await;
    let mut told = late.told();
    told.sort();
    assert_eq!(told, ["initial a=1", "initial b=1"]);
    informer.wait_for_version(world.set("b", "2")).await;
    assert_eq!(late.told(), ["updated b=2"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_end_its_own_subscription() {
    let world = World::new();
    let (_informers, informer) = informer(&world, InformerOptions::default());
    let own: Arc<Mutex<Option<EventHandlerRegistration>>> = Arc::default();
    let (told, mut hears) = mpsc::unbounded_channel();
    let subscription = Arc::clone(&own);
    *own.lock().unwrap() = Some(informer.add_event_handler(move |delta| {
        told.send(delta.object().name().to_owned()).unwrap();
        subscription.lock().unwrap().take();
    }));
    world.set("a", "1");
    world.set("b", "1");
    assert_eq!(hears.recv().await.as_deref(), Some("a"));
    assert_eq!(hears.recv().await, None, "the handler is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_stops_nobody() {
    let world = World::new();
    world.set("a", "1");
    let (_informers, informer) = informer(&world, InformerOptions::default());
    let _bad = informer.add_event_handler(|delta| assert_ne!(delta.object().name(), "a"));
    let good = Viewer::new(&informer);
    informer.wait_for_sync().await;
    informer.wait_for_version(world.set("b", "1")).await;
    informer.wait_for_version(world.set("a", "2")).await;
    assert_eq!(good.told(), ["initial a=1", "added b=1", "updated a=2"]);
    assert_eq!(informer.core.counts.panics.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_in_the_store_what_it_is_told() {
    let world = World::new();
    let (_informers, informer) = informer(&world, InformerOptions::default());
    informer.wait_for_sync().await;
    let (told, mut hears) = mpsc::unbounded_channel();
    let (store, core) = (informer.store().clone(), Arc::clone(&informer.core));
    let _subscription = informer.add_event_handler(move |delta| {
        let held = store
            .get(&delta.object().key())
            .and_then(|object| object.revision());
        told.send((held, core.progress.borrow().version)).unwrap();
    });
    for value in ["1", "2"] {
        let version = Some(world.set("a", value));
        assert_eq!(hears.recv().await, Some((version, version)));
    }
    let version = world.delete("a");
    assert_eq!(hears.recv().await, Some((None, version)));
}

#[tokio::test(start_paused = true)]
async fn changes_are_a_stream_too() {
    let world = World::new();
    world.set("a", "1");
    let (_informers, informer) = informer(&world, InformerOptions::default());
    let changes = informer.delta_stream();
    changes.wait_for_sync().await;
    informer.wait_for_version(world.set("a", "2")).await;
    informer.wait_for_version(world.delete("a").unwrap()).await;
    let told: Vec<_> = changes.take(3).collect().await;
    let [
        Delta::Added {
            new: first,
            initial: true,
        },
        Delta::Updated { old, new },
        Delta::Deleted { last, missed: false },
    ] = &*told
    else {
        panic!("{told:?}");
    };
    assert!(Arc::ptr_eq(first, old));
    assert_eq!((new.resource_version(), last.resource_version()), ("2", "3"));
}

#[tokio::test(start_paused = true)]
async fn everything_is_told_again_after_a_while_if_asked() {
    for (resync, expected) in [
        (Some(Duration::from_mins(1)), 6),
        (Some(Duration::ZERO), 0),
        (None, 0),
    ] {
        let world = World::new();
        world.set("a", "1");
        world.set("b", "1");
        let options = InformerOptions {
            resync,
            ..InformerOptions::default()
        };
        let (_informers, informer) = informer(&world, options);
        let viewer = Viewer::new(&informer);
        viewer.subscription.wait_for_sync().await;
        viewer.told();
        sleep(Duration::from_secs(190)).await;
        let told = viewer.told();
        assert_eq!(told.len(), expected);
        assert!(told.iter().all(|told| told.starts_with("sync ")), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_transformed_before_anybody_sees_them() {
    let world = World::new();
    world.set("a", "1");
    let options = InformerOptions::default().transform(|thing: &mut Thing| thing.fields.data.clear());
    let (_informers, informer) = informer(&world, options);
    let viewer = Viewer::new(&informer);
    informer.wait_for_sync().await;
    informer.wait_for_version(world.set("a", "2")).await;
    assert_eq!(viewer.told(), ["initial a=", "updated a="]);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_large_and_read_on_other_threads() {
    let world = World::new();
    let value = "x\\\"{".repeat(1_000);
    for index in 0..300 {
        world.set(&format!("n{index}"), &value);
    }
    for streaming in [false, true] {
        let options = InformerOptions {
            streaming,
            ..InformerOptions::default()
        };
        let (_informers, informer) = informer(&world, options);
        let mut changes = informer.delta_stream();
        changes.wait_for_sync().await;
        assert_eq!(held(&informer), world.objects());
        let mut names: Vec<String> = world.objects().into_keys().collect();
        for name in names.drain(..) {
            let told = changes.next().await.unwrap();
            assert_eq!(
                (told.object().name(), &told.object().fields.data["value"]),
                (&*name, &value),
                "in order"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_kubes_watcher_is_a_source() {
    let world = World::new();
    world.set("a", "1");
    world.set("b", "1");
    let stream = watcher(
        kube::Api::<ConfigMap>::all(world.client()),
        watcher::Config::default(),
    );
    let informers = SharedInformerFactory::new(world.client());
    let options =
        InformerOptions::default().transform(|object: &mut ConfigMap| object.metadata.labels = None);
    let informer = informers.from_list_watch("maps", WatcherStream::new(stream), options);
    let mut changes = informer.delta_stream();
    informers.start();
    informer.wait_for_sync().await;
    until("a watch", || world.open_watches() == 1).await;
    informer.wait_for_version(world.set("a", "2")).await;
    world.delete("b");
    world.forget();
    world.cut();
    until("the end of b", || held(&informer) == world.objects()).await;
    let mut told = Vec::new();
    while told.len() < 5 {
        told.push(changes.next().await.unwrap());
    }
    assert!(
        matches!(&told[2], Delta::Updated { old, .. } if old.name() == "a"),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|delta| matches!(delta, Delta::Deleted { last, missed: true } if last.name() == "b"))
    );
    assert!(told.iter().all(|delta| delta.object().labels().next().is_none()));
}

/// Tells what it is told to, one stream after the other.
struct Script {
    streams: std::vec::IntoIter<Vec<Result<WatchEvent<Thing>, ListWatchError>>>,
    starts: mpsc::UnboundedSender<ListWatchStart>,
}

impl ListWatch<Thing> for Script {
    fn open(
        &mut self,
        start: ListWatchStart,
    ) -> stream::BoxStream<'static, Result<WatchEvent<Thing>, ListWatchError>> {
        self.starts.send(start).unwrap();
        let events = self
            .streams
            .next()
            .unwrap_or_else(|| vec![Err(ListWatchError::Over)]);
        stream::iter(events).boxed()
    }
}

fn thing(name: &str, version: &str) -> Arc<Thing> {
    let text = serde_json::json!({"metadata": {"name": name, "uid": name, "resourceVersion": version}});
    let thing: Thing = serde_json::from_value(text).unwrap();
    Arc::new(thing)
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_what_was_seen_is_not_believed() {
    let (starts, mut started) = mpsc::unbounded_channel();
    let complete = |version: &str| {
        Ok(WatchEvent::Complete {
            version: version.to_owned(),
        })
    };
    let lost = || Err(ListWatchError::Broken("lost".to_owned()));
    let streams = vec![
        vec![
            Ok(WatchEvent::Restarted),
            Ok(WatchEvent::Listed(vec![thing("a", "5")])),
            lost(),
        ],
        vec![
            Ok(WatchEvent::Restarted),
            Ok(WatchEvent::Listed(vec![thing("a", "3")])),
            complete("4"),
        ],
        // A server that was put back: what it says when asked for the truth is the truth.
        vec![
            Ok(WatchEvent::Restarted),
            Ok(WatchEvent::Listed(vec![thing("b", "2")])),
            complete("2"),
        ],
    ];
    let script = Script {
        streams: streams.into_iter(),
        starts,
    };
    let world = World::new();
    let informers = SharedInformerFactory::new(world.client());
    let informer = informers.from_list_watch("script", script, InformerOptions::<Thing>::default());
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
        held(&informer).into_iter().collect::<Vec<_>>(),
        [("b".to_owned(), "2".to_owned())]
    );
    assert_eq!(informer.version(), Some(2));
    until("it is over", || {
        matches!(informer.health(), InformerHealth::Broken { error, .. } if error == "the source has ended")
    })
    .await;
    assert!(started.try_recv().is_err(), "it is not asked again");
}

#[tokio::test(start_paused = true)]
async fn kinds_are_asked_for_by_their_address() {
    let world = World::new();
    let informers = SharedInformerFactory::new(world.client());
    informers.start();
    let informer = informers.slim::<ConfigMap, Content>(InformerScope::default().namespace("shop"));
    informer.wait_for_sync().await;
    assert_eq!(informer.name(), "/api/v1/namespaces/shop/configmaps");
    until("a watch", || world.open_watches() == 1).await;
    let requests = world.requests();
    assert_eq!(
        requests[0],
        "/api/v1/namespaces/shop/configmaps?&resourceVersion=0 application/json"
    );
    let watch = "/api/v1/namespaces/shop/configmaps?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion=0 application/json";
    assert_eq!(requests[1], watch);
}
