use k8s_openapi::api::{
    core::v1::{Node, PersistentVolumeClaim, Pod},
    events::v1::Event,
    storage::v1::StorageClass,
};
use kube::core::ApiResource;
use kubecontroller::{
    Clock,
    events::EventBroadcaster,
    informer::SharedInformerFactory,
    manager::{Runnable, Stop},
    testing::{FakeApi, Fault, RequestMatcher, eventually},
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Duration};

use super::Scheduler;

/// Schedulers at work; they end when this is dropped.
struct RunningSchedulers {
    tasks: JoinSet<()>,
    stop: Stop,
}

impl RunningSchedulers {
    fn new(api: &FakeApi, name: &str) -> Self {
        let client = api.client_with_user_agent(name);
        let events = EventBroadcaster::new(client.clone());
        let informers = SharedInformerFactory::new(client.clone());
        let scheduler =
            Scheduler::new(client, informers, Clock::system(), |name| events.recorder(name)).seeded(1);
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        let scheduler_stop = stop.clone();
        tasks.spawn(async move { scheduler.run(scheduler_stop).await.unwrap() });
        let events_stop = stop.clone();
        tasks.spawn(async move { events.run(events_stop).await.unwrap() });
        RunningSchedulers { tasks, stop }
    }

    async fn end(mut self) {
        self.stop.stop(Duration::from_secs(5));
        while self.tasks.join_next().await.is_some() {}
    }
}

fn node(api: &FakeApi, name: &str, cpu: &str) {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    });
    api.put(&serde_json::from_value::<Node>(node).unwrap());
}

fn pod(api: &FakeApi, name: &str, cpu: &str, change: impl FnOnce(&mut Value)) {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "default-scheduler", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}},
        ]},
        "status": {"phase": "Pending"},
    });
    change(&mut pod);
    api.put(&serde_json::from_value::<Pod>(pod).unwrap());
}

fn node_of(api: &FakeApi, name: &str) -> Option<String> {
    api.get::<Pod>("default", name)?.spec?.node_name
}

async fn bound(api: &FakeApi, name: &str) -> String {
    eventually(|| async { node_of(api, name) }).await
}

/// Reason and message of the condition.
fn condition(api: &FakeApi, name: &str) -> Option<(String, String)> {
    let conditions = api.get::<Pod>("default", name)?.status?.conditions?;
    let condition = conditions
        .into_iter()
        .find(|condition| condition.type_ == "PodScheduled")?;
    Some((condition.reason?, condition.message?))
}

async fn event(api: &FakeApi, pod: &str, reason: &str) -> Event {
    let find = || {
        let events = api.list::<Event>();
        events.into_iter().find(|event| {
            let regarding = event
                .regarding
                .as_ref()
                .and_then(|regarding| regarding.name.as_deref());
            regarding == Some(pod) && event.reason.as_deref() == Some(reason)
        })
    };
    eventually(|| async { find() }).await
}

#[tokio::test(start_paused = true)]
async fn binds_a_pod_and_records_an_event() {
    let api = FakeApi::new();
    node(&api, "n", "4");
    pod(&api, "p", "1", |_| {});
    let running = RunningSchedulers::new(&api, "s");
    assert_eq!(bound(&api, "p").await, "n");
    let event = event(&api, "p", "Scheduled").await;
    assert_eq!(
        event.note.as_deref(),
        Some("Successfully assigned default/p to n")
    );
    assert_eq!(event.action.as_deref(), Some("Binding"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.reporting_controller.as_deref(), Some("default-scheduler"));
    running.end().await;
}

/// Upstream's types accept these values, or an API server does not validate them. Without the objects the pod would wait for ever.
#[tokio::test(start_paused = true)]
async fn binds_a_pod_whose_status_and_node_have_unusual_values() {
    let api = FakeApi::new();
    let node = json!({"metadata": {"name": "n"}, "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/disks": "many"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z"}],
    }});
    api.put_value(&ApiResource::erase::<Node>(&()), node);
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"schedulerName": "default-scheduler", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
        ]},
        "status": {"phase": "Pending", "startTime": "9999-12-31T23:59:59Z", "containerStatuses": [
            {"name": "c", "restartCount": -1, "allocatedResources": {"cpu": "some"}},
        ]},
    });
    api.put_value(&ApiResource::erase::<Pod>(&()), pod);
    let running = RunningSchedulers::new(&api, "s");
    let is_bound = || {
        let requests = api.requests().into_iter();
        let mut bindings = requests.filter(|request| request.subresource == "binding");
        bindings.any(|binding| binding.body["target"]["name"] == "n")
    };
    eventually(|| async { is_bound() }).await;
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn reports_an_unschedulable_pod_once_and_binds_it_later() {
    let api = FakeApi::new();
    node(&api, "small", "1");
    pod(&api, "p", "2", |_| {});
    let running = RunningSchedulers::new(&api, "s");
    let message = "0/1 nodes are available: 1 Insufficient cpu. \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    let (reason, error_message) = eventually(|| async { condition(&api, "p") }).await;
    assert_eq!(
        (reason.as_str(), error_message.as_str()),
        ("Unschedulable", message)
    );
    let event = event(&api, "p", "FailedScheduling").await;
    assert_eq!(event.note.as_deref(), Some(message));
    assert_eq!(event.action.as_deref(), Some("Scheduling"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    // Nodes that do not help change nothing that is written.
    node(&api, "small", "500m");
    tokio::time::sleep(Duration::from_mins(30)).await;
    let writes = api
        .writes()
        .into_iter()
        .filter(|write| write.subresource == "status")
        .count();
    assert_eq!(writes, 1, "the condition is written once");
    node(&api, "large", "4");
    assert_eq!(bound(&api, "p").await, "large");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn ignores_pods_of_other_schedulers() {
    let api = FakeApi::new();
    node(&api, "n", "4");
    pod(&api, "other", "1", |pod| {
        pod["spec"]["schedulerName"] = "other".into();
    });
    pod(&api, "own", "1", |_| {});
    let running = RunningSchedulers::new(&api, "s");
    bound(&api, "own").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(node_of(&api, "other"), None);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn retries_a_rejected_bind() {
    let api = FakeApi::new();
    node(&api, "n", "4");
    pod(&api, "p", "1", |_| {});
    api.faults().on(
        RequestMatcher::verb("create").resource("pods/binding").times(2),
        Fault::Status(500),
    );
    let running = RunningSchedulers::new(&api, "s");
    assert_eq!(bound(&api, "p").await, "n");
    let reason = event(&api, "p", "FailedScheduling").await.note.unwrap();
    assert!(
        reason.starts_with("running Bind plugin \"DefaultBinder\": "),
        "{reason}"
    );
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn does_not_rebind_after_a_lost_bind_response() {
    let api = FakeApi::new();
    for name in ["a", "b", "c"] {
        node(&api, name, "4");
    }
    pod(&api, "p", "3", |_| {});
    api.faults().on(
        RequestMatcher::verb("create").resource("pods/binding").times(1),
        Fault::LostResponse,
    );
    let running = RunningSchedulers::new(&api, "s");
    let first = bound(&api, "p").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(node_of(&api, "p"), Some(first));
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn restarted_scheduler_finishes_pending_pods() {
    // Killed before each of its writes in turn, whatever was assumed is found again.
    for writes in 0..8 {
        let api = FakeApi::new();
        node(&api, "a", "4");
        node(&api, "b", "4");
        for name in ["p", "q", "r"] {
            pod(&api, name, "2", |_| {});
        }
        api.faults().lose_write_after(writes);
        let running = RunningSchedulers::new(&api, "first");
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(running);
        api.faults().clear();
        let running = RunningSchedulers::new(&api, "second");
        for name in ["p", "q", "r"] {
            bound(&api, name).await;
        }
        let on_a = ["p", "q", "r"]
            .iter()
            .filter(|name| node_of(&api, name).as_deref() == Some("a"));
        assert!((1..=2).contains(&on_a.count()), "no node has more than it can");
        running.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_schedulers_bind_each_pod_once() {
    let api = FakeApi::new();
    for number in 0..5 {
        node(&api, &format!("n{number}"), "100");
    }
    let one = RunningSchedulers::new(&api, "one");
    let two = RunningSchedulers::new(&api, "two");
    for number in 0..50 {
        pod(&api, &format!("p{number}"), "1", |_| {});
    }
    for number in 0..50 {
        bound(&api, &format!("p{number}")).await;
    }
    let assignments = || {
        (0..50)
            .map(|number| node_of(&api, &format!("p{number}")))
            .collect::<Vec<_>>()
    };
    let before = assignments();
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(assignments(), before);
    api.clear_requests();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(
        api.writes().is_empty(),
        "nothing is left to be done: {:?}",
        api.writes()
    );
    one.end().await;
    two.end().await;
}

#[tokio::test(start_paused = true)]
async fn preempts_a_lower_priority_pod() {
    let api = FakeApi::new();
    node(&api, "n", "4");
    pod(&api, "weak", "3", |pod| {
        pod["spec"]["nodeName"] = "n".into();
        pod["metadata"]["finalizers"] = json!(["x/y"]);
    });
    pod(&api, "strong", "3", |pod| pod["spec"]["priority"] = 10.into());
    let running = RunningSchedulers::new(&api, "s");
    let nominated_node_name = || {
        api.get::<Pod>("default", "strong")
            .and_then(|pod| pod.status?.nominated_node_name)
    };
    assert_eq!(eventually(|| async { nominated_node_name() }).await, "n");
    let victim = eventually(|| async {
        api.get::<Pod>("default", "weak")
            .filter(|pod| pod.metadata.deletion_timestamp.is_some())
    });
    let victim = victim.await;
    let conditions = victim.status.unwrap().conditions.unwrap();
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == "DisruptionTarget")
        .unwrap();
    assert_eq!(condition.reason.as_deref(), Some("PreemptionByScheduler"));
    let message = "default-scheduler: preempting to accommodate a higher priority pod";
    assert_eq!(condition.message.as_deref(), Some(message));
    let event = event(&api, "weak", "Preempted").await;
    let uid = api.get::<Pod>("default", "strong").unwrap().metadata.uid.unwrap();
    assert_eq!(event.note, Some(format!("Preempted by pod {uid} on node n")));
    assert_eq!(event.action.as_deref(), Some("Preempting"));
    assert_eq!(node_of(&api, "strong"), None, "the weaker is still there");
    api.remove::<Pod>("default", "weak");
    assert_eq!(bound(&api, "strong").await, "n");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn provisions_a_volume_before_binding() {
    let api = FakeApi::new();
    node(&api, "n", "4");
    let class = json!({
        "metadata": {"name": "later"}, "provisioner": "driver", "volumeBindingMode": "WaitForFirstConsumer",
    });
    api.put(&serde_json::from_value::<StorageClass>(class).unwrap());
    let claim = json!({
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"storageClassName": "later", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    api.put(&serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap());
    pod(&api, "p", "1", |pod| {
        pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    });
    let running = RunningSchedulers::new(&api, "s");
    let chosen = || {
        let claim = api.get::<PersistentVolumeClaim>("default", "c")?;
        claim
            .metadata
            .annotations?
            .remove("volume.kubernetes.io/selected-node")
    };
    assert_eq!(eventually(|| async { chosen() }).await, "n");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(node_of(&api, "p"), None);
    let promised = api.get::<Pod>("default", "p").unwrap().status.unwrap();
    assert_eq!(promised.nominated_node_name.as_deref(), Some("n"));
    api.edit::<PersistentVolumeClaim>("default", "c", |claim| {
        claim.spec.as_mut().unwrap().volume_name = Some("made".into());
        let annotations = claim.metadata.annotations.as_mut().unwrap();
        annotations.insert("pv.kubernetes.io/bind-completed".into(), "yes".into());
    });
    assert_eq!(bound(&api, "p").await, "n");
    running.end().await;
}
