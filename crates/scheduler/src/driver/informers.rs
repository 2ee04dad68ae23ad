//! The informers that feed the core.

use std::sync::Arc;

use k3_workloads::{claim_informer, node_informer, pod_informer, volume_informer};
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core, policy::v1 as policy, storage::v1 as storage};
use kube::{Resource, core::ApiResource};
use kubecontroller::informer::{
    EventHandlerRegistration, Informer, InformerOptions, InformerOptionsConflict, InformerScope,
    SharedInformerFactory,
};
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    ClaimStore,
    derived_objects::DerivedObjects,
    informer_event::{InformerChange, InformerEvent},
};
use crate::{
    interner::StringInterner,
    object::{
        CsiDriver, CsiNode, CsiStorageCapacity, Namespace, PodDisruptionBudget, ReplicaSet, SchedulerObject,
        Service, StorageClass, StoredObject, VolumeAttachment, keep,
    },
};

type Options<T> = InformerOptions<StoredObject<T>>;

/// What is done with the objects of each kind before anybody sees them. It is made once: a second run of the scheduler
/// asks for the same informers.
pub(super) struct InformerOptionsSet {
    interner: Arc<Mutex<StringInterner>>,
    namespaces: Options<Namespace>,
    classes: Options<StorageClass>,
    csi_nodes: Options<CsiNode>,
    csi_drivers: Options<CsiDriver>,
    capacities: Options<CsiStorageCapacity>,
    attachments: Options<VolumeAttachment>,
    budgets: Options<PodDisruptionBudget>,
    services: Options<Service>,
    sets: Options<ReplicaSet>,
}

/// Informers that feed the core until this is dropped.
pub(super) struct SchedulerInformers {
    subscriptions: Vec<EventHandlerRegistration>,
    claims: Informer<k3_workloads::PersistentVolumeClaim>,
}

fn options<T: SchedulerObject>(interner: &Arc<Mutex<StringInterner>>) -> Options<T> {
    InformerOptions::default().transform(keep(Arc::clone(interner)))
}

impl Default for InformerOptionsSet {
    fn default() -> Self {
        let interner = Arc::new(Mutex::new(StringInterner::default()));
        InformerOptionsSet {
            namespaces: options(&interner),
            classes: options(&interner),
            csi_nodes: options(&interner),
            csi_drivers: options(&interner),
            capacities: options(&interner),
            attachments: options(&interner),
            budgets: options(&interner),
            services: options(&interner),
            sets: options(&interner),
            interner,
        }
    }
}

/// Starts informers one by one.
struct InformerBuilder<'a> {
    informers: &'a SharedInformerFactory,
    events: &'a UnboundedSender<InformerEvent>,
    subscriptions: Vec<EventHandlerRegistration>,
}

impl InformerBuilder<'_> {
    /// Watches a kind that others read too, with the informer that they share.
    fn watch_shared<T: SchedulerObject>(
        &mut self,
        informer: &Informer<T::Source>,
        mut derived: DerivedObjects<T>,
        event: impl Fn(InformerChange<T>) -> InformerEvent + Send + 'static,
    ) {
        let events = self.events.clone();
        self.subscriptions.push(informer.add_event_handler(move |delta| {
            if let Some(change) = derived.change(delta) {
                // The scheduler may have ended.
                let _ = events.send(event(change));
            }
        }));
    }

    fn watch<K, T>(
        &mut self,
        options: &Options<T>,
        event: impl Fn(InformerChange<T>) -> InformerEvent + Send + 'static,
    ) -> Result<Informer<StoredObject<T>>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()>,
        T: SchedulerObject,
    {
        let kind = ApiResource::erase::<K>(&());
        let informer = self
            .informers
            .projected_with(&kind, InformerScope::default(), options.clone())?;
        let events = self.events.clone();
        let subscription = informer.add_event_handler(move |delta| {
            if let Some(change) = InformerChange::of(delta) {
                // The scheduler may have ended.
                let _ = events.send(event(change));
            }
        });
        self.subscriptions.push(subscription);
        Ok(informer)
    }
}

impl SchedulerInformers {
    /// Has the core event of everything it decides by.
    pub(super) fn new(
        informers: &SharedInformerFactory,
        kinds: &InformerOptionsSet,
        events: &UnboundedSender<InformerEvent>,
    ) -> Result<Self, InformerOptionsConflict> {
        let mut builder = InformerBuilder {
            informers,
            events,
            subscriptions: Vec::new(),
        };
        let nodes = DerivedObjects::new(&kinds.interner);
        builder.watch_shared(&node_informer(informers), nodes, InformerEvent::Node);
        builder.watch::<core::Namespace, _>(&kinds.namespaces, InformerEvent::Namespace)?;
        let claims = claim_informer(informers);
        let derived = DerivedObjects::new(&kinds.interner);
        builder.watch_shared(&claims, derived, InformerEvent::PersistentVolumeClaim);
        let derived = DerivedObjects::new(&kinds.interner);
        builder.watch_shared(
            &volume_informer(informers),
            derived,
            InformerEvent::PersistentVolume,
        );
        builder.watch::<storage::StorageClass, _>(&kinds.classes, InformerEvent::Class)?;
        builder.watch::<storage::CSINode, _>(&kinds.csi_nodes, InformerEvent::CsiNode)?;
        builder.watch::<storage::CSIDriver, _>(&kinds.csi_drivers, InformerEvent::CsiDriver)?;
        builder
            .watch::<storage::CSIStorageCapacity, _>(&kinds.capacities, InformerEvent::CsiStorageCapacity)?;
        builder.watch::<storage::VolumeAttachment, _>(&kinds.attachments, InformerEvent::VolumeAttachment)?;
        builder
            .watch::<policy::PodDisruptionBudget, _>(&kinds.budgets, InformerEvent::PodDisruptionBudget)?;
        builder.watch::<core::Service, _>(&kinds.services, InformerEvent::Service)?;
        builder.watch::<core::ReplicationController, _>(&kinds.services, InformerEvent::Controller)?;
        builder
            .watch::<apps::ReplicaSet, _>(&kinds.sets, |change| InformerEvent::Set("ReplicaSet", change))?;
        builder
            .watch::<apps::StatefulSet, _>(&kinds.sets, |change| InformerEvent::Set("StatefulSet", change))?;
        let pods = DerivedObjects::new(&kinds.interner);
        builder.watch_shared(&pod_informer(informers), pods, InformerEvent::Pod);
        Ok(SchedulerInformers {
            subscriptions: builder.subscriptions,
            claims,
        })
    }

    /// Until everything that is there was event.
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
