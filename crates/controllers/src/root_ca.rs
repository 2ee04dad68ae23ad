//! The root CA publisher: creates the ConfigMap kube-root-ca.crt in every namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k3_workloads::{ObjectMeta, projected_object};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::InformerScope,
    store::Store,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use crate::{
    context::{ClusterConfig, ControllerContext, Task},
    objects::Projection,
    resource::{CONFIG_MAPS, NAMESPACES},
    writer::{ApiWriter, ObjectRef, has_status_code},
};

const NAME: &str = "kube-root-ca.crt";
const FIELD: &str = "ca.crt";
const ABOUT: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
    Kubernetes clusters.";

/// A config map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ConfigMap {
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
}

projected_object!(ConfigMap);

// upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go Publisher, syncNamespace
struct RootCaCertificatePublisher {
    writer: ApiWriter,
    known: Store<Projection<IgnoredAny>>,
    have: Store<ConfigMap>,
    cluster: Arc<ClusterConfig>,
}

// upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go Publisher, syncNamespace
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let namespaces = context.informer::<Projection<IgnoredAny>>(&NAMESPACES);
    let scope = InformerScope::default().fields(format!("metadata.name={NAME}"));
    let published = context
        .informers
        .projected::<ConfigMap>(&CONFIG_MAPS.api_resource(), scope);
    let known = namespaces.store().clone();
    let have = published.store().clone();
    let writer = context.writer.clone();
    let cluster = context.cluster.clone();
    let runner = context
        .controller("root-ca-certificate-publisher-controller")
        .for_(&namespaces)
        .watches(&published, |delta| {
            vec![Key::new("", &delta.object().metadata.namespace)]
        })
        .reconciler(RootCaCertificatePublisher {
            writer,
            known,
            have,
            cluster,
        });
    vec![Box::new(runner)]
}

impl Reconciler for RootCaCertificatePublisher {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let RootCaCertificatePublisher {
            writer,
            known,
            have,
            cluster,
        } = self;
        let namespace = request.key.name();
        let wants = known
            .get(&request.key)
            .is_some_and(|namespace| !namespace.metadata.is_terminating());
        if !wants {
            return Ok(Outcome::Done);
        }
        let annotations = json!({ABOUT: DESCRIPTION});
        let authority = cluster.authority.get();
        let data = json!({FIELD: &*authority});
        let written = match have.get(&Key::new(namespace, NAME)) {
            Some(map) if map.is_right(&authority) => return Ok(Outcome::Done),
            Some(map) => {
                // Other fields are removed: null deletes a field in a merge patch.
                let mut fields: serde_json::Map<_, _> =
                    map.data.keys().map(|key| (key.clone(), Value::Null)).collect();
                fields.insert(FIELD.to_owned(), (*authority).into());
                let patch = json!({"metadata": {"annotations": annotations}, "data": fields});
                let object_ref = ObjectRef::new(&CONFIG_MAPS, namespace, NAME);
                writer.update_with_merge::<Value>(object_ref, &patch).await
            }
            None => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": {"name": NAME, "annotations": annotations}, "data": data});
                writer.create::<Value>(&CONFIG_MAPS, namespace, &map).await
            }
        };
        match written {
            // It exists already, or the namespace is terminating.
            Err(error)
                if has_status_code(&error, 409)
                    || has_status_code(&error, 403)
                    || has_status_code(&error, 404) =>
            {
                Ok(Outcome::Done)
            }
            other => Ok(other.map(|_| Outcome::Done)?),
        }
    }
}

// --- ConfigMap ---

impl ConfigMap {
    fn is_right(&self, authority: &str) -> bool {
        let is_right = |(field, value): (&String, &String)| field == FIELD && value == authority;
        self.data.len() == 1
            && self.data.iter().all(is_right)
            && self.metadata.annotation(ABOUT) == Some(DESCRIPTION)
    }
}
