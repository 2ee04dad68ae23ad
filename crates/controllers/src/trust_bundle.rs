//! Publishes the CA bundle of the API server's serving certificate as a ClusterTrustBundle.

use std::{fmt::Write, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use kubecontroller::{
    Key,
    controller::{ControllerRunner, Error, Outcome, Reconciler, Request},
    informer::{Informer, InformerScope},
    manager::{BoxError, Runnable, Stop},
    writer::{ApiWriter, ObjectRef, is_already_exists},
};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use crate::{
    context::{CaBundle, ControllerContext, Task},
    objects::Projection,
    resource::CLUSTER_TRUST_BUNDLES,
};

const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// Bytes of the bundle's hash in its name.
const HASH_BYTES: usize = 12;
/// How often the CA bundle is checked: rotation sends no event.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

type ClusterTrustBundle = Projection<ClusterTrustBundleSpec, IgnoredAny>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterTrustBundleSpec {
    signer_name: Box<str>,
    trust_bundle: Box<str>,
}

// upstream: pkg/controller/certificates/clustertrustbundlepublisher/publisher.go PublisherRunner, syncClusterTrustBundle
struct ClusterTrustBundlePublisher {
    writer: ApiWriter,
    bundles: Informer<ClusterTrustBundle>,
    authority: CaBundle,
}

/// There may be no bundle whose event would trigger the publisher, so it is triggered once at start.
struct TriggeredPublisher {
    runner: ControllerRunner<ClusterTrustBundlePublisher>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let scope = InformerScope::default().fields(format!("spec.signerName={SIGNER}"));
    let bundles = context
        .informers
        .projected::<ClusterTrustBundle>(&CLUSTER_TRUST_BUNDLES.api_resource(), scope);
    let runner = context
        .controller("kube-apiserver-serving-clustertrustbundle-publisher-controller")
        .watches(&bundles, |_| vec![queue_key()])
        .reconciler(ClusterTrustBundlePublisher {
            writer: context.writer.clone(),
            bundles,
            authority: context.cluster.authority.clone(),
        });
    vec![Box::new(TriggeredPublisher { runner })]
}

/// All bundles of the signer are reconciled together.
fn queue_key() -> Key {
    Key::new("", SIGNER)
}

/// The name contains the hash of the certificates.
// upstream: pkg/controller/certificates/clustertrustbundlepublisher/publisher.go constructBundleName
fn bundle_name(certificates: &str) -> String {
    let mut name = SIGNER.replace('/', ":") + ":";
    let hash = digest(&SHA256, certificates.as_bytes());
    for byte in hash.as_ref().iter().take(HASH_BYTES) {
        // Writing to a String does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

// --- TriggeredPublisher ---

impl Runnable for TriggeredPublisher {
    fn name(&self) -> &'static str {
        "kube-apiserver-serving-clustertrustbundle-publisher"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            self.runner.handle().queue().add(queue_key());
            self.runner.run(stop).await
        }
        .boxed()
    }
}

// --- ClusterTrustBundlePublisher ---

impl Reconciler for ClusterTrustBundlePublisher {
    async fn reconcile(&self, _: Request) -> Result<Outcome, Error> {
        let certificates = self.authority.get();
        if certificates.is_empty() {
            return Ok(Outcome::RequeueAfter(CHECK_INTERVAL));
        }
        let name = bundle_name(&certificates);
        self.publish(&name, &certificates).await?;
        for bundle in self.bundles.store().all() {
            let other = &*bundle.metadata.name;
            if *bundle.spec.signer_name == *SIGNER && other != name {
                let object_ref = ObjectRef::new(&CLUSTER_TRUST_BUNDLES, "", other);
                self.writer.delete(object_ref, &json!({})).await?;
            }
        }
        Ok(Outcome::RequeueAfter(CHECK_INTERVAL))
    }
}

impl ClusterTrustBundlePublisher {
    // upstream: pkg/controller/certificates/clustertrustbundlepublisher/publisher.go createClusterTrustBundle, updateWithTrustBundle
    async fn publish(&self, name: &str, certificates: &str) -> kube::Result<()> {
        let spec = json!({"signerName": SIGNER, "trustBundle": certificates});
        match self.bundles.store().get(&Key::new("", name)) {
            Some(bundle) if *bundle.spec.trust_bundle == *certificates => {}
            Some(bundle) => {
                let version = &bundle.metadata.resource_version;
                let object = json!({
                    "apiVersion": CLUSTER_TRUST_BUNDLES.api_version(), "kind": CLUSTER_TRUST_BUNDLES.kind,
                    "metadata": {"name": name, "resourceVersion": version}, "spec": spec,
                });
                let object_ref = ObjectRef::new(&CLUSTER_TRUST_BUNDLES, "", name);
                self.writer.update::<Value>(object_ref, &object).await?;
            }
            None => {
                let object = json!({
                    "apiVersion": CLUSTER_TRUST_BUNDLES.api_version(), "kind": CLUSTER_TRUST_BUNDLES.kind,
                    "metadata": {"name": name}, "spec": spec,
                });
                match self
                    .writer
                    .create::<Value>(&CLUSTER_TRUST_BUNDLES, "", &object)
                    .await
                {
                    // Another replica of this controller created it; the informer delivers it.
                    Err(error) if is_already_exists(&error) => {}
                    other => drop(other?),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        context::ClusterConfig,
        testing::{Scenario, TestCluster},
    };

    fn make_for(authority: CaBundle, context: &ControllerContext) -> Vec<Task> {
        let cluster = ClusterConfig {
            authority,
            ..ClusterConfig::default()
        };
        make(&ControllerContext {
            cluster: Arc::new(cluster),
            ..context.clone()
        })
    }

    #[test]
    fn bundle_name_matches_upstream() {
        assert_eq!(
            bundle_name("abc"),
            "kubernetes.io:kube-apiserver-serving:ba7816bf8f01cfea414140de"
        );
    }

    /// One bundle is of certificates of before, one was changed by another client, one is another signer's.
    const STORY: Scenario = Scenario {
        make: |context| make_for("abc".to_owned().into(), context),
        setup: |cluster| {
            for (name, signer) in [
                ("kubernetes.io:kube-apiserver-serving:old", SIGNER),
                (&*bundle_name("abc"), SIGNER),
                ("other", "example.com/signer"),
            ] {
                cluster.put(
                    &CLUSTER_TRUST_BUNDLES,
                    json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": "x"}}),
                );
            }
        },
        play: |_| {},
        end: |cluster| {
            let bundles = cluster.api.list::<ClusterTrustBundle>().into_iter();
            let bundles: Vec<_> = bundles
                .map(|bundle| json!([bundle.metadata.name, bundle.spec.trust_bundle]))
                .collect();
            (bundles.len() == 2).then(|| bundles.into())
        },
    };

    #[tokio::test(start_paused = true)]
    async fn the_bundle_is_that_of_the_authority_and_the_only_one_of_its_signer() {
        let (end, _) = STORY.run().await;
        assert_eq!(end, json!([[bundle_name("abc"), "abc"], ["other", "x"]]));
        STORY.survives_crashes().await;
        STORY.survives_copies().await;
    }

    #[tokio::test(start_paused = true)]
    async fn publishes_a_rotated_ca_without_an_event() {
        let cluster = TestCluster::new();
        let authority = CaBundle::from("abc".to_owned());
        let running = cluster.start("one", |context| make_for(authority.clone(), context));
        for certificates in ["abc", "def"] {
            authority.set(certificates);
            let is_published = || {
                let bundles = cluster.api.list::<ClusterTrustBundle>();
                let mut names = bundles.iter().map(|bundle| bundle.metadata.name.as_deref());
                names.next() == Some(Some(&*bundle_name(certificates))) && names.next().is_none()
            };
            let published = async {
                while !is_published() {
                    sleep(Duration::from_secs(1)).await;
                }
            };
            let in_time = timeout(2 * CHECK_INTERVAL, published).await;
            assert!(in_time.is_ok(), "{certificates} is not published");
        }
        drop(running);
    }
}
