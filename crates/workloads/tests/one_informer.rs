//! In one process pods, nodes and volumes are watched once, however many components read them.

use std::sync::Arc;

use k3_controllers::{CONTROLLERS, ClusterConfig, ControllerContext, Task};
use k3_scheduler::Scheduler;
use k3_simulator::{Rules, Simulator};
use k8s_openapi::api::core::v1::Pod;
use kubecontroller::{
    Clock,
    events::EventBroadcaster,
    informer::SharedInformerFactory,
    manager::Stop,
    metrics::Metrics,
    testing::{FakeApi, eventually},
    writer::ApiWriter,
};
use serde_json::json;
use tokio::task::JoinSet;

/// Watches the metadata of every resource, for which it asks the server.
const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

#[tokio::test(start_paused = true)]
async fn controllers_scheduler_and_simulator_share_the_informers_of_pods_nodes_and_volumes() {
    let api = FakeApi::new();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "web", "image": "web:1"}]},
    });
    api.put(&serde_json::from_value::<Pod>(pod).expect("the pod is valid"));
    let client = api.client();
    let informers = SharedInformerFactory::new(client.clone());
    let events = EventBroadcaster::new(client.clone());
    let context = ControllerContext {
        writer: ApiWriter::new(client.clone()),
        informers: informers.clone(),
        recorder: events.recorder("controllers"),
        clock: Clock::system(),
        metrics: Metrics::default(),
        cluster: Arc::new(ClusterConfig::default()),
    };
    let controllers = CONTROLLERS
        .iter()
        .filter(|descriptor| descriptor.name != GARBAGE_COLLECTOR);
    let mut running: Vec<Task> = controllers
        .flat_map(|descriptor| (descriptor.make)(&context))
        .collect();
    running.push(Box::new(Scheduler::new(
        client.clone(),
        informers.clone(),
        Clock::system(),
        |name| events.recorder(name),
    )));
    running.push(Box::new(Simulator::new(
        client,
        informers.clone(),
        Clock::system(),
        1,
        Rules::default(),
    )));
    let mut tasks = JoinSet::new();
    for task in running {
        tasks.spawn(async move { task.run(Stop::new()).await });
    }
    informers.start();

    // The scheduler has bound the pod, and the simulator runs it.
    eventually(|| async {
        let pod = api.get::<Pod>("default", "web")?;
        (pod.status?.phase.as_deref() == Some("Running")).then_some(())
    })
    .await;
    let names: Vec<_> = informers
        .stats()
        .into_iter()
        .map(|informer| informer.name)
        .collect();
    for path in [
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
    ] {
        let of_the_kind: Vec<_> = names.iter().filter(|name| name.starts_with(path)).collect();
        assert_eq!(of_the_kind, [path], "{names:?}");
    }
}
