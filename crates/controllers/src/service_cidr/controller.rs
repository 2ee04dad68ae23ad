//! Reconciles ServiceCIDRs: Ready condition and finalizer.

use std::time::Duration;

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::SignedDuration;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Store,
};
use serde_json::{Value, json};

use super::deletion::can_delete;
use crate::{
    event_message::EventMessage,
    objects::{IpAddress, ServiceCidr},
    patch_values,
    resource::SERVICE_CIDRS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
/// Field manager of the condition.
const MANAGER: &str = "service-cidr-controller";
/// Time for allocators to observe that the ServiceCIDR is being deleted (deletionGracePeriod).
const DELETION_GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// A state of the Ready condition.
struct ReadyCondition {
    holds: ConditionStatus,
    reason: &'static str,
    message: &'static str,
}

const IS_READY: ReadyCondition = ReadyCondition {
    holds: ConditionStatus::True,
    reason: "",
    message: "Kubernetes Service CIDR is ready",
};
const STILL_REFERENCED: ReadyCondition = ReadyCondition {
    holds: ConditionStatus::False,
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
};

// upstream: pkg/controller/servicecidrs/servicecidrs_controller.go Controller, sync
pub(super) struct ServiceCidrController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) cidrs: Informer<ServiceCidr>,
    pub(super) addresses: Store<IpAddress>,
}

impl Reconciler for ServiceCidrController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(cidr) = self.cidrs.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        if let Some(since) = cidr.metadata.deletion_timestamp {
            if !can_delete(&cidr, &self.cidrs.store().all(), &self.addresses.all()) {
                self.update_condition(&request, &cidr, &STILL_REFERENCED).await?;
                return Ok(Outcome::Done);
            }
            let left = DELETION_GRACE_PERIOD - self.clock.now().duration_since(since);
            if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
                return Ok(Outcome::RequeueAfter(left));
            }
            if cidr.metadata.has_finalizer(FINALIZER) {
                let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
                self.patch_finalizers(&request, cidr_ref(&cidr), &patch).await?;
            }
            return Ok(Outcome::Done);
        }
        if !cidr.metadata.has_finalizer(FINALIZER) {
            let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
            self.patch_finalizers(&request, cidr_ref(&cidr), &patch).await?;
        }
        if let Err(error) = self.update_condition(&request, &cidr, &IS_READY).await {
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            let about = SERVICE_CIDRS.object_reference(&cidr.metadata);
            EventMessage::warning("KubernetesServiceCIDRError", message).record(&self.recorder, &about);
            return Err(error.into());
        }
        Ok(Outcome::Done)
    }
}

fn cidr_ref(cidr: &ServiceCidr) -> ObjectRef<'_> {
    ObjectRef::new(&SERVICE_CIDRS, "", &cidr.metadata.name)
}

impl ServiceCidrController {
    // upstream: pkg/controller/servicecidrs/servicecidrs_controller.go updateConditionIfNeeded
    async fn update_condition(
        &self,
        request: &Request,
        cidr: &ServiceCidr,
        condition: &ReadyCondition,
    ) -> kube::Result<()> {
        let ReadyCondition {
            holds,
            reason,
            message,
        } = condition;
        let old = Condition::find(&cidr.status.conditions, READY);
        let facts = |condition: &Condition| {
            condition.status == *holds && &*condition.reason == *reason && &*condition.message == *message
        };
        if old.is_some_and(facts) {
            return Ok(());
        }
        let time = patch_values::truncate_to_second(self.clock.now());
        let condition = json!({"type": READY, "status": holds, "reason": reason, "message": message, "lastTransitionTime": time});
        let applied = json!({
            "apiVersion": SERVICE_CIDRS.api_version(), "kind": SERVICE_CIDRS.kind,
            "metadata": {"name": cidr.metadata.name}, "status": {"conditions": [condition]},
        });
        let object_ref = cidr_ref(cidr).subresource("status");
        self.observe_write(
            request,
            self.writer.server_side_apply(object_ref, MANAGER, &applied).await,
        )
    }

    // upstream: pkg/controller/servicecidrs/servicecidrs_controller.go addServiceCIDRFinalizerIfNeeded, removeServiceCIDRFinalizerIfNeeded
    async fn patch_finalizers(
        &self,
        request: &Request,
        object_ref: ObjectRef<'_>,
        patch: &Value,
    ) -> kube::Result<()> {
        self.observe_write(
            request,
            self.writer.strategic_merge_patch(object_ref, patch).await,
        )
    }

    fn observe_write(&self, request: &Request, written: kube::Result<WrittenObject>) -> kube::Result<()> {
        match written {
            Ok(made) => {
                request.record_write(&self.cidrs, &made.metadata.resource_version);
                Ok(())
            }
            Err(error) if has_status_code(&error, 404) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
