//! The parameters of a policy (paramKind), as its bindings refer to them (paramRef).

use k3_api::{
    kinds::{KindRef, builtin},
    selector::label::{self, FromObjectError},
    status::Status,
    strategy::Tree,
};
use k3_storage::Revision;
use serde_json::Value;

use super::super::versioned_attributes::VersionedAttributes;
use crate::{
    cache::{CachedObject, WatchCaches},
    registry::Resource,
};

/// A paramKind that is not served.
#[derive(Debug, thiserror::Error)]
#[error("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")]
pub(super) struct UnknownParamKind {
    group: String,
    version: String,
    kind: String,
}

/// Why the parameters of a binding cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParamError {
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    NamespaceOfClusterScoped,
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    #[error("the server cannot decrypt {plural} {name:?}")]
    Undecrypted { plural: String, name: String },
    /// They cannot be had in the version of the policy.
    #[error(transparent)]
    Conversion(Status),
    #[error(transparent)]
    Selector(#[from] FromObjectError),
    #[error("one of name or selector must be provided")]
    NoReference,
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
}

/// The kind of the parameters of a policy (paramKind).
pub(super) fn kind(said: &Value, caches: &WatchCaches) -> Result<Option<KindRef>, UnknownParamKind> {
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
        None => Err(UnknownParamKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: name.to_owned(),
        }),
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
) -> Result<Vec<Option<Value>>, ParamError> {
    let Some(kind) = kind.filter(|_| !reference.is_null()) else {
        return Ok(vec![None]);
    };
    let resource = Resource::of(kind.clone(), caches);
    let said = reference.text("namespace");
    let namespace = match (kind.is_namespaced(), said) {
        (false, "") => "",
        (false, _) => {
            return Err(ParamError::NamespaceOfClusterScoped);
        }
        (true, "") if subject.namespace.is_empty() => {
            return Err(ParamError::NoNamespace);
        }
        (true, "") => &subject.namespace,
        (true, said) => said,
    };
    let read = |object: &CachedObject| {
        if object.undecrypted().is_some() {
            return Err(ParamError::Undecrypted {
                plural: kind.plural.to_string(),
                name: object.name().to_owned(),
            });
        }
        match subject.convert_stored(object.tree(), &resource) {
            Ok(tree) => Ok(Some(tree)),
            Err(status) => Err(ParamError::Conversion(status)),
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
        let selector = label::from_object(reference.get("selector"))?;
        let snapshot = resource.cache.snapshot(Revision::ZERO);
        let prefix = resource.under(namespace);
        snapshot
            .under(&prefix, None)
            .filter(|object| object.undecrypted().is_some() || selector.matches(&object.labels()))
            .map(|object| read(object))
            .collect::<Result<_, _>>()?
    } else {
        return Err(ParamError::NoReference);
    };
    if found.is_empty() && reference.text("parameterNotFoundAction") == "Deny" {
        return Err(ParamError::NotFound);
    }
    Ok(found)
}
