//! Sharing and lifetime of informers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use super::{TestFields, TestObject, fake_server::FakeServer, stored_versions, wait_until};
use crate::{
    informer::{EventHandlerRegistration, Informer, InformerOptions, InformerScope, SharedInformerFactory},
    metrics::Metrics,
};

fn server_and_factory() -> (FakeServer, SharedInformerFactory) {
    let server = FakeServer::new();
    server.set("a", "1");
    server.set("b", "1");
    let informers = SharedInformerFactory::new(server.client());
    (server, informers)
}

fn config_maps(informers: &SharedInformerFactory) -> Informer<TestObject> {
    informers.slim::<ConfigMap, TestFields>(InformerScope::default())
}

#[tokio::test(start_paused = true)]
async fn fifty_handlers_share_one_watch_and_each_event_is_decoded_once() {
    let (server, informers) = server_and_factory();
    let calls = Arc::new(AtomicUsize::new(0));
    let subscribe = |_| {
        let calls = Arc::clone(&calls);
        config_maps(&informers).add_event_handler(move |_| _ = calls.fetch_add(1, Ordering::Relaxed))
    };
    let registrations: Vec<EventHandlerRegistration> = (0..50).map(subscribe).collect();
    informers.start();
    informers.wait_for_sync().await;
    let informer = config_maps(&informers);
    for value in ["2", "3", "4"] {
        informer.wait_for_version(server.set("a", value)).await;
    }
    assert_eq!(calls.load(Ordering::Relaxed), 50 * 5);
    assert_eq!(
        (server.count_requests("watch=true"), server.requests().len()),
        (1, 2)
    );
    assert_eq!(informer.stats().decoded, 5);
    drop(registrations);
}

#[tokio::test(start_paused = true)]
async fn kind_type_and_scope_identify_an_informer() {
    let (server, informers) = server_and_factory();
    informers.start();
    let maps = config_maps(&informers);
    let same = informers.slim::<ConfigMap, TestFields>(InformerScope::default());
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
    wait_until("five watches", || server.open_watches() == 5).await;
    assert!(Arc::ptr_eq(&maps.core, &same.core));
    assert_eq!(informers.stats().len(), 5);
    let request =
        "/namespaces/shop/configmaps?&fieldSelector=metadata.name%21%3Dc&labelSelector=app+in+%28a%2Cb%29";
    assert_eq!(server.count_requests(request), 1, "{:?}", server.requests());
    let metadata_lists = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let metadata_watches = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(
        (
            server.count_requests(metadata_lists),
            server.count_requests(metadata_watches)
        ),
        (1, 1)
    );
    let kinds = dynamic.store().all();
    assert!(
        kinds
            .iter()
            .all(|object| object.types.as_ref().unwrap().kind == "ConfigMap")
    );
    let everywhere = [
        stored_versions(&maps),
        stored_versions(&typed),
        stored_versions(&scoped),
        stored_versions(&metadata),
        stored_versions(&dynamic),
    ];
    assert!(everywhere.iter().all(|versions| *versions == server.objects()));
}

#[tokio::test(start_paused = true)]
async fn rejects_options_that_differ_from_the_existing_informer() {
    let (_world, informers) = server_and_factory();
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
    let error = with(&options.clone().transform(|_| {})).unwrap_err().to_string();
    assert_eq!(
        error,
        "informer /api/v1/configmaps already exists with a different transform"
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_runs_while_a_handle_or_a_registration_exists() {
    let (server, informers) = server_and_factory();
    let informer = config_maps(&informers);
    assert_eq!(server.requests().len(), 0, "no request before the start");
    informers.start();
    let registration = informer.add_event_handler(|_| {});
    let store = informer.store().clone();
    informer.wait_for_sync().await;
    drop(informer);
    wait_until("a watch", || server.open_watches() == 1).await;
    drop(registration);
    wait_until("no watch", || server.open_watches() == 0).await;
    assert_eq!((store.len(), informers.stats().len()), (2, 0));
    // A new informer lists again, and continues when the factory is dropped.
    let informer = config_maps(&informers);
    informer.wait_for_sync().await;
    wait_until("a watch", || server.open_watches() == 1).await;
    assert_eq!(informer.stats().lists, 1);
    drop(informers);
    informer.wait_for_version(server.set("c", "1")).await;
    let registration = informer.add_event_handler(|_| {});
    drop(informer);
    registration.wait_for_sync().await;
    assert_eq!(server.open_watches(), 1);
    drop(registration);
    wait_until("no watch", || server.open_watches() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn stop_ends_every_watch() {
    let (server, informers) = server_and_factory();
    let maps = config_maps(&informers);
    let mut changes = maps.delta_stream();
    let typed = informers.typed::<ConfigMap>(InformerScope::default());
    informers.start();
    informers.wait_for_sync().await;
    wait_until("two watches", || server.open_watches() == 2).await;
    informers.stop().await;
    assert_eq!(server.open_watches(), 0);
    let received = std::iter::repeat_with(|| changes.deltas.try_recv())
        .take_while(Result::is_ok)
        .count();
    assert_eq!((received, typed.store().len()), (2, 2));
    assert!(changes.next().await.is_none(), "a stream ends with its informer");
}

#[tokio::test(start_paused = true)]
async fn informers_export_metrics() {
    let (server, informers) = server_and_factory();
    let metrics = Metrics::default();
    let informers = informers.with_metrics(&metrics);
    let informer = config_maps(&informers);
    informers.start();
    informer.wait_for_version(server.bookmark()).await;
    let text = metrics.text();
    for (name, value) in [
        ("reflector_lists_total", 1),
        ("reflector_watches_total", 1),
        ("reflector_last_resource_version", 3),
    ] {
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        let line = lines.next().unwrap_or_default();
        let is_exported = line.contains("/api/v1/configmaps") && line.ends_with(&format!(" {value}"));
        assert!(is_exported, "{name} {value}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_dropped_before_the_start_sends_no_request() {
    let (server, informers) = server_and_factory();
    drop(config_maps(&informers));
    informers.start();
    informers.wait_for_sync().await;
    assert_eq!(server.requests().len(), 0);
}
