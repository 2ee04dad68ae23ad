//! Every field of every kind may be `null`: the scheduler reads such objects, and keeps running.

use k8s_openapi::api::core::v1::{Node, Pod};
use kubecontroller::{
    Clock,
    events::EventBroadcaster,
    informer::{InformerStats, SharedInformerFactory},
    manager::{Runnable, Stop},
    testing::{FakeApi, eventually},
};
use serde_json::json;
use tokio::task::JoinSet;

use super::Scheduler;

#[tokio::test]
async fn pods_are_bound_while_every_field_of_every_kind_is_null_somewhere() {
    let api = FakeApi::new();
    assert!(k3_test_objects::put_null_objects(&api) > 10_000);
    let node = json!({"metadata": {"name": "n"}, "status": {
        "images": [{"names": null, "sizeBytes": 1}],
        "allocatable": {"cpu": "1", "memory": "8Gi", "pods": "110", "example.com/none": null},
    }});
    let nodes = kube::core::ApiResource::erase::<Node>(&());
    api.put_value(&nodes, node);
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {
        "schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i", "ports": null}],
    }});
    api.put_value(&kube::core::ApiResource::erase::<Pod>(&()), pod);
    let client = api.client();
    let events = EventBroadcaster::new(client.clone());
    let informers = SharedInformerFactory::new(client.clone());
    let scheduler = Scheduler::new(client, informers.clone(), Clock::system(), |name| {
        events.recorder(name)
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { scheduler.run(Stop::new()).await.expect("nothing stops it") });
    let bound = eventually(|| async { api.get::<Pod>("default", "p")?.spec?.node_name }).await;
    assert_eq!(bound, "n");
    let metrics = informers.stats();
    assert!(metrics.len() > 10, "{metrics:#?}");
    let bad = metrics
        .iter()
        .filter(|informer| informer.undecodable + informer.failures > 0);
    assert_eq!(bad.collect::<Vec<_>>(), Vec::<&InformerStats>::new());
    for informer in metrics {
        assert!(informer.objects > 0, "{informer:?}");
    }
}
