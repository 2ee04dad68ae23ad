//! Renews the lease of the node, the heartbeat that the node lifecycle controller watches.
// upstream: staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go controller

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kubecontroller::{Backoff, Clock, manager::Stop};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

const NAMESPACE: &str = "kube-node-lease";
/// `spec.leaseDurationSeconds`.
const LEASE_DURATION_SECONDS: i32 = 40;
/// Timeout of a request; it is retried then.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// First delay before a retry.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);

/// Renews the lease of a node.
pub(in crate::agent) struct NodeLeaseController {
    leases: Api<Lease>,
    clock: Clock,
    node: String,
    period: Duration,
    /// UID of the Node, once it is registered.
    uid: watch::Receiver<Option<String>>,
}

impl NodeLeaseController {
    pub(in crate::agent) fn new(
        client: Client,
        clock: Clock,
        node: &str,
        period: Duration,
        uid: watch::Receiver<Option<String>>,
    ) -> Self {
        NodeLeaseController {
            leases: Api::namespaced(client, NAMESPACE),
            clock,
            node: node.to_owned(),
            period,
            uid,
        }
    }

    /// Renews the lease until `stop` is stopped.
    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        let renew_periodically = async {
            let mut delays = Backoff::exponential(INITIAL_BACKOFF, self.period).delays();
            loop {
                let Ok(Some(uid)) = self.uid.wait_for(Option::is_some).await.map(|uid| uid.clone()) else {
                    return;
                };
                let renewed = timeout(REQUEST_TIMEOUT, self.renew(&uid)).await;
                match renewed {
                    Ok(Ok(())) => {
                        delays.reset();
                        sleep(self.period).await;
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(node = self.node, %error, "failed to renew node lease");
                        sleep(delays.next_delay()).await;
                    }
                    Err(_) => {
                        tracing::warn!(node = self.node, timeout = ?REQUEST_TIMEOUT, "renewing node lease timed out");
                    }
                }
            }
        };
        stop.unless_stopped(renew_periodically).await;
    }

    // upstream: staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go sync
    async fn renew(&self, uid: &str) -> kube::Result<()> {
        let now = MicroTime(self.clock.now());
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid}]);
        // The owner reference is always written: the garbage collector would delete a lease that refers to an earlier Node.
        // upstream: pkg/kubelet/util/nodelease.go SetNodeOwnerFunc
        let patch = json!({
            "metadata": {"ownerReferences": owner},
            "spec": {"holderIdentity": self.node, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": now},
        });
        let parameters = PatchParams::default();
        match self
            .leases
            .patch(&self.node, &parameters, &Patch::Merge(&patch))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => return other.map(drop),
        }
        let mut lease = patch;
        lease["apiVersion"] = "coordination.k8s.io/v1".into();
        lease["kind"] = "Lease".into();
        lease["metadata"]["name"] = self.node.clone().into();
        lease["metadata"]["namespace"] = NAMESPACE.into();
        let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
        self.leases.create(&PostParams::default(), &lease).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use kubecontroller::testing::{FakeApi, eventually};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn creates_and_renews_lease_despite_errors() {
        let api = FakeApi::new();
        let begin = tokio::time::Instant::now();
        let clock = Clock::new(move || {
            k8s_openapi::jiff::Timestamp::from_second(1_767_225_600).unwrap() + begin.elapsed()
        });
        let (uid, uid_receiver) = watch::channel(None);
        let controller =
            NodeLeaseController::new(api.client(), clock, "n", Duration::from_secs(10), uid_receiver);
        let stop = Stop::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(controller.run(stop.clone()));
        sleep(Duration::from_secs(30)).await;
        assert!(api.list::<Lease>().is_empty(), "the Node is not registered");
        uid.send_replace(Some("u".to_owned()));
        let lease = eventually(async || api.get::<Lease>(NAMESPACE, "n")).await;
        let spec = lease.spec.unwrap();
        assert_eq!(
            (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
            (Some("n"), Some(40))
        );
        assert_eq!(lease.metadata.owner_references.unwrap()[0].uid, "u");
        api.faults().fail_next(2, 503);
        let first = spec.renew_time;
        sleep(Duration::from_secs(12)).await;
        let renewed = api.get::<Lease>(NAMESPACE, "n").unwrap().spec.unwrap().renew_time;
        assert!(renewed > first, "{renewed:?}");
        api.remove::<Lease>(NAMESPACE, "n");
        sleep(Duration::from_secs(11)).await;
        assert!(
            api.get::<Lease>(NAMESPACE, "n").is_some(),
            "the deleted lease is created again"
        );
        stop.stop(Duration::ZERO);
        tasks.join_next().await;
    }
}
