//! Informers against a server that fails in various ways.

mod fake_server;
mod faults;
mod handlers;
mod observer;
mod random_steps;
mod sharing;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;

use super::{Informer, InformerOptions, InformerScope, SharedInformerFactory};
use crate::object::{Object, SlimObject};

#[derive(Debug, Deserialize)]
struct TestFields {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

type TestObject = SlimObject<TestFields>;

/// A started informer of the config maps of a server.
fn informer(
    server: &fake_server::FakeServer,
    options: InformerOptions<TestObject>,
) -> (SharedInformerFactory, Informer<TestObject>) {
    let informers = SharedInformerFactory::new(server.client()).with_random(|| 0.5);
    let informer = informers
        .slim_with::<ConfigMap, TestFields>(InformerScope::default(), options)
        .unwrap();
    informers.start();
    (informers, informer)
}

/// The names in the store, with their resource versions.
fn stored_versions<T: Object>(informer: &Informer<T>) -> BTreeMap<String, String> {
    let objects = informer.store().all();
    let pair = |object: &std::sync::Arc<T>| (object.name().to_owned(), object.resource_version().to_owned());
    objects.iter().map(pair).collect()
}

async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("timed out waiting for {what}");
}
