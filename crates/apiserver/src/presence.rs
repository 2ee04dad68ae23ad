//! Which servers there are, as those in the cluster know it: the endpoints of the service `kubernetes`.
//!
//! Promises: the endpoints name every server of the store that lives and wants to be known, and no other. A server that ends in
//! order is gone from them when it has ended; one that dies, within half a minute; one that comes, before it serves. Nothing is
//! written while nothing changes but the server's own mark in the store, which ends by itself when it is not renewed.

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
use k3_storage::{CommitError, Key, Page, Prefix, ReadError, Revision, Store, Write};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    Config,
    registry::{Ask, Registry, Resource, own_user},
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

/// Whether others are told of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It is the only one of its store: the endpoints name it alone.
    #[default]
    Alone,
    /// It is one of several: each keeps a mark in the store, and the endpoints name those that have one.
    Among,
    /// It is for its own process alone: nobody is told of it.
    Hidden,
}

/// What keeps the endpoints true. The task ends with this.
pub(crate) struct Keeper {
    task: JoinHandle<()>,
    /// `None` for a server that nobody is told of.
    own: Option<Own>,
    registry: Arc<Registry>,
}

/// A server that others are told of.
#[derive(Clone, Copy)]
struct Own {
    address: SocketAddr,
    presence: Presence,
}

/// Why the endpoints could not be kept true.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("cannot read the marks of servers")]
    Read(#[from] ReadError),
    #[error("cannot write the mark of this server")]
    Write(#[from] CommitError),
    #[error("cannot write the endpoints of the service {NAME}: {}", .0.message)]
    Endpoints(Status),
}

// --- Keeper ---

impl Keeper {
    /// Puts the server among the endpoints, and keeps them true from then on. That they cannot be written is no reason not to
    /// serve.
    pub(crate) async fn start(registry: Arc<Registry>, config: &Config) -> Self {
        let (address, port) = config.advertise;
        let own = match config.presence {
            Presence::Hidden => None,
            presence => Some(Own {
                address: SocketAddr::new(address, port),
                presence,
            }),
        };
        let mut pause = RENEW;
        if let Some(own) = own {
            pause = next(own.keep(&registry).await);
        }
        let kept = Arc::clone(&registry);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            // An only server has told all there is to tell, unless it could not.
            while let Some(own) = own
                && (own.presence == Presence::Among || pause == RETRY)
            {
                sleep(pause).await;
                pause = next(own.keep(&kept).await);
            }
        });
        Keeper { task, own, registry }
    }

    /// Takes the server from the endpoints: those who look for one now find another. An only one stays there.
    pub(crate) async fn withdraw(&self) {
        self.task.abort();
        let Some(own) = self.own.filter(|own| own.presence == Presence::Among) else {
            return;
        };
        if let Err(error) = own.withdraw(&self.registry).await {
            tracing::warn!(%error, "others notice only in a while that this server has gone");
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn next(kept: Result<(), KeepError>) -> Duration {
    match kept {
        Ok(()) => RENEW,
        Err(KeepError::Endpoints(status)) if status.code == 409 => RETRY,
        Err(error) => {
            tracing::warn!(%error, "the endpoints of the service {NAME} may name other servers than there are");
            RETRY
        }
    }
}

// --- Own ---

impl Own {
    /// Renews the mark, and brings the endpoints in line with all marks.
    async fn keep(self, registry: &Registry) -> Result<(), KeepError> {
        let servers = match self.presence {
            Presence::Among => {
                let store = registry.caches.store();
                mark(store.as_ref(), self.address).await?;
                marked(store.as_ref()).await?
            }
            _ => BTreeSet::from([self.address]),
        };
        write(registry, &servers).await.map_err(KeepError::Endpoints)
    }

    async fn withdraw(self, registry: &Registry) -> Result<(), KeepError> {
        let store = registry.caches.store();
        let key = key(self.address);
        if let Some(entry) = store.get(&key).await? {
            store.commit(Write::delete(key, entry.revision)).await?;
        }
        let mut others = marked(store.as_ref()).await?;
        others.remove(&self.address);
        if others.is_empty() {
            // Endpoints that name nobody help nobody.
            return Ok(());
        }
        write(registry, &others).await.map_err(KeepError::Endpoints)
    }
}

fn key(address: SocketAddr) -> Key {
    Key::try_new(format!("{MARKS}{address}")).expect("an address makes a key")
}

/// Says in the store that a server lives.
async fn mark(store: &dyn Store, address: SocketAddr) -> Result<Revision, CommitError> {
    let write = |found: Option<Revision>| {
        let value = address.to_string();
        match found {
            Some(revision) => Write::update(key(address), revision, value),
            None => Write::create(key(address), value),
        }
        .expiring(LIFE)
    };
    // What is there says the conflict. The second one is somebody else's, who says the same.
    match store.commit(write(None)).await {
        Err(CommitError::Conflict(Some(found))) => store.commit(write(Some(found.revision))).await,
        done => done,
    }
}

/// The servers that live.
async fn marked(store: &dyn Store) -> Result<BTreeSet<SocketAddr>, ReadError> {
    let marks = Prefix::try_new(MARKS).expect("it is one");
    let found = store.range(&marks, Page::default()).await?;
    let address = |key: &Key| key.strip_prefix(MARKS)?.parse().ok();
    Ok(found
        .entries
        .iter()
        .filter_map(|entry| address(&entry.key))
        .collect())
}

/// Brings the endpoints, and the slices that say the same, in line with the servers there are.
async fn write(registry: &Registry, servers: &BTreeSet<SocketAddr>) -> Result<(), Status> {
    // An address that means another machine wherever it is read is none to tell, and is refused.
    let told = || servers.iter().filter(|server| !server.ip().is_loopback());
    let mut by_port = BTreeMap::<u16, Vec<IpAddr>>::new();
    let mut by_family = BTreeMap::<(bool, u16), Vec<IpAddr>>::new();
    for server in told() {
        by_port.entry(server.port()).or_default().push(server.ip());
        let family = (server.is_ipv6(), server.port());
        by_family.entry(family).or_default().push(server.ip());
    }
    if by_port.is_empty() {
        return Ok(());
    }
    let slices: Vec<Value> = by_family.into_iter().enumerate().map(slice).collect();
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

/// The slice for the servers of one sort of addresses and one port: a slice has no room for two. The first one has the name
/// that everybody knows.
fn slice((place, ((is_v6, port), servers)): (usize, ((bool, u16), Vec<IpAddr>))) -> Value {
    let family = if is_v6 { "IPv6" } else { "IPv4" };
    let name = match place {
        0 => NAME.to_owned(),
        _ => format!("{NAME}-{}-{port}", family.to_lowercase()),
    };
    let endpoint = |address| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {SERVICE_LABEL: NAME}},
        "addressType": family,
        "endpoints": servers.into_iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports(port),
    })
}

fn ports(port: u16) -> Value {
    json!([{"name": "https", "port": port, "protocol": "TCP"}])
}

fn resource(registry: &Registry, group: &str, kind: &str) -> Resource {
    let kind = builtin().kind(group, "v1", kind);
    Resource::of(kind.expect("the kind is built in"), &registry.caches)
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
    let snapshot = resource.cache.snapshot(registry.caches.applied());
    let gone: Vec<String> = snapshot
        .objects
        .values()
        .filter(|slice| slice.labels().get(SERVICE_LABEL) == Some(NAME))
        .map(|slice| slice.tree())
        .filter(|slice| slice.at("metadata").text("namespace") == NAMESPACE)
        .map(|slice| slice.at("metadata").text("name").to_owned())
        .filter(|name| name.starts_with(NAME) && !wanted.contains(name))
        .collect();
    for name in gone {
        delete(registry, &resource, &name).await?;
    }
    Ok(())
}

async fn delete(registry: &Registry, resource: &Resource, name: &str) -> Result<(), Status> {
    let mut ask = Ask::own(resource.kind.clone(), NAMESPACE, own_user(), registry.now());
    name.clone_into(&mut ask.target.name);
    match registry.delete(&ask).await.map(drop) {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}
