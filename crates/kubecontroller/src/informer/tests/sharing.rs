//! Who shares an informer, and how long it lives.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use super::{Content, Thing, held, until, world::World};
use crate::{
    informer::{EventHandlerRegistration, Informer, InformerOptions, InformerScope, SharedInformerFactory},
    metrics::{self, Metrics},
};

fn world() -> (World, SharedInformerFactory) {
    let world = World::new();
    world.set("a", "1");
    world.set("b", "1");
    let informers = SharedInformerFactory::new(world.client());
    (world, informers)
}

fn things(informers: &SharedInformerFactory) -> Informer<Thing> {
    informers.slim::<ConfigMap, Content>(InformerScope::default())
}

#[tokio::test(start_paused = true)]
async fn fifty_controllers_have_one_watch_and_one_decoding_of_each_event() {
    let (world, informers) = world();
    let told = Arc::new(AtomicUsize::new(0));
    let subscribe = |_| {
        let told = Arc::clone(&told);
        things(&informers).add_event_handler(move |_| _ = told.fetch_add(1, Ordering::Relaxed))
    };
    let subscriptions: Vec<EventHandlerRegistration> = (0..50).map(subscribe).collect();
    informers.start();
    informers.wait_for_sync().await;
    let informer = things(&informers);
    for value in ["2", "3", "4"] {
        informer.wait_for_version(world.set("a", value)).await;
    }
    assert_eq!(told.load(Ordering::Relaxed), 50 * 5);
    assert_eq!((world.asked("watch=true"), world.requests().len()), (1, 2));
    assert_eq!(informer.stats().decoded, 5);
    drop(subscriptions);
}

#[tokio::test(start_paused = true)]
async fn kind_type_and_scope_make_an_informer() {
    let (world, informers) = world();
    informers.start();
    let things = things(&informers);
    let same = informers.slim::<ConfigMap, Content>(InformerScope::default());
    let typed = informers.typed::<ConfigMap>(InformerScope::default());
    let scope = InformerScope::default()
        .namespace("shop")
        .labels("app in (a,b)")
        .fields("metadata.name!=c");
    let scoped = informers.typed::<ConfigMap>(scope);
    let metadata = informers.metadata::<ConfigMap>(InformerScope::default());
    let resource = ApiResource::erase::<ConfigMap>(&());
    let dynamic = informers.dynamic(&resource, InformerScope::default());
    informers.wait_for_sync().await;
    until("five watches", || world.open_watches() == 5).await;
    assert!(Arc::ptr_eq(&things.core, &same.core));
    assert_eq!(informers.stats().len(), 5);
    let asked =
        "/namespaces/shop/configmaps?&fieldSelector=metadata.name%21%3Dc&labelSelector=app+in+%28a%2Cb%29";
    assert_eq!(world.asked(asked), 1, "{:?}", world.requests());
    let metadata_lists = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let metadata_watches = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(
        (world.asked(metadata_lists), world.asked(metadata_watches)),
        (1, 1)
    );
    let kinds = dynamic.store().all();
    assert!(
        kinds
            .iter()
            .all(|object| object.types.as_ref().unwrap().kind == "ConfigMap")
    );
    let everywhere = [
        held(&things),
        held(&typed),
        held(&scoped),
        held(&metadata),
        held(&dynamic),
    ];
    assert!(everywhere.iter().all(|held| *held == world.objects()));
}

#[tokio::test(start_paused = true)]
async fn settings_that_differ_are_refused() {
    let (_world, informers) = world();
    let options = InformerOptions {
        page_size: Some(10),
        ..InformerOptions::default()
    };
    let with = |options: &InformerOptions<ConfigMap>| {
        informers.typed_with(InformerScope::default(), options.clone())
    };
    let first = with(&options).unwrap();
    assert!(Arc::ptr_eq(&first.core, &with(&options).unwrap().core));
    assert!(Arc::ptr_eq(
        &first.core,
        &informers.typed::<ConfigMap>(InformerScope::default()).core
    ));
    let mistake = with(&options.clone().transform(|_| {})).unwrap_err().to_string();
    assert_eq!(
        mistake,
        "the informer of /api/v1/configmaps is there already, with another transform"
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_lives_as_long_as_somebody_needs_it() {
    let (world, informers) = world();
    let informer = things(&informers);
    assert_eq!(world.requests().len(), 0, "nothing happens before the start");
    informers.start();
    let (subscription, store) = (informer.add_event_handler(|_| {}), informer.store().clone());
    informer.wait_for_sync().await;
    drop(informer);
    until("a watch", || world.open_watches() == 1).await;
    drop(subscription);
    until("no watch", || world.open_watches() == 0).await;
    assert_eq!((store.len(), informers.stats().len()), (2, 0));
    // Asked for again it begins anew, and goes on without the factory.
    let informer = things(&informers);
    informer.wait_for_sync().await;
    until("a watch", || world.open_watches() == 1).await;
    assert_eq!(informer.stats().lists, 1);
    drop(informers);
    informer.wait_for_version(world.set("c", "1")).await;
    let subscription = informer.add_event_handler(|_| {});
    drop(informer);
    subscription.wait_for_sync().await;
    assert_eq!(world.open_watches(), 1);
    drop(subscription);
    until("no watch", || world.open_watches() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_every_watch() {
    let (world, informers) = world();
    let things = things(&informers);
    let mut changes = things.delta_stream();
    let typed = informers.typed::<ConfigMap>(InformerScope::default());
    informers.start();
    informers.wait_for_sync().await;
    until("two watches", || world.open_watches() == 2).await;
    informers.stop().await;
    assert_eq!(world.open_watches(), 0);
    let told = std::iter::repeat_with(|| changes.told.try_recv())
        .take_while(Result::is_ok)
        .count();
    assert_eq!((told, typed.store().len()), (2, 2));
    assert!(changes.next().await.is_none(), "a stream ends with its informer");
}

#[tokio::test(start_paused = true)]
async fn informers_show_their_figures() {
    let (world, informers) = world();
    let mut registry = prometheus_client::registry::Registry::default();
    let informers = informers.with_metrics(&Metrics::new(&mut registry));
    let informer = things(&informers);
    informers.start();
    informer.wait_for_version(world.bookmark()).await;
    let text = metrics::encode_text(&registry);
    for (family, figure) in [
        ("reflector_lists_total", 1),
        ("reflector_watches_total", 1),
        ("reflector_last_resource_version", 3),
    ] {
        let mut lines = text.lines().filter(|line| line.starts_with(family));
        let shown = lines.next().unwrap_or_default();
        let is_shown = shown.contains("/api/v1/configmaps") && shown.ends_with(&format!(" {figure}"));
        assert!(is_shown, "{family} {figure}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_before_the_start_never_begins() {
    let (world, informers) = world();
    drop(things(&informers));
    informers.start();
    informers.wait_for_sync().await;
    assert_eq!(world.requests().len(), 0);
}
