//! An informer against a server that misbehaves.

mod faults;
mod model;
mod sharing;
mod telling;
mod view;
mod world;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;

use super::{Informer, InformerOptions, InformerScope, SharedInformerFactory};
use crate::object::{Object, SlimObject};

/// What is kept of the objects.
#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

type Thing = SlimObject<Content>;

/// An informer of a world, started.
fn informer(
    world: &world::World,
    options: InformerOptions<Thing>,
) -> (SharedInformerFactory, Informer<Thing>) {
    let informers = SharedInformerFactory::new(world.client()).with_random(|| 0.5);
    let informer = informers
        .slim_with::<ConfigMap, Content>(InformerScope::default(), options)
        .unwrap();
    informers.start();
    (informers, informer)
}

/// The names in the store, with their versions.
fn held<T: Object>(informer: &Informer<T>) -> BTreeMap<String, String> {
    let objects = informer.store().all();
    let pair = |object: &std::sync::Arc<T>| (object.name().to_owned(), object.resource_version().to_owned());
    objects.iter().map(pair).collect()
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to this: {what}");
}
