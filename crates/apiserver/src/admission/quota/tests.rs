use std::sync::Arc;

use k3_api::{strategy::Tree, time::Time};
use k3_storage::{Revision, Store, memory::MemoryStore};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{super::testing::TestCluster, *};

/// A cluster with a quota whose status is up to date.
async fn world(spec: &Value, used: &Value) -> TestCluster {
    let world = TestCluster::new().await;
    world.put(quota("q", spec, used)).await;
    world
}

fn quota(name: &str, spec: &Value, used: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "n"},
        "spec": spec, "status": {"hard": spec.at("hard"), "used": used},
    })
}

fn pod(name: &str, spec: &Value) -> Value {
    let class = if spec.to_string().contains("resources") {
        "Burstable"
    } else {
        "BestEffort"
    };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"},
        "spec": spec, "status": {"qosClass": class},
    })
}

fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

/// What the quotas say to a request.
async fn ask(
    world: &TestCluster,
    operation: Operation,
    part: &str,
    object: Value,
    old: Option<&Value>,
    dry_run: bool,
) -> String {
    let mut question = world.question(operation, part, object);
    question.dry_run = dry_run;
    let attributes = question.attributes(old);
    let refused = QuotaAdmission::new(world.writer())
        .charge(&attributes, world.caches())
        .await;
    let why = refused.err().map(|status| status.message).unwrap_or_default();
    why.split_once(" is forbidden: ")
        .map_or(why.clone(), |(_, why)| why.to_owned())
}

async fn create(world: &TestCluster, object: Value) -> String {
    ask(world, Operation::Create, "", object, None, false).await
}

/// What is used of a quota.
fn used(world: &TestCluster, name: &str) -> Value {
    let quota = super::super::object("", "resourcequotas", "n", name, world.caches()).unwrap();
    quota.at_path("status.used").clone()
}

#[tokio::test]
async fn charges_until_quota_is_exceeded() {
    let hard = json!({"hard": {"requests.cpu": "1", "pods": "5", "services": "1"}});
    let world = world(&hard, &json!({"requests.cpu": "0", "pods": "0", "services": "0"})).await;
    assert_eq!(create(&world, pod("a", &asking("800m"))).await, "");
    assert_eq!(
        used(&world, "q"),
        json!({"requests.cpu": "800m", "pods": "1", "services": "0"})
    );
    assert_eq!(
        create(&world, pod("b", &asking("300m"))).await,
        "exceeded quota: q, requested: requests.cpu=300m, used: requests.cpu=800m, limited: requests.cpu=1"
    );
    assert_eq!(create(&world, pod("c", &asking("200m"))).await, "");
    assert_eq!(
        used(&world, "q"),
        json!({"requests.cpu": "1", "pods": "2", "services": "0"})
    );
    let quota = super::super::object("", "resourcequotas", "n", "q", world.caches()).unwrap();
    let manager = &quota.at("metadata").items("managedFields")[0];
    assert_eq!(
        (manager.text("manager"), manager.text("subresource")),
        ("kube-apiserver", "status")
    );
}

#[tokio::test]
async fn dry_run_and_other_namespaces_are_not_charged() {
    let world = world(&json!({"hard": {"pods": "1"}}), &json!({"pods": "0"})).await;
    let dry = ask(&world, Operation::Create, "", pod("a", &json!({})), None, true).await;
    assert_eq!((dry.as_str(), used(&world, "q")), ("", json!({"pods": "0"})));
    let mut elsewhere = pod("a", &json!({}));
    elsewhere["metadata"]["namespace"] = json!("m");
    assert_eq!(create(&world, elsewhere).await, "");
    assert_eq!(used(&world, "q"), json!({"pods": "0"}));
}

#[tokio::test]
async fn charges_all_quotas_or_none() {
    let world = world(&json!({"hard": {"pods": "3"}}), &json!({"pods": "0"})).await;
    world
        .put(quota(
            "r",
            &json!({"hard": {"count/pods": "1"}}),
            &json!({"count/pods": "0"}),
        ))
        .await;
    assert_eq!(create(&world, pod("a", &json!({}))).await, "");
    assert_eq!(
        create(&world, pod("b", &json!({}))).await,
        "exceeded quota: r, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
    );
    assert_eq!(
        (used(&world, "q"), used(&world, "r")),
        (json!({"pods": "1"}), json!({"count/pods": "1"}))
    );
}

#[tokio::test]
async fn requires_requests_for_tracked_resources() {
    let hard = json!({"limits.cpu": "1", "requests.memory": "1", "requests.ephemeral-storage": "1"});
    let used = json!({"limits.cpu": "0", "requests.memory": "0", "requests.ephemeral-storage": "0"});
    let world = world(&json!({"hard": hard}), &used).await;
    let mut spec = json!({
        "containers": [{"name": "b", "resources": {"limits": {"cpu": "1m"}}}, {"name": "a"}],
        "initContainers": [{"name": "i", "resources": {"requests": {"memory": "1"}}}],
    });
    assert_eq!(
        create(&world, pod("a", &spec)).await,
        "failed quota: q: must specify limits.cpu for: a,i; requests.memory for: a,b"
    );
    // A pod that speaks for its containers says enough.
    spec["resources"] = json!({"limits": {"cpu": "1"}});
    assert_eq!(create(&world, pod("a", &spec)).await, "");
}

#[tokio::test]
async fn quota_without_status_rejects_unless_empty() {
    let world = world(
        &json!({"hard": {"configmaps": "5", "count/configmaps": "5", "pods": "1"}}),
        &json!({}),
    )
    .await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
    assert_eq!(
        create(&world, map.clone()).await,
        "status unknown for quota: q, resources: configmaps,count/configmaps"
    );
    let silent = TestCluster::new().await;
    let mut fresh = quota("q", &json!({"hard": {"configmaps": "0"}}), &json!({}));
    fresh["status"] = json!({});
    silent.put(fresh).await;
    assert_eq!(create(&silent, map).await, "");
}

#[tokio::test]
async fn counts_objects_by_resource_name() {
    for (object, name) in [
        (json!({"apiVersion": "v1", "kind": "Secret"}), "count/secrets"),
        (json!({"apiVersion": "v1", "kind": "Secret"}), "secrets"),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            "count/deployments.apps",
        ),
        (json!({"apiVersion": "v1", "kind": "Service"}), "count/services"),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "x", "namespace": "n"});
        let world = world(&json!({"hard": {name: "1"}}), &json!({name: "0"})).await;
        assert_eq!(create(&world, object.clone()).await, "");
        assert_eq!(
            create(&world, object).await,
            format!("exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1")
        );
    }
    let world = world(
        &json!({"hard": {"count/events": "0"}}),
        &json!({"count/events": "0"}),
    )
    .await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"}});
    assert_eq!(create(&world, event).await, "");
}

/// What a new object is charged for.
async fn measured(object: &Value, extra: &[Value]) -> Value {
    let world = TestCluster::new().await;
    for object in extra {
        world.put(object.clone()).await;
    }
    let mut question = world.question(Operation::Create, "", object.clone());
    let quotas = QuotaAdmission::new(world.writer());
    let attributes = question.attributes(None);
    let kind = &attributes.resource.kind;
    let meter = QuotaEvaluator::of(&kind.group, &kind.plural, || quotas.classes(world.caches()));
    let around = usage_delta::CachedSurroundings(world.caches());
    let usage = meter.measure(attributes.object, Time::from_unix(0, 0), &around);
    assert!(usage.keys().all(|name| meter.tracks(name)), "{usage:?}");
    let usage = usage.into_iter().filter(|(_, amount)| !amount.is_zero());
    Value::Object(
        usage
            .map(|(name, amount)| (name, json!(amount.to_string())))
            .collect(),
    )
}

#[tokio::test]
async fn pod_usage_is_requests_and_overhead() {
    let resources = json!({
        "requests": {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    });
    let spec = json!({
        "containers": [{"name": "c", "resources": resources}],
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}],
        "overhead": {"cpu": "100m", "memory": "1Mi"},
    });
    let whole = json!({
        "count/pods": "1", "pods": "1", "cpu": "3100m", "requests.cpu": "3100m", "limits.cpu": "2100m", "limits.memory": "1025Mi",
        "memory": "1Mi", "requests.memory": "1Mi", "ephemeral-storage": "1Gi", "requests.ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi", "requests.example.com/gpu": "2",
    });
    let mut pod = pod("a", &spec);
    assert_eq!(measured(&pod, &[]).await, whole);
    // What a container has counts while it has it.
    let mut shrinking = pod.clone();
    shrinking["status"]["containerStatuses"] = json!([{"name": "c", "allocatedResources": {"cpu": "5"}}]);
    assert_eq!(measured(&shrinking, &[]).await.at("requests.cpu"), "5100m");
    shrinking["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    shrinking["status"]["containerStatuses"] = json!([{"name": "c", "allocatedResources": {"cpu": "1m"}}]);
    assert_eq!(measured(&shrinking, &[]).await.at("requests.cpu"), "101m");
    pod["status"]["phase"] = json!("Succeeded");
    assert_eq!(measured(&pod, &[]).await, json!({"count/pods": "1"}));
    pod["status"]["phase"] = json!("Running");
    pod["metadata"]["deletionTimestamp"] = json!("1969-12-31T23:00:00Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    assert_eq!(measured(&pod, &[]).await, json!({"count/pods": "1"}));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(3600);
    assert_eq!(measured(&pod, &[]).await, whole);
}

#[tokio::test]
async fn services_and_claims_use_ports_load_balancers_and_storage() {
    let service = |spec: &Value| {
        let spec = spec.clone();
        async move {
            let usage = measured(
                &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": spec}),
                &[],
            )
            .await;
            let count = |name: &str| usage.text(name).parse().unwrap_or(0);
            [
                count("services"),
                count("services.nodeports"),
                count("services.loadbalancers"),
            ]
        }
    };
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30001}]);
    assert_eq!(
        service(&json!({"type": "ClusterIP", "ports": ports})).await,
        [1, 0, 0]
    );
    assert_eq!(
        service(&json!({"type": "NodePort", "ports": ports})).await,
        [1, 2, 0]
    );
    assert_eq!(
        service(&json!({"type": "LoadBalancer", "ports": ports})).await,
        [1, 2, 1]
    );
    let without = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports});
    assert_eq!(service(&without).await, [1, 1, 1]);
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "n"},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5"}}},
    });
    assert_eq!(
        measured(&claim, &[]).await,
        json!({
            "count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "2",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "2",
        })
    );
    claim["status"] = json!({"allocatedResources": {"storage": "3Gi"}});
    assert_eq!(measured(&claim, &[]).await.at("requests.storage"), "3Gi");
}

#[tokio::test]
async fn device_claim_usage_is_maximum() {
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "n", "uid": "1"},
        "spec": {"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
            {"name": "b", "firstAvailable": [
                {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
            ]},
        ]}},
    });
    let usage = |left: &str| {
        let mut usage = json!({
            "count/resourceclaims.resource.k8s.io": "1", "gpu.deviceclass.resource.k8s.io/devices": "5",
            "requests.deviceclass.resource.kubernetes.io/gpu": "5",
        });
        usage["requests.example.com/gpu"] = json!(left);
        usage
    };
    assert_eq!(measured(&claim, std::slice::from_ref(&class)).await, usage("5"));
    // What a pod asked for by another name is charged to it already.
    claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    claim["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "7", "controller": true}]);
    let mut owner = pod(
        "p",
        &json!({"containers": [{"resources": {"requests": {"example.com/gpu": "3"}}}]}),
    );
    owner["metadata"]["uid"] = json!("7");
    assert_eq!(
        measured(&claim, &[class.clone(), owner.clone()]).await,
        usage("2")
    );
    owner["metadata"]["uid"] = json!("8");
    assert_eq!(measured(&claim, &[class, owner]).await, usage("5"));
}

#[tokio::test]
async fn scoped_quota_matches_some_objects() {
    let affinity = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"podAffinityTerm": {"namespaceSelector": {}}},
    ]}});
    let select = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]});
    for (scopes, selector, spec, counts) in [
        (json!(["BestEffort"]), json!(null), json!({}), true),
        (json!(["BestEffort"]), json!(null), asking("1"), false),
        (json!(["NotBestEffort"]), json!(null), asking("1"), true),
        (
            json!(["Terminating"]),
            json!(null),
            json!({"activeDeadlineSeconds": 1}),
            true,
        ),
        (
            json!(["NotTerminating"]),
            json!(null),
            json!({"activeDeadlineSeconds": 1}),
            false,
        ),
        (
            json!(["PriorityClass"]),
            json!(null),
            json!({"priorityClassName": "high"}),
            true,
        ),
        (json!(["PriorityClass"]), json!(null), json!({}), false),
        (
            json!(["CrossNamespacePodAffinity"]),
            json!(null),
            json!({"affinity": affinity}),
            true,
        ),
        (
            json!(["CrossNamespacePodAffinity", "BestEffort"]),
            json!(null),
            json!({}),
            false,
        ),
        (
            json!([]),
            select("In", &["high", "low"]),
            json!({"priorityClassName": "high"}),
            true,
        ),
        (
            json!([]),
            select("In", &["low"]),
            json!({"priorityClassName": "high"}),
            false,
        ),
        (json!([]), select("NotIn", &["low"]), json!({}), true),
        (json!([]), select("DoesNotExist", &[]), json!({}), true),
        (json!(["VolumeAttributesClass"]), json!(null), json!({}), false),
    ] {
        let spec_of_quota = json!({"hard": {"pods": "1"}, "scopes": scopes, "scopeSelector": selector});
        let world = world(&spec_of_quota, &json!({"pods": "0"})).await;
        create(&world, pod("a", &spec)).await;
        let expected = if counts { "1" } else { "0" };
        assert_eq!(
            used(&world, "q"),
            json!({"pods": expected}),
            "{spec_of_quota} {spec}"
        );
    }
}

#[tokio::test]
async fn update_is_charged_for_increase() {
    let world = world(
        &json!({"hard": {"requests.storage": "5Gi"}}),
        &json!({"requests.storage": "2Gi"}),
    )
    .await;
    let claim = |size: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "n"},
            "spec": {"resources": {"requests": {"storage": size}}},
        })
    };
    let update = |part: &'static str, new: &str| {
        let world = &world;
        let new = claim(new);
        async move { ask(world, Operation::Update, part, new, Some(&claim("2Gi")), false).await }
    };
    assert_eq!(update("", "2Gi").await, "");
    assert_eq!(used(&world, "q"), json!({"requests.storage": "2Gi"}));
    assert_eq!(
        update("", "6Gi").await,
        "exceeded quota: q, requested: requests.storage=4Gi, used: requests.storage=2Gi, limited: requests.storage=5Gi"
    );
    assert_eq!(update("", "4Gi").await, "");
    assert_eq!(used(&world, "q"), json!({"requests.storage": "4Gi"}));
    // What is so already is charged, whatever the limit.
    assert_eq!(update("status", "6Gi").await, "");
    assert_eq!(used(&world, "q"), json!({"requests.storage": "8Gi"}));
    let old = pod("a", &asking("1"));
    let mut new = pod("a", &asking("1"));
    new["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(
        ask(&world, Operation::Update, "", new, Some(&old), false).await,
        ""
    );
}

/// Makes pods at the same time through several servers over one store. Gives how many were made.
async fn storm(servers: usize, pods: usize, limit: usize) -> (usize, String) {
    let store: Arc<dyn Store> = MemoryStore::new();
    let hard = json!({"hard": {"pods": limit.to_string()}});
    TestCluster::over(Arc::clone(&store))
        .await
        .put(quota("q", &hard, &json!({"pods": "0"})))
        .await;
    let mut all = Vec::new();
    for _ in 0..servers {
        let world = TestCluster::over(Arc::clone(&store)).await;
        let quotas = QuotaAdmission::new(world.writer());
        all.push(Arc::new((world, quotas)));
    }
    let mut tasks = JoinSet::new();
    for number in 0..pods {
        let server = Arc::clone(&all[number % servers]);
        tasks.spawn(async move {
            let (world, quotas) = &*server;
            // Under contention a server may give up on a quota; the client then tries again, as clients do.
            loop {
                let made = pod(&format!("p{number}"), &json!({}));
                let mut question = world.question(Operation::Create, "", made.clone());
                let charged = quotas.charge(&question.attributes(None), world.caches()).await;
                match charged {
                    Ok(()) => {
                        world.put(made).await;
                        return true;
                    }
                    Err(status) if status.code == 409 => {}
                    Err(status) => {
                        assert!(status.message.contains("exceeded quota: q"), "{}", status.message);
                        return false;
                    }
                }
            }
        });
    }
    let answers = tasks.join_all().await;
    let world = TestCluster::over(store).await;
    let pods = resource("", "pods", world.caches())
        .cache
        .snapshot(Revision::ZERO)
        .objects
        .len();
    assert_eq!(answers.into_iter().filter(|made| *made).count(), pods);
    (pods, used(&world, "q").text("pods").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_never_exceed_quota() {
    assert_eq!(storm(1, 200, 30).await, (30, "30".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_sharing_a_store_share_quotas() {
    assert_eq!(storm(3, 120, 30).await, (30, "30".to_owned()));
}

#[tokio::test]
async fn cancelled_waiter_does_not_block_others() {
    let world = world(&json!({"hard": {"pods": "5"}}), &json!({"pods": "0"})).await;
    let quotas = QuotaAdmission::new(world.writer());
    for number in 0..4 {
        let mut question = world.question(Operation::Create, "", pod(&format!("p{number}"), &json!({})));
        let attributes = question.attributes(None);
        let charge = quotas.charge(&attributes, world.caches());
        if number == 1 {
            // Begun, and dropped at its first wait.
            tokio::select! { biased; _ = charge => {}, () = std::future::ready(()) => {} }
        } else {
            charge.await.unwrap();
        }
    }
    let counted = used(&world, "q").text("pods").parse::<i64>().unwrap();
    assert!((3..=4).contains(&counted), "{counted}");
}
