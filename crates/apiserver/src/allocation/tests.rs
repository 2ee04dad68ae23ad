use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc, time::Duration};

use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use k3_api::{
    kinds::builtin,
    status::Status,
    strategy::{Tree, User},
};
use k3_storage::{Store as _, Write, memory::MemoryStore};
use serde_json::{Value, json};

use super::{
    ServiceAllocator,
    record::{AllocatedItem, AllocationRecords, RecordOwner},
    repair::OrphanRecords,
};
use crate::{
    Authentication, Config, EndpointReconcilerType, Limits, PodAccounts,
    cache::WatchCaches,
    http::HttpResponse,
    registry::{Registry, RequestContext, Resource, testing::TestRegistry},
    request::{CommitMode, Query},
    service_range::service_range,
};

/// A server without its connections.
struct Cluster {
    registry: Arc<Registry>,
    caches: Arc<WatchCaches>,
    allocation: Arc<ServiceAllocator>,
    _server: TestRegistry,
}

impl Cluster {
    /// A server that starts on a store.
    async fn start(store: &Arc<MemoryStore>, range: &str) -> Self {
        let config = Config {
            authentication: Authentication::default(),
            unrestricted_update: false,
            service_range: service_range(range).unwrap(),
            issuer: "https://issuer".to_owned(),
            signing_key: Vec::new(),
            advertise: (Ipv4Addr::new(192, 168, 0, 1).into(), 6443),
            endpoint_reconciler: EndpointReconcilerType::default(),
            guard_owners: false,
            pod_accounts: PodAccounts::default(),
            nodes: None,
            usage: false,
            limits: Limits::default(),
            audit: None,
        };
        let store = Arc::<MemoryStore>::clone(store);
        let server = TestRegistry::start(store, range).await;
        server.allocation.repair(&mut OrphanRecords::new()).await.unwrap();
        crate::bootstrap::run(&server.registry, &config).await.unwrap();
        Cluster {
            registry: Arc::clone(&server.registry),
            caches: Arc::clone(&server.caches),
            allocation: Arc::clone(&server.allocation),
            _server: server,
        }
    }

    fn ask(&self, name: &str, query: &str, body: &Value) -> RequestContext {
        let kind = builtin().kind("", "v1", "Service").unwrap();
        let mut ctx = RequestContext::own(kind, "default", User::default(), self.registry.now());
        name.clone_into(&mut ctx.target.name);
        ctx.query = Query::parse(query);
        ctx.agent = "test".to_owned();
        ctx.media = "application/json".to_owned();
        if !body.is_null() {
            ctx.body = body.to_string().into();
        }
        ctx
    }

    async fn create(&self, name: &str, spec: Value) -> Result<Value, Status> {
        self.create_with("", name, spec).await
    }

    async fn create_with(&self, query: &str, name: &str, spec: Value) -> Result<Value, Status> {
        let body = service(name, spec);
        read(self.registry.create(&self.ask("", query, &body)).await).await
    }

    async fn update(&self, name: &str, spec: Value) -> Result<Value, Status> {
        let body = service(name, spec);
        read(self.registry.update(&self.ask(name, "", &body)).await).await
    }

    async fn delete(&self, name: &str) {
        self.registry
            .delete(&self.ask(name, "", &Value::Null))
            .await
            .unwrap();
    }

    /// The records of addresses and ports, without that of the server itself.
    fn recorded(&self) -> BTreeSet<String> {
        let records = AllocationRecords::of(&self.caches);
        let all = records.all(self.caches.applied());
        all.iter()
            .filter(|(_, record)| !RecordOwner::in_record(record).is_of_servers())
            .map(|(_, record)| record.name().to_owned())
            .collect()
    }

    async fn repair(&self, orphans: &mut OrphanRecords) {
        self.allocation.repair(orphans).await.unwrap();
    }
}

fn service(name: &str, mut spec: Value) -> Value {
    if spec.at("ports").is_null() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

async fn read(answer: Result<HttpResponse, Status>) -> Result<Value, Status> {
    let bytes = answer?.into_body().collect().await.unwrap().to_bytes();
    Ok(serde_json::from_slice(&bytes).unwrap())
}

fn address(service: &Value) -> String {
    service.at("spec").text("clusterIP").to_owned()
}

fn node_port(service: &Value) -> i64 {
    service.at("spec").items("ports")[0].int("nodePort").unwrap()
}

fn message(answer: Result<Value, Status>) -> String {
    answer.unwrap_err().message
}

#[tokio::test]
async fn allocated_addresses_have_records() {
    let server = Cluster::start(&MemoryStore::new(), "10.96.0.0/16").await;
    let made = server.create("a", json!({})).await.unwrap();
    let given = address(&made);
    assert_eq!(made["spec"]["clusterIPs"], json!([given]));
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    let records = AllocationRecords::of(&server.caches);
    let record = records
        .find(AllocatedItem::Address(given.parse().unwrap()))
        .unwrap()
        .tree();
    assert_eq!(
        record["spec"],
        json!({"parentRef": {"resource": "services", "namespace": "default", "name": "a"}})
    );
    assert_eq!(
        record["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    assert_eq!(
        record["metadata"]["managedFields"][0]["manager"],
        "kube-apiserver"
    );
    let first = records
        .find(AllocatedItem::Address("10.96.0.1".parse().unwrap()))
        .unwrap();
    assert!(RecordOwner::in_record(&first).is_of_servers());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_allocations_on_two_servers_are_unique() {
    let store = MemoryStore::new();
    let (one, two) = tokio::join!(
        Cluster::start(&store, "10.96.0.0/24"),
        Cluster::start(&store, "10.96.0.0/24")
    );
    let names: Vec<_> = (0..200).map(|number| format!("s{number}")).collect();
    let made = join_all(names.iter().enumerate().map(|(number, name)| {
        let server = if number % 2 == 0 { &one } else { &two };
        server.create(name, json!({"type": "NodePort"}))
    }));
    let made: Vec<_> = made.await.into_iter().map(Result::unwrap).collect();
    assert_eq!(made.iter().map(address).collect::<BTreeSet<_>>().len(), 200);
    assert_eq!(made.iter().map(node_port).collect::<BTreeSet<_>>().len(), 200);
    one.caches.read_index().await.unwrap();
    assert_eq!(one.recorded().len(), 400);
}

#[tokio::test]
async fn allocates_whole_range_and_reuses_released_addresses() {
    let store = MemoryStore::new();
    let server = Cluster::start(&store, "10.0.0.0/29").await;
    let other = Cluster::start(&store, "10.0.0.0/29").await;
    let mut given = BTreeSet::new();
    for name in ["a", "b", "c", "d", "e"] {
        given.insert(address(&server.create(name, json!({})).await.unwrap()));
    }
    assert!(
        given
            .iter()
            .eq(["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"].iter())
    );
    assert_eq!(
        message(other.create("f", json!({})).await),
        "Internal error occurred: failed to allocate a serviceIP for Service \"f\": range is full"
    );
    server.delete("c").await;
    assert!(other.create("f", json!({})).await.is_ok());
}

#[tokio::test]
async fn rejects_taken_or_out_of_range_address_and_port() {
    let server = Cluster::start(&MemoryStore::new(), "10.96.0.0/16").await;
    let wanted =
        json!({"clusterIP": "10.96.3.3", "type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]});
    server.create("a", wanted).await.unwrap();
    let refused = |spec| async { message(server.create("b", spec).await) };
    assert!(
        refused(json!({"clusterIP": "10.96.3.3"}))
            .await
            .ends_with("failed to allocate IP 10.96.3.3: provided IP is already allocated")
    );
    for outside in ["10.97.0.1", "10.96.0.0", "10.96.255.255"] {
        let message = refused(json!({"clusterIP": outside})).await;
        assert!(
            message.ends_with("the provided network does not match the current range"),
            "{message}"
        );
    }
    let port = |number: i64| json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": number}]});
    assert!(
        refused(port(30001))
            .await
            .ends_with("spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated")
    );
    assert!(
        refused(port(29999))
            .await
            .ends_with("provided port is not in the valid range. The range of valid ports is 30000-32767")
    );
    // What was set aside for them is free.
    assert_eq!(server.recorded().len(), 2);
    let both = json!({"clusterIP": "10.96.3.4", "sessionAffinity": "Never"});
    assert!(refused(both).await.contains("sessionAffinity"));
    let taken = json!({"clusterIP": "10.96.3.4"});
    assert_eq!(server.create("a", taken.clone()).await.unwrap_err().code, 409);
    assert!(server.create("b", taken).await.is_ok());
}

#[tokio::test]
async fn update_releases_unused_addresses_and_ports() {
    let server = Cluster::start(&MemoryStore::new(), "10.96.0.0/16").await;
    let balanced = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let made = server.create("a", balanced).await.unwrap();
    let health = made["spec"]["healthCheckNodePort"].as_i64().unwrap();
    assert!((30000..32768).contains(&health));
    assert_eq!(server.recorded().len(), 3);
    let port = node_port(&made);
    let kept = server.update("a", json!({"type": "NodePort"})).await.unwrap();
    assert_eq!((address(&kept), node_port(&kept)), (address(&made), port));
    assert_eq!(server.recorded(), [address(&made), port.to_string()].into());
    let moved = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30005}]});
    server.update("a", moved).await.unwrap();
    assert_eq!(server.recorded(), [address(&made), "30005".to_owned()].into());
    server.update("a", json!({})).await.unwrap();
    assert_eq!(server.recorded(), [address(&made)].into());
    let named = json!({"type": "ExternalName", "externalName": "example.com"});
    server.update("a", named).await.unwrap();
    assert_eq!(server.recorded(), BTreeSet::new());
    let back = server.update("a", json!({})).await.unwrap();
    assert_eq!(server.recorded(), [address(&back)].into());
    server.delete("a").await;
    assert_eq!(server.recorded(), BTreeSet::new());
}

#[tokio::test]
async fn terminating_service_keeps_addresses() {
    let server = Cluster::start(&MemoryStore::new(), "10.96.0.0/16").await;
    let mut body = service("a", json!({}));
    body["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let made = read(server.registry.create(&server.ask("", "", &body)).await).await;
    let held = BTreeSet::from([address(&made.unwrap())]);
    server.delete("a").await;
    assert_eq!(server.recorded(), held);
    server.update("a", json!({})).await.unwrap();
    assert_eq!(server.recorded(), BTreeSet::new());
}

#[tokio::test]
async fn dry_run_allocates_nothing() {
    let server = Cluster::start(&MemoryStore::new(), "10.96.0.0/16").await;
    let ports = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
    let asked = json!({"type": "NodePort", "ports": ports});
    let shown = server.create_with("dryRun=All", "a", asked).await.unwrap();
    assert_eq!(address(&shown), "10.96.0.0");
    assert_eq!(shown["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(shown["spec"]["ports"][1]["nodePort"], 32770);
    assert_eq!(server.recorded(), BTreeSet::new());
    let outside = server.create_with("dryRun=All", "a", json!({"clusterIP": "10.97.0.1"}));
    assert!(message(outside.await).ends_with(
        "the provided IP (10.97.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
    ));
}

#[tokio::test(start_paused = true)]
async fn orphaned_record_is_released_after_grace_period() {
    let store = MemoryStore::new();
    let killed = Cluster::start(&store, "10.96.0.0/16").await;
    let mut object = service("a", json!({"clusterIP": "10.96.3.3", "type": "NodePort"}));
    object["metadata"]["namespace"] = json!("default");
    let kind = builtin().kind("", "v1", "Service").unwrap();
    let resource = Resource::of(kind, &killed.caches);
    let now = killed.registry.now();
    let reservation = killed
        .allocation
        .reserve(&mut object, None, &resource, now, CommitMode::Commit);
    drop(reservation.await.unwrap());
    drop(killed);

    let server = Cluster::start(&store, "10.96.0.0/16").await;
    let mut orphans = OrphanRecords::new();
    for _ in 0..2 {
        server.repair(&mut orphans).await;
        assert_eq!(server.recorded().len(), 2, "it may still be on its way");
        tokio::time::advance(Duration::from_secs(31)).await;
    }
    server.repair(&mut orphans).await;
    assert_eq!(server.recorded(), BTreeSet::new());
    assert!(
        server
            .create("b", json!({"clusterIP": "10.96.3.3"}))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn repair_restores_lost_or_wrong_records() {
    let store = MemoryStore::new();
    let server = Cluster::start(&store, "10.96.0.0/16").await;
    let spec =
        json!({"clusterIP": "10.96.3.3", "type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]});
    server.create("a", spec).await.unwrap();
    let records = AllocationRecords::of(&server.caches);
    let found = |item| {
        let record = records.find(item).unwrap();
        (record.key.clone(), record.revision)
    };
    let (key, revision) = found(AllocatedItem::Address("10.96.3.3".parse().unwrap()));
    store.commit(Write::delete(key, revision)).await.unwrap();
    let (key, revision) = found(AllocatedItem::Port(30001));
    let other = RecordOwner {
        namespace: "default".to_owned(),
        name: "missing".to_owned(),
    };
    let wrong = records.write(AllocatedItem::Port(30001), &other, server.registry.now());
    store.commit(Write::update(key, revision, wrong)).await.unwrap();

    let server = Cluster::start(&store, "10.96.0.0/16").await;
    assert_eq!(
        server.recorded(),
        ["10.96.3.3".to_owned(), "30001".to_owned()].into()
    );
    assert!(
        server
            .create("b", json!({"clusterIP": "10.96.3.3"}))
            .await
            .is_err()
    );
    server.delete("a").await;
    assert_eq!(server.recorded(), BTreeSet::new());
}

#[tokio::test]
async fn added_service_cidrs_allocate() {
    let server = Cluster::start(&MemoryStore::new(), "10.0.0.0/29").await;
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.1.0.0/24"]},
    });
    let kind = builtin().kind("networking.k8s.io", "v1", "ServiceCIDR").unwrap();
    let made = server
        .registry
        .create_own(kind.into(), range, User::default(), "test");
    made.await.unwrap();
    let made = server
        .create("a", json!({"clusterIP": "10.1.0.9"}))
        .await
        .unwrap();
    assert_eq!(address(&made), "10.1.0.9");
    for name in ["b", "c", "d", "e", "f", "g"] {
        server.create(name, json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn cancelled_request_stores_nothing() {
    let store = MemoryStore::new();
    let cluster = Cluster::start(&store, "10.0.0.0/24").await;
    let ctx = cluster.ask("", "", &service("left", json!({"ports": [{"port": 80}]})));
    drop(ctx.cancellation.on_drop());
    let refused = cluster.registry.create(&ctx).await.err().unwrap();
    assert_eq!(refused.code, 504);
    assert!(cluster.recorded().is_empty());
}

#[tokio::test(start_paused = true)]
async fn repair_releases_nothing_while_service_is_undecryptable() {
    let store = MemoryStore::new();
    let server = Cluster::start(&store, "10.96.0.0/16").await;
    server
        .create("a", json!({"clusterIP": "10.96.3.3"}))
        .await
        .unwrap();
    let services = AllocationRecords::of(&server.caches).services;
    let key = services.key("default", "a").unwrap();
    let stored = services.cache.get(&key).unwrap();
    let plain = stored.stored().clone();
    let revision = stored.revision;
    let encrypted = Write::update(key.clone(), revision, "k8s:enc:secretbox:v1:lost:bytes");
    let revision = store.commit(encrypted).await.unwrap();
    server.caches.wait_until_applied(revision).await;
    let mut orphans = OrphanRecords::new();
    for _ in 0..4 {
        server.repair(&mut orphans).await;
        tokio::time::advance(Duration::from_secs(61)).await;
    }
    let held = BTreeSet::from(["10.96.3.3".to_owned()]);
    assert_eq!(server.recorded(), held);
    assert!(orphans.is_empty());

    // It can be read again: then repairs go on, and it still has what it had.
    let revision = store.commit(Write::update(key, revision, plain)).await.unwrap();
    server.caches.wait_until_applied(revision).await;
    server.repair(&mut orphans).await;
    assert_eq!(server.recorded(), held);
}
