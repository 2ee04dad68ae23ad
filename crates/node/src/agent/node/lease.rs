//! Says that the node lives.

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kubecontroller::{Clock, manager::Stop};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

const NAMESPACE: &str = "kube-node-lease";
/// For how long a node is believed to live that was not heard of.
const SECONDS: i32 = 40;
/// A request that takes longer is given up, and made anew.
const LIMIT: Duration = Duration::from_secs(10);
/// How long after a failure it is tried again, at least.
const AGAIN: Duration = Duration::from_millis(200);

/// Renews the lease of a node.
pub(in crate::agent) struct LeaseKeeper {
    leases: Api<Lease>,
    clock: Clock,
    node: String,
    period: Duration,
    /// The uid of the Node, once that is there.
    uid: watch::Receiver<Option<String>>,
}

impl LeaseKeeper {
    pub(in crate::agent) fn new(
        client: Client,
        clock: Clock,
        node: &str,
        period: Duration,
        uid: watch::Receiver<Option<String>>,
    ) -> Self {
        LeaseKeeper {
            leases: Api::namespaced(client, NAMESPACE),
            clock,
            node: node.to_owned(),
            period,
            uid,
        }
    }

    /// Renews until it is told to stop.
    pub(in crate::agent) async fn run(mut self, stop: Stop) {
        let keep = async {
            let mut again = AGAIN;
            loop {
                let Ok(uid) = self.uid.wait_for(Option::is_some).await.map(|uid| uid.clone()) else {
                    return;
                };
                let renewed = timeout(LIMIT, self.renew(uid.as_deref().unwrap_or_default())).await;
                match renewed {
                    Ok(Ok(())) => {
                        again = AGAIN;
                        sleep(self.period).await;
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(node = self.node, %error, "cannot renew the lease of the node");
                        sleep(again).await;
                        again = (again * 2).min(self.period);
                    }
                    Err(_) => {
                        tracing::warn!(node = self.node, "renewing the lease of the node takes too long");
                    }
                }
            }
        };
        stop.unless_stopped(keep).await;
    }

    async fn renew(&self, uid: &str) -> kube::Result<()> {
        let now = MicroTime(self.clock.now());
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid}]);
        // A lease of an earlier Node of that name is taken over, or it would go with that Node.
        let patch = json!({
            "metadata": {"ownerReferences": owner},
            "spec": {"holderIdentity": self.node, "leaseDurationSeconds": SECONDS, "renewTime": now},
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
    async fn a_lease_is_made_and_renewed_whatever_fails() {
        let api = FakeApi::new();
        let begin = tokio::time::Instant::now();
        let clock = Clock::new(move || {
            k8s_openapi::jiff::Timestamp::from_second(1_767_225_600).unwrap() + begin.elapsed()
        });
        let (uid, known) = watch::channel(None);
        let keeper = LeaseKeeper::new(api.client(), clock, "n", Duration::from_secs(10), known);
        let stop = Stop::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(keeper.run(stop.clone()));
        sleep(Duration::from_secs(30)).await;
        assert!(api.list::<Lease>().is_empty(), "there is no node yet");
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
        assert!(api.get::<Lease>(NAMESPACE, "n").is_some(), "it is made again");
        stop.stop(Duration::ZERO);
        tasks.join_next().await;
    }
}
