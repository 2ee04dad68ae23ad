//! Writes whether networks of services are ready, and lets them go.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Store,
};
use serde_json::{Value, json};

use super::plan::can_go;
use crate::{
    news::News,
    objects::{Condition, ConditionStatus, IpAddress, ServiceCidr},
    resource::SERVICE_CIDRS,
    writer::{Made, Place, Writer, is},
    written,
};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
/// In whose name the condition is.
const MANAGER: &str = "service-cidr-controller";
/// Who gives out addresses has heard by then that there are none to be given any more.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// What is said of networks.
struct Said {
    holds: ConditionStatus,
    reason: &'static str,
    message: &'static str,
}

const IS_READY: Said = Said {
    holds: ConditionStatus::True,
    reason: "",
    message: "Kubernetes Service CIDR is ready",
};
const IS_KEPT: Said = Said {
    holds: ConditionStatus::False,
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
};

/// Keeps networks of services.
pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) cidrs: Informer<ServiceCidr>,
    pub(super) addresses: Store<IpAddress>,
}

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(cidr) = self.cidrs.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        if let Some(since) = cidr.metadata.deletion_timestamp {
            if !can_go(&cidr, &self.cidrs.store().all(), &self.addresses.all()) {
                self.say(&request, &cidr, &IS_KEPT).await?;
                return Ok(Outcome::Done);
            }
            let left = GRACE - self.clock.now().duration_since(since);
            if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
                return Ok(Outcome::RequeueAfter(left));
            }
            if cidr.metadata.has_finalizer(FINALIZER) {
                let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
                self.patch(&request, place(&cidr), &patch).await?;
            }
            return Ok(Outcome::Done);
        }
        if !cidr.metadata.has_finalizer(FINALIZER) {
            let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
            self.patch(&request, place(&cidr), &patch).await?;
        }
        if let Err(error) = self.say(&request, &cidr, &IS_READY).await {
            let words = "The ServiceCIDR Status can not be set to Ready=True";
            let about = cidr.metadata.reference(&SERVICE_CIDRS);
            News::warning("KubernetesServiceCIDRError", words).tell(&self.recorder, &about);
            return Err(error.into());
        }
        Ok(Outcome::Done)
    }
}

fn place(cidr: &ServiceCidr) -> Place<'_> {
    Place::new(&SERVICE_CIDRS, "", &cidr.metadata.name)
}

impl Keeper {
    async fn say(&self, request: &Request, cidr: &ServiceCidr, said: &Said) -> kube::Result<()> {
        let Said {
            holds,
            reason,
            message,
        } = said;
        let old = Condition::find(&cidr.status.conditions, READY);
        let facts = |condition: &Condition| {
            condition.status == *holds && &*condition.reason == *reason && &*condition.message == *message
        };
        if old.is_some_and(facts) {
            return Ok(());
        }
        let time = written::second(self.clock.now());
        let condition = json!({"type": READY, "status": holds, "reason": reason, "message": message, "lastTransitionTime": time});
        let applied = json!({
            "apiVersion": SERVICE_CIDRS.api_version(), "kind": SERVICE_CIDRS.kind,
            "metadata": {"name": cidr.metadata.name}, "status": {"conditions": [condition]},
        });
        let place = place(cidr).part("status");
        self.wrote(request, self.writer.apply(place, MANAGER, &applied).await)
    }

    async fn patch(&self, request: &Request, place: Place<'_>, patch: &Value) -> kube::Result<()> {
        self.wrote(request, self.writer.merge_lists(place, patch).await)
    }

    fn wrote(&self, request: &Request, written: kube::Result<Made>) -> kube::Result<()> {
        match written {
            Ok(made) => {
                request.record_write(&self.cidrs, &made.metadata.resource_version);
                Ok(())
            }
            Err(error) if is(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
