//! The informers that tell the core.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::{apps::v1 as apps, core::v1 as core, policy::v1 as policy, storage::v1 as storage};
use kube::Resource;
use kubecontroller::{
    informer::{
        EventHandlerRegistration, Informer, InformerOptions, InformerOptionsConflict, InformerScope,
        SharedInformerFactory,
    },
    object::SlimObject,
};
use tokio::sync::mpsc::UnboundedSender;

use super::{
    ClaimStore,
    told::{Change, Told},
};
use crate::{
    object::{
        Attachment, Budget, Capacity, Claim, CsiDriver, CsiNode, Kept, Namespace, Node, Pod, ReplicaSet,
        Service, StorageClass, Stored, Volume, keep,
    },
    pool::Pools,
};

type Options<T> = InformerOptions<SlimObject<Stored<T>>>;

/// What is done with the objects of each kind before anybody sees them. It is made once: a second run of the scheduler
/// asks for the same informers.
pub(super) struct Kinds {
    pods: Options<Pod>,
    nodes: Options<Node>,
    namespaces: Options<Namespace>,
    claims: Options<Claim>,
    volumes: Options<Volume>,
    classes: Options<StorageClass>,
    csi_nodes: Options<CsiNode>,
    csi_drivers: Options<CsiDriver>,
    capacities: Options<Capacity>,
    attachments: Options<Attachment>,
    budgets: Options<Budget>,
    services: Options<Service>,
    sets: Options<ReplicaSet>,
}

/// Informers that tell the core for as long as this is kept.
pub(super) struct Watched {
    subscriptions: Vec<EventHandlerRegistration>,
    claims: Informer<SlimObject<Stored<Claim>>>,
}

fn options<T: Kept>(pools: &Arc<Mutex<Pools>>) -> Options<T> {
    InformerOptions::default().transform(keep(Arc::clone(pools)))
}

impl Default for Kinds {
    fn default() -> Self {
        let pools = Arc::new(Mutex::new(Pools::default()));
        Kinds {
            pods: options(&pools),
            nodes: options(&pools),
            namespaces: options(&pools),
            claims: options(&pools),
            volumes: options(&pools),
            classes: options(&pools),
            csi_nodes: options(&pools),
            csi_drivers: options(&pools),
            capacities: options(&pools),
            attachments: options(&pools),
            budgets: options(&pools),
            services: options(&pools),
            sets: options(&pools),
        }
    }
}

/// Asks for informers one by one.
struct Asking<'a> {
    informers: &'a SharedInformerFactory,
    tell: &'a UnboundedSender<Told>,
    subscriptions: Vec<EventHandlerRegistration>,
}

impl Asking<'_> {
    fn watch<K, T>(
        &mut self,
        scope: InformerScope,
        options: &Options<T>,
        told: impl Fn(Change<T>) -> Told + Send + 'static,
    ) -> Result<Informer<SlimObject<Stored<T>>>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()>,
        T: Kept,
    {
        let informer = self.informers.slim_with::<K, Stored<T>>(scope, options.clone())?;
        let tell = self.tell.clone();
        let subscription = informer.add_event_handler(move |delta| {
            if let Some(change) = Change::of(delta) {
                // The scheduler may have ended.
                let _ = tell.send(told(change));
            }
        });
        self.subscriptions.push(subscription);
        Ok(informer)
    }
}

impl Watched {
    /// Has the core told of everything it decides by.
    pub(super) fn new(
        informers: &SharedInformerFactory,
        kinds: &Kinds,
        tell: &UnboundedSender<Told>,
    ) -> Result<Self, InformerOptionsConflict> {
        let mut asking = Asking {
            informers,
            tell,
            subscriptions: Vec::new(),
        };
        let all = InformerScope::default;
        // What has run to its end takes nothing of its node.
        let running = InformerScope::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        asking.watch::<core::Node, _>(all(), &kinds.nodes, Told::Node)?;
        asking.watch::<core::Namespace, _>(all(), &kinds.namespaces, Told::Namespace)?;
        let claims = asking.watch::<core::PersistentVolumeClaim, _>(all(), &kinds.claims, Told::Claim)?;
        asking.watch::<core::PersistentVolume, _>(all(), &kinds.volumes, Told::Volume)?;
        asking.watch::<storage::StorageClass, _>(all(), &kinds.classes, Told::Class)?;
        asking.watch::<storage::CSINode, _>(all(), &kinds.csi_nodes, Told::CsiNode)?;
        asking.watch::<storage::CSIDriver, _>(all(), &kinds.csi_drivers, Told::CsiDriver)?;
        asking.watch::<storage::CSIStorageCapacity, _>(all(), &kinds.capacities, Told::Capacity)?;
        asking.watch::<storage::VolumeAttachment, _>(all(), &kinds.attachments, Told::Attachment)?;
        asking.watch::<policy::PodDisruptionBudget, _>(all(), &kinds.budgets, Told::Budget)?;
        asking.watch::<core::Service, _>(all(), &kinds.services, Told::Service)?;
        asking.watch::<core::ReplicationController, _>(all(), &kinds.services, Told::Controller)?;
        asking.watch::<apps::ReplicaSet, _>(all(), &kinds.sets, |change| Told::Set("ReplicaSet", change))?;
        asking
            .watch::<apps::StatefulSet, _>(all(), &kinds.sets, |change| Told::Set("StatefulSet", change))?;
        asking.watch::<core::Pod, _>(running, &kinds.pods, Told::Pod)?;
        Ok(Watched {
            subscriptions: asking.subscriptions,
            claims,
        })
    }

    /// Until everything that is there was told.
    pub(super) async fn synced(&self) {
        for subscription in &self.subscriptions {
            subscription.wait_for_sync().await;
        }
    }

    /// The claims as they are now.
    pub(super) fn claims(&self) -> ClaimStore {
        self.claims.store().clone()
    }
}
