//! Signs what the cluster tells of itself with every token that may: who has a token can trust it then, and nobody else need.

use std::collections::BTreeMap;

use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::{Delta, Informer, Scope},
    store::Store,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    signature::sign,
    token::{Left, Token},
};
use crate::{
    context::{ControllerContext, Task},
    objects::{Meta, object},
    resource::CONFIG_MAPS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
/// What is signed.
const FIELD: &str = "kubeconfig";
/// What the names of signatures begin with; the rest is the token's.
const SIGNATURE: &str = "jws-kubeconfig-";

/// What the cluster tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    metadata: Meta,
    data: BTreeMap<String, String>,
}

object!(Told);

struct Signer {
    writer: ApiWriter,
    clock: Clock,
    told: Informer<Told>,
    tokens: Store<Token>,
}

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let scope = Scope::default()
        .namespace(NAMESPACE)
        .fields(format!("metadata.name={NAME}"));
    let told = context
        .informers
        .projected::<Told>(&CONFIG_MAPS.api_resource(), scope);
    let tokens = Token::informer(context);
    let signer = Signer {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        told: told.clone(),
        tokens: tokens.store().clone(),
    };
    let runner = context
        .controller("bootstrap-signer-controller")
        .for_(&told)
        .watches(&tokens, |_: &Delta<Token>| vec![Key::new(NAMESPACE, NAME)])
        .reconciler(signer);
    vec![Box::new(runner)]
}

/// The fields that are to change, so that all signatures are there and no others.
fn changes(data: &BTreeMap<String, String>, tokens: &BTreeMap<&str, &str>) -> Map<String, Value> {
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
        let (name, signature) = (format!("{SIGNATURE}{id}"), sign(text, id, secret));
        if data.get(&name) != Some(&signature) {
            changes.insert(name, signature.into());
        }
    }
    changes
}

// --- Signer ---

impl Reconciler for Signer {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(told) = self.told.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let (all, now) = (self.tokens.all(), self.clock.now());
        let tokens: BTreeMap<_, _> = all.iter().filter_map(|token| token.signs(now)).collect();
        let changes = changes(&told.data, &tokens);
        if !changes.is_empty() {
            let version = &told.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "data": changes});
            let object_ref = ObjectRef::new(&CONFIG_MAPS, NAMESPACE, NAME);
            match self
                .writer
                .update_with_merge::<WrittenObject>(object_ref, &patch)
                .await
            {
                Err(error) if has_status_code(&error, 404) || has_status_code(&error, 409) => {}
                made => request.wrote_at(&self.told, &made?.metadata.resource_version),
            }
        }
        let next = all.iter().filter_map(|token| match token.left(now) {
            Left::For(left) => Some(left),
            Left::Ever | Left::Nothing => None,
        });
        Ok(next.min().map_or(Outcome::Done, Outcome::After))
    }
}
