//! Reconciles the endpoints of the service `kubernetes` with the running API servers.
//!
//! Promises: the endpoints list every advertised server of the store and no other. A server that shuts down is removed before
//! it ends; one that dies, within half a minute; a new one is added before it serves. While nothing changes, only the server's
//! own lease in the store is written; it expires unless renewed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::future::try_join_all;
use k3_api::{
    kinds::builtin,
    selector::label::Labels,
    status::Status,
    strategy::{Tree, TreeMut},
};
use k3_storage::{CommitError, Key, Page, Prefix, ReadError, Revision, Write};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    Config,
    read_only_store::ReadOnlyStore,
    registry::{Registry, RequestContext, Resource, StoreWriter, own_user},
};

/// Where the marks of servers are in the store: beside the objects, which all begin with `/registry/`.
const MARKS: &str = "/k3/servers/";
/// How often a mark is renewed, and how long it lives without that, as upstream's do.
const RENEW: Duration = Duration::from_secs(10);
const LIFE: Duration = Duration::from_secs(15);
/// How soon it is tried again after a failure.
const RETRY: Duration = Duration::from_secs(1);

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const MANAGER: &str = "kube-apiserver";

/// How a server is advertised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointReconcilerType {
    /// It is the only one of its store: the endpoints name it alone.
    #[default]
    Alone,
    /// It is one of several: each keeps a mark in the store, and the endpoints name those that have one.
    Among,
    /// For its own process only: not advertised.
    Hidden,
}

/// What keeps the endpoints true. The task ends with this.
// upstream: pkg/controlplane/reconcilers/lease.go NewLeaseEndpointReconciler, ReconcileEndpoints
pub(crate) struct EndpointReconciler {
    task: JoinHandle<()>,
    /// `None` for a server that is not advertised.
    own: Option<ServerEndpoint>,
    registry: Arc<Registry>,
    leases: EndpointLeases,
}

/// The marks of all servers in the store.
// upstream: pkg/controlplane/reconcilers/lease.go storageLeases
#[derive(Clone)]
pub(crate) struct EndpointLeases {
    store: ReadOnlyStore,
    writer: StoreWriter,
}

/// An advertised server.
#[derive(Clone, Copy)]
struct ServerEndpoint {
    address: SocketAddr,
    reconciler_type: EndpointReconcilerType,
}

/// Why the endpoints could not be kept true.
#[derive(Debug, thiserror::Error)]
enum EndpointReconcileError {
    #[error("cannot read the endpoint leases")]
    Read(#[from] ReadError),
    #[error("cannot write the endpoint lease of this server")]
    Write(#[from] CommitError),
    #[error("cannot write the endpoints of the service {NAME}: {}", .0.message)]
    Endpoints(Status),
}

// --- EndpointReconciler ---

impl EndpointReconciler {
    /// Puts the server among the endpoints, and keeps them true from then on. That they cannot be written is no reason not to
    /// serve.
    pub(crate) async fn start(registry: Arc<Registry>, leases: EndpointLeases, config: &Config) -> Self {
        let (address, port) = config.advertise;
        let own = match config.endpoint_reconciler {
            EndpointReconcilerType::Hidden => None,
            reconciler_type => Some(ServerEndpoint {
                address: SocketAddr::new(address, port),
                reconciler_type,
            }),
        };
        let mut pause = RENEW;
        if let Some(own) = own {
            pause = next(own.keep(&registry, &leases).await);
        }
        let kept = Arc::clone(&registry);
        let task_leases = leases.clone();
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            // A single server need not reconcile periodically, unless writing failed.
            while let Some(own) = own
                && (own.reconciler_type == EndpointReconcilerType::Among || pause == RETRY)
            {
                sleep(pause).await;
                pause = next(own.keep(&kept, &task_leases).await);
            }
        });
        EndpointReconciler {
            task,
            own,
            registry,
            leases,
        }
    }

    /// Takes the server from the endpoints: those who look for one now find another. An only one stays there.
    pub(crate) async fn withdraw(&self) {
        self.task.abort();
        let Some(own) = self
            .own
            .filter(|own| own.reconciler_type == EndpointReconcilerType::Among)
        else {
            return;
        };
        if let Err(error) = own.withdraw(&self.registry, &self.leases).await {
            tracing::warn!(%error, "failed to remove the endpoint lease of this server; clients notice when it expires");
        }
    }
}

impl Drop for EndpointReconciler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn next(kept: Result<(), EndpointReconcileError>) -> Duration {
    match kept {
        Ok(()) => RENEW,
        Err(EndpointReconcileError::Endpoints(status)) if status.code == 409 => RETRY,
        Err(error) => {
            tracing::warn!(%error, "failed to reconcile the endpoints of the service kubernetes; they may be outdated");
            RETRY
        }
    }
}

// --- ServerEndpoint ---

impl ServerEndpoint {
    /// Renews the mark, and brings the endpoints in line with all marks.
    async fn keep(self, registry: &Registry, leases: &EndpointLeases) -> Result<(), EndpointReconcileError> {
        let servers = match self.reconciler_type {
            EndpointReconcilerType::Among => {
                leases.update(self.address).await?;
                leases.list().await?
            }
            _ => BTreeSet::from([self.address]),
        };
        write(registry, &servers)
            .await
            .map_err(EndpointReconcileError::Endpoints)
    }

    async fn withdraw(
        self,
        registry: &Registry,
        leases: &EndpointLeases,
    ) -> Result<(), EndpointReconcileError> {
        leases.remove(self.address).await?;
        let mut others = leases.list().await?;
        others.remove(&self.address);
        if others.is_empty() {
            // An empty list of endpoints helps no client.
            return Ok(());
        }
        write(registry, &others)
            .await
            .map_err(EndpointReconcileError::Endpoints)
    }
}

// --- EndpointLeases ---

impl EndpointLeases {
    pub(crate) fn new(store: ReadOnlyStore, writer: StoreWriter) -> Self {
        EndpointLeases { store, writer }
    }

    /// Writes the mark of a server.
    async fn update(&self, address: SocketAddr) -> Result<Revision, CommitError> {
        let write = |found: Option<Revision>| {
            let value = address.to_string();
            match found {
                Some(revision) => Write::update(key(address), revision, value),
                None => Write::create(key(address), value),
            }
            .expiring(LIFE)
        };
        // The conflict returns the current revision. A second conflict is a concurrent renewal of the same lease.
        match self.writer.commit(write(None)).await {
            Err(CommitError::Conflict(Some(found))) => self.writer.commit(write(Some(found.revision))).await,
            done => done,
        }
    }

    /// Removes the mark of a server.
    async fn remove(&self, address: SocketAddr) -> Result<(), EndpointReconcileError> {
        let key = key(address);
        if let Some(entry) = self.store.get(&key).await? {
            self.writer.commit(Write::delete(key, entry.revision)).await?;
        }
        Ok(())
    }

    /// The servers that have a mark.
    async fn list(&self) -> Result<BTreeSet<SocketAddr>, ReadError> {
        let marks = Prefix::try_new(MARKS).expect("it is one");
        let found = self.store.range(&marks, Page::default()).await?;
        let address = |key: &Key| key.strip_prefix(MARKS)?.parse().ok();
        Ok(found
            .entries
            .iter()
            .filter_map(|entry| address(&entry.key))
            .collect())
    }
}

fn key(address: SocketAddr) -> Key {
    Key::try_new(format!("{MARKS}{address}")).expect("an address makes a key")
}

/// Brings the endpoints, and the slices that say the same, in line with the servers there are.
async fn write(registry: &Registry, servers: &BTreeSet<SocketAddr>) -> Result<(), Status> {
    // An address that means another machine wherever it is read is none to tell, and is refused.
    let advertised = || servers.iter().filter(|server| !server.ip().is_loopback());
    let mut by_port = BTreeMap::<u16, Vec<IpAddr>>::new();
    let mut by_ip_family = BTreeMap::<(bool, u16), Vec<IpAddr>>::new();
    for server in advertised() {
        by_port.entry(server.port()).or_default().push(server.ip());
        let ip_family = (server.is_ipv6(), server.port());
        by_ip_family.entry(ip_family).or_default().push(server.ip());
    }
    if by_port.is_empty() {
        return Ok(());
    }
    let slices: Vec<Value> = by_ip_family.into_iter().enumerate().map(slice).collect();
    let names: BTreeSet<String> = slices
        .iter()
        .map(|slice| slice.at("metadata").text("name").to_owned())
        .collect();
    let objects = slices.into_iter().chain([endpoints(&by_port)]);
    try_join_all(objects.map(|object| put(registry, object))).await?;
    remove_slices(registry, &names).await
}

fn endpoints(servers: &BTreeMap<u16, Vec<IpAddr>>) -> Value {
    let subset = |(port, addresses): (&u16, &Vec<IpAddr>)| {
        let addresses: Vec<_> = addresses.iter().map(|address| json!({"ip": address})).collect();
        json!({"addresses": addresses, "ports": ports(*port)})
    };
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": servers.iter().map(subset).collect::<Vec<_>>(),
    })
}

/// The slice for one IP family and port: a slice cannot hold two. The first one has the name `kubernetes`.
fn slice((position, ((is_v6, port), servers)): (usize, ((bool, u16), Vec<IpAddr>))) -> Value {
    let ip_family = if is_v6 { "IPv6" } else { "IPv4" };
    let name = match position {
        0 => NAME.to_owned(),
        _ => format!("{NAME}-{}-{port}", ip_family.to_lowercase()),
    };
    let endpoint = |address| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {SERVICE_LABEL: NAME}},
        "addressType": ip_family,
        "endpoints": servers.into_iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports(port),
    })
}

fn ports(port: u16) -> Value {
    json!([{"name": "https", "port": port, "protocol": "TCP"}])
}

fn resource(registry: &Registry, group: &str, kind: &str) -> Resource {
    let kind = builtin().kind(group, "v1", kind);
    registry.resource(kind.expect("the kind is built in"))
}

/// Makes an object, or makes the one that is there say the same.
async fn put(registry: &Registry, wanted: Value) -> Result<(), Status> {
    let group = wanted
        .text("apiVersion")
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    let resource = resource(registry, group, wanted.text("kind"));
    let key = resource.key(NAMESPACE, wanted.at("metadata").text("name"))?;
    let Some(found) = resource.cache.get(&key) else {
        let kind = resource.kind.clone();
        return registry.create_own(kind, wanted, own_user(), MANAGER).await;
    };
    let found = found.tree();
    // What sort of addresses a slice has cannot be changed.
    if found.at("addressType") != wanted.at("addressType") {
        delete(registry, &resource, wanted.at("metadata").text("name")).await?;
        return registry
            .create_own(resource.kind.clone(), wanted, own_user(), MANAGER)
            .await;
    }
    let mut new = found.clone();
    for field in ["subsets", "endpoints", "ports"] {
        if !wanted.at(field).is_null() {
            new.set(field, wanted.at(field).clone());
        }
    }
    if new == found {
        return Ok(());
    }
    registry.update_own(&resource, new, MANAGER, None).await
}

/// Removes the slices of ports that no server has any more.
async fn remove_slices(registry: &Registry, wanted: &BTreeSet<String>) -> Result<(), Status> {
    let resource = resource(registry, "discovery.k8s.io", "EndpointSlice");
    let snapshot = registry.cached_objects(&resource);
    let stale: Vec<String> = snapshot
        .objects
        .values()
        .filter(|slice| slice.labels().get(SERVICE_LABEL) == Some(NAME))
        .map(|slice| slice.tree())
        .filter(|slice| slice.at("metadata").text("namespace") == NAMESPACE)
        .map(|slice| slice.at("metadata").text("name").to_owned())
        .filter(|name| name.starts_with(NAME) && !wanted.contains(name))
        .collect();
    for name in stale {
        delete(registry, &resource, &name).await?;
    }
    Ok(())
}

async fn delete(registry: &Registry, resource: &Resource, name: &str) -> Result<(), Status> {
    let mut ctx = RequestContext::own(resource.kind.clone(), NAMESPACE, own_user(), registry.now());
    name.clone_into(&mut ctx.target.name);
    match registry.delete(&ctx).await.map(drop) {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}
