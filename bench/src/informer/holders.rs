//! One client that holds all pods: the process that is measured.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams},
    config::Kubeconfig,
    runtime::{reflector, watcher},
};
use kubecontroller::{
    informer::{Informer, InformerScope, SharedInformerFactory},
    object::Object,
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::report::{MemorySharing, Row};
use crate::{BenchError, choices::Holder, flags::SyncOptions, memory};

/// How many handlers share an informer.
const HANDLERS: usize = 50;
/// As much as kube's reflector asks for at a time.
const PAGE: u32 = 500;
/// How long memory may be given back before it is looked at.
const REST: Duration = Duration::from_millis(500);

/// What a controller may want of a pod.
#[derive(Deserialize)]
struct Placed {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<Box<str>>,
}

/// Holds all pods, and prints what that took.
pub(crate) async fn sync(options: &SyncOptions) -> Result<(), BenchError> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(&options.kubeconfig)?, &<_>::default()).await?;
    let client = Client::try_from(config)?;
    // The first request makes the connection, which no informer should be credited with.
    client.apiserver_version().await?;
    let before_bytes = memory::resident("self")?;
    let mut measure = Measure {
        options,
        start: Instant::now(),
        row: Row {
            holder: options.holder.name().to_owned(),
            before_bytes,
            ..Row::default()
        },
    };
    match options.holder {
        Holder::Vector => hold_vector(&client, &mut measure).await?,
        Holder::Reflector => hold_reflector(client, &mut measure).await?,
        Holder::Typed => {
            let informers = SharedInformerFactory::new(client.clone());
            let informer = informers.typed::<Pod>(InformerScope::default());
            hold_informer(&informers, &informer, &mut measure).await?;
            measure.row.sharing = Some(share(&client, &informers).await?);
        }
        Holder::Slim => {
            let informers = SharedInformerFactory::new(client);
            let informer = informers.slim::<Pod, Placed>(InformerScope::default());
            hold_informer(&informers, &informer, &mut measure).await?;
            let is_placed = |pod: &Placed| pod.spec.node_name.is_some() && pod.status.phase.is_some();
            if !informer.store().all().iter().all(|pod| is_placed(&pod.fields)) {
                return Err("a pod has lost its node or its phase".into());
            }
        }
    }
    println!("{}", serde_json::to_string(&measure.row)?);
    Ok(())
}

struct Measure<'options> {
    options: &'options SyncOptions,
    start: Instant,
    row: Row,
}

impl Measure<'_> {
    /// All pods are held: the clock stops.
    async fn stop(&mut self, held: usize) -> Result<(), BenchError> {
        self.row.seconds = self.start.elapsed().as_secs_f64();
        if held != self.options.pods {
            return Err(format!("{held} pods of {} are held", self.options.pods).into());
        }
        sleep(REST).await;
        self.row.after_bytes = memory::resident("self")?;
        self.row.peak_bytes = memory::peak("self")?;
        Ok(())
    }
}

async fn hold_vector(client: &Client, measure: &mut Measure<'_>) -> Result<(), BenchError> {
    let api: Api<Pod> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut pods = Vec::with_capacity(measure.options.pods);
    loop {
        let list = api.list(&params).await?;
        pods.extend(list.items.into_iter().map(Arc::new));
        params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
    }
    measure.stop(pods.len()).await
}

async fn hold_reflector(client: Client, measure: &mut Measure<'_>) -> Result<(), BenchError> {
    let (reader, writer) = reflector::store::<Pod>();
    let stream = watcher(Api::all(client), watcher::Config::default());
    let mut stream = Box::pin(reflector::reflector(writer, stream));
    while !matches!(
        stream.next().await.ok_or("the reflector has ended")??,
        watcher::Event::InitDone
    ) {}
    reader.wait_until_ready().await?;
    measure.stop(reader.len()).await
}

async fn hold_informer<T: Object>(
    informers: &SharedInformerFactory,
    informer: &Informer<T>,
    measure: &mut Measure<'_>,
) -> Result<(), BenchError> {
    informers.start();
    informer.wait_for_sync().await;
    measure.stop(informer.store().len()).await
}

/// Many handlers of one kind, and a change that all of them hear of.
async fn share(client: &Client, informers: &SharedInformerFactory) -> Result<MemorySharing, BenchError> {
    let notified = Arc::new(AtomicUsize::new(0));
    let mut subscriptions = Vec::new();
    for _ in 0..HANDLERS {
        let notified = Arc::clone(&notified);
        let informer = informers.typed::<Pod>(InformerScope::default());
        subscriptions.push(informer.add_event_handler(move |_| _ = notified.fetch_add(1, Ordering::Relaxed)));
    }
    for subscription in &subscriptions {
        subscription.wait_for_sync().await;
    }
    let informer = informers.typed::<Pod>(InformerScope::default());
    let before = (informer.stats(), notified.load(Ordering::Relaxed));
    let pod = informer.store().all().pop().ok_or("there are no pods")?;
    let api: Api<Pod> = Api::namespaced(client.clone(), pod.namespace());
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {"k3-bench/notified": before.1.to_string()}}}));
    let changed = api.patch(pod.name(), &PatchParams::default(), &patch).await?;
    informer
        .wait_for_version(changed.revision().ok_or("a pod has no version")?)
        .await;
    let expected = before.1 + HANDLERS;
    while notified.load(Ordering::Relaxed) < expected {
        sleep(Duration::from_millis(1)).await;
    }
    let after = informer.stats();
    Ok(MemorySharing {
        handlers: subscriptions.len(),
        informers: informers.stats().len(),
        watches: after.watches,
        notified: notified.load(Ordering::Relaxed) - before.1,
        decoded: after.decoded - before.0.decoded,
    })
}
