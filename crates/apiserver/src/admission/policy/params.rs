//! The parameters of a policy (paramKind), as its bindings refer to them (paramRef).

use k3_api::{
    kinds::{KindRef, builtin},
    selector::label::Selector,
    strategy::Tree,
};
use k3_storage::Revision;
use serde_json::Value;

use super::super::versioned_attributes::VersionedAttributes;
use crate::{
    cache::{CachedObject, WatchCaches},
    registry::Resource,
};

/// The kind of the parameters of a policy (paramKind); or why there is no such kind.
pub(super) fn kind(said: &Value, caches: &WatchCaches) -> Result<Option<KindRef>, String> {
    if said.is_null() {
        return Ok(None);
    }
    let version = said.text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let name = said.text("kind");
    let custom = || {
        let definitions = caches.definitions().all();
        let mut served = definitions.values();
        served
            .find(|served| served.definition.group == group && served.definition.names.kind == name)?
            .served(version)
    };
    let known = builtin().kind(group, version, name).map(KindRef::from);
    match known.or_else(custom) {
        Some(kind) => Ok(Some(kind)),
        None => Err(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'"
        )),
    }
}

/// The parameters that the paramRef of a binding selects for a request in a namespace: the policy is evaluated once for each.
/// `None` is an evaluation without parameters.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go CollectParams
pub(super) fn collect(
    kind: Option<&KindRef>,
    reference: &Value,
    subject: &VersionedAttributes<'_>,
    caches: &WatchCaches,
) -> Result<Vec<Option<Value>>, String> {
    let Some(kind) = kind.filter(|_| !reference.is_null()) else {
        return Ok(vec![None]);
    };
    let resource = Resource::of(kind.clone(), caches);
    let said = reference.text("namespace");
    let namespace = match (kind.is_namespaced(), said) {
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned(),
            );
        }
        (true, "") if subject.namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => &subject.namespace,
        (true, said) => said,
    };
    let read = |object: &CachedObject| {
        if object.undecrypted().is_some() {
            return Err(format!(
                "the server cannot decrypt {} {:?}",
                kind.plural,
                object.name()
            ));
        }
        match subject.convert_stored(object.tree(), &resource) {
            Ok(tree) => Ok(Some(tree)),
            Err(status) => Err(status.message),
        }
    };
    let name = reference.text("name");
    let found: Vec<Option<Value>> = if !name.is_empty() {
        let key = resource.key(namespace, name).ok();
        let object = key.and_then(|key| resource.cache.get(&key));
        object
            .into_iter()
            .map(|object| read(&object))
            .collect::<Result<_, _>>()?
    } else if reference.has("selector") {
        let selector = Selector::from_object(reference.get("selector")).map_err(|error| error.to_string())?;
        let snapshot = resource.cache.snapshot(Revision::ZERO);
        let prefix = resource.under(namespace);
        snapshot
            .under(&prefix, None)
            .filter(|object| object.undecrypted().is_some() || selector.matches(&object.labels()))
            .map(|object| read(object))
            .collect::<Result<_, _>>()?
    } else {
        return Err("one of name or selector must be provided".to_owned());
    };
    if found.is_empty() && reference.text("parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}
