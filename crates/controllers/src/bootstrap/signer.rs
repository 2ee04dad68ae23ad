//! The bootstrap signer: signs the cluster-info ConfigMap with every token for signing, so that a client with a token can trust it.

use std::collections::BTreeMap;

use k3_workloads::{ObjectMeta, projected_object};
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::{Delta, Informer, InformerScope},
    store::Store,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    signature::sign,
    token::{BootstrapToken, RemainingValidity},
};
use crate::{
    context::{ControllerContext, Task},
    resource::CONFIG_MAPS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
/// The signed field.
const FIELD: &str = "kubeconfig";
/// Prefix of signature fields; the token ID follows.
const SIGNATURE: &str = "jws-kubeconfig-";

/// The ConfigMap cluster-info.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ClusterInfoConfigMap {
    metadata: ObjectMeta,
    data: BTreeMap<String, String>,
}

projected_object!(ClusterInfoConfigMap);

// upstream: pkg/controller/bootstrap/bootstrapsigner.go Signer, signConfigMap
struct BootstrapSigner {
    writer: ApiWriter,
    clock: Clock,
    cluster_info: Informer<ClusterInfoConfigMap>,
    tokens: Store<BootstrapToken>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let scope = InformerScope::default()
        .namespace(NAMESPACE)
        .fields(format!("metadata.name={NAME}"));
    let cluster_info = context
        .informers
        .projected::<ClusterInfoConfigMap>(&CONFIG_MAPS.api_resource(), scope);
    let tokens = BootstrapToken::informer(context);
    let signer = BootstrapSigner {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        cluster_info: cluster_info.clone(),
        tokens: tokens.store().clone(),
    };
    let runner = context
        .controller("bootstrap-signer-controller")
        .for_(&cluster_info)
        .watches(&tokens, |_: &Delta<BootstrapToken>| {
            vec![Key::new(NAMESPACE, NAME)]
        })
        .reconciler(signer);
    vec![Box::new(runner)]
}

/// The fields to change: missing signatures are added, others removed.
// upstream: pkg/controller/bootstrap/bootstrapsigner.go signConfigMap
fn signature_changes(data: &BTreeMap<String, String>, tokens: &BTreeMap<&str, &str>) -> Map<String, Value> {
    let mut changes = Map::new();
    let Some(text) = data.get(FIELD) else {
        return changes;
    };
    for name in data.keys() {
        let token = name.strip_prefix(SIGNATURE);
        if token.is_some_and(|token| !tokens.contains_key(token)) {
            changes.insert(name.clone(), Value::Null);
        }
    }
    for (id, secret) in tokens {
        let name = format!("{SIGNATURE}{id}");
        let signature = sign(text, id, secret);
        if data.get(&name) != Some(&signature) {
            changes.insert(name, signature.into());
        }
    }
    changes
}

// --- BootstrapSigner ---

impl Reconciler for BootstrapSigner {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(cluster_info) = self.cluster_info.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let all = self.tokens.all();
        let now = self.clock.now();
        let tokens: BTreeMap<_, _> = all.iter().filter_map(|token| token.signing_key(now)).collect();
        let changes = signature_changes(&cluster_info.data, &tokens);
        if !changes.is_empty() {
            let version = &cluster_info.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "data": changes});
            let object_ref = ObjectRef::new(&CONFIG_MAPS, NAMESPACE, NAME);
            match self
                .writer
                .update_with_merge::<WrittenObject>(object_ref, &patch)
                .await
            {
                Err(error) if has_status_code(&error, 404) || has_status_code(&error, 409) => {}
                written => request.record_write(&self.cluster_info, &written?.metadata.resource_version),
            }
        }
        let next = all
            .iter()
            .filter_map(|token| match token.remaining_validity(now) {
                RemainingValidity::For(remaining_validity) => Some(remaining_validity),
                RemainingValidity::Forever | RemainingValidity::Expired => None,
            });
        Ok(next.min().map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}
