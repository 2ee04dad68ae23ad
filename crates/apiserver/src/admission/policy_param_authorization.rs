//! Creating a policy or binding requires permission to read its params: a policy must not reveal what its author may not read.

use std::sync::Arc;

use k3_api::{
    field::{Error, Path},
    kinds::builtin,
    status::{GroupResource, Status},
    strategy::{Tree, User},
};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation, object};
use crate::{
    authz::{AuthorizationAttributes, AuthorizationTarget, Authorizer, ResourceAttributes},
    cache::WatchCaches,
};

const GROUP: &str = "admissionregistration.k8s.io";

pub(super) struct PolicyParamAuthorization(pub Arc<Authorizer>);

/// What must be readable, as authorization names it.
struct ParamResource {
    group: String,
    version: String,
    resource: String,
}

impl AdmissionPlugin for PolicyParamAuthorization {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if attributes.operation == Operation::Delete
            || !attributes.subresource.is_empty()
            || *attributes.resource.kind.group != *GROUP
        {
            return Ok(());
        }
        let plural = attributes.resource.kind.plural.to_string();
        let refused = match plural.as_str() {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => self.check_policy(attributes),
            "validatingadmissionpolicybindings" => {
                self.check_binding(attributes, "validatingadmissionpolicies", caches)
            }
            "mutatingadmissionpolicybindings" => {
                self.check_binding(attributes, "mutatingadmissionpolicies", caches)
            }
            _ => None,
        };
        let Some((field, why)) = refused else {
            return Ok(());
        };
        let kind = &attributes.resource.kind;
        let error = Error::forbidden(&Path::new("spec").child(field), why);
        let name = attributes.object.at("metadata").text("name");
        Err(Status::invalid(
            GroupResource::new(&kind.group, &kind.kind),
            name,
            &[error],
        ))
    }
}

// --- PolicyParamAuthorization ---

impl PolicyParamAuthorization {
    /// What is wrong with the parameters of a policy, and with which field.
    // upstream: pkg/registry/admissionregistration/validatingadmissionpolicy/authz.go authorize
    fn check_policy(&self, attributes: &AdmissionAttributes<'_>) -> Option<(&'static str, String)> {
        let kind = attributes.object.at_path("spec.paramKind");
        let is_same = attributes
            .old
            .is_some_and(|old| old.at_path("spec.paramKind") == kind);
        if kind.is_null() || is_same {
            return None;
        }
        let parameters = ParamResource::of(kind).unwrap_or_else(|known| known);
        let user = &attributes.ctx.user;
        if self.allows(user, "get", &parameters, "*", "*") {
            return None;
        }
        let why = format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            printed(user),
            kind.text("kind"),
            kind.text("apiVersion")
        );
        Some(("paramKind", why))
    }

    /// The same for a binding of a policy of a resource.
    // upstream: pkg/registry/admissionregistration/validatingadmissionpolicybinding/authz.go authorize
    fn check_binding(
        &self,
        attributes: &AdmissionAttributes<'_>,
        policies: &str,
        caches: &WatchCaches,
    ) -> Option<(&'static str, String)> {
        let spec = attributes.object.at("spec");
        let reference = spec.at("paramRef");
        let name = spec.text("policyName");
        let is_same = attributes.old.is_some_and(|old| {
            let old = old.at("spec");
            old.at("paramRef") == reference && old.text("policyName") == name
        });
        if reference.is_null() || is_same {
            return None;
        }
        let policy = object(GROUP, policies, "", name, caches);
        let kind = policy.as_ref().map(|policy| policy.at_path("spec.paramKind"));
        let (parameters, is_found) = match kind.map(ParamResource::of) {
            Some(Ok(found)) => (found, true),
            Some(Err(known)) => (known, kind.is_some_and(Value::is_null)),
            None => (ParamResource::any(), true),
        };
        let user = &attributes.ctx.user;
        let own = reference.text("name");
        let verb = if own.is_empty() { "list" } else { "get" };
        if self.allows(user, verb, &parameters, reference.text("namespace"), own) {
            return None;
        }
        let user = printed(user);
        let everything = format!(
            "to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, \
             versions and resources"
        );
        let why = match kind {
            None => format!("unable to get policy {name} {everything}"),
            Some(kind) if !is_found => {
                let kind = format!("&{{{} {}}}", kind.text("apiVersion"), kind.text("kind"));
                format!("unable to resolve paramKind {kind} {everything}")
            }
            // That the two are the wrong way round for one of the kinds is how clients know it.
            Some(_) if policies.starts_with("mutating") => {
                format!(
                    "user {verb} does not have \"{user}\" permission on the object referenced by paramRef"
                )
            }
            Some(_) => {
                format!(
                    "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
                )
            }
        };
        Some(("paramRef", why))
    }

    fn allows(&self, user: &User, verb: &str, of: &ParamResource, namespace: &str, name: &str) -> bool {
        let object = ResourceAttributes {
            group: &of.group,
            version: &of.version,
            resource: &of.resource,
            namespace,
            name,
            ..ResourceAttributes::default()
        };
        self.0.allows(&AuthorizationAttributes {
            user,
            verb,
            what: AuthorizationTarget::Resource(object),
        })
    }
}

// --- ParamResource ---

impl ParamResource {
    fn any() -> Self {
        let all = || "*".to_owned();
        ParamResource {
            group: all(),
            version: all(),
            resource: all(),
        }
    }

    /// The resource of a kind of parameters; if it is not found, all resources that it may be.
    fn of(kind: &Value) -> Result<Self, Self> {
        if kind.is_null() {
            return Err(Self::any());
        }
        let version = kind.text("apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let known = ParamResource {
            group: group.to_owned(),
            version: version.to_owned(),
            ..Self::any()
        };
        match builtin().kind(group, version, kind.text("kind")) {
            Some(found) => Ok(ParamResource {
                resource: found.plural.to_string(),
                ..known
            }),
            None => Err(known),
        }
    }
}

/// A user as Go shows one.
fn printed(user: &User) -> String {
    let extra = user.extra.iter();
    let extra: Vec<_> = extra
        .map(|(key, values)| format!("{key}:[{}]", values.join(" ")))
        .collect();
    format!(
        "&{{{} {} [{}] map[{}]}}",
        user.name,
        user.uid,
        user.groups.join(" "),
        extra.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn policy(kind: &str) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
            "spec": {"paramKind": {"apiVersion": "v1", "kind": kind}}})
    }

    fn binding(reference: &Value) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": reference}})
    }

    #[tokio::test]
    async fn policy_author_must_read_params() {
        let world = TestCluster::new().await;
        let plugin = PolicyParamAuthorization(world.authorizer());
        assert_eq!(
            world.admit(&plugin, policy("Secret")).unwrap_err(),
            "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.paramKind: Forbidden: user &{tester  \
             [] map[]} must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        );
        assert!(world.update(&plugin, policy("Secret"), &policy("Secret")).is_ok());
        assert!(
            world
                .update(&plugin, policy("Secret"), &policy("ConfigMap"))
                .is_err()
        );
        world
            .let_tester(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]))
            .await;
        assert!(world.admit(&plugin, policy("Secret")).is_ok());
        assert!(world.admit(&plugin, policy("Nothing")).is_err());
    }

    #[tokio::test]
    async fn binding_author_must_read_params() {
        let world = TestCluster::new().await;
        let plugin = PolicyParamAuthorization(world.authorizer());
        let named = binding(&json!({"name": "x", "namespace": "a"}));
        let refused = world.admit(&plugin, named.clone()).unwrap_err();
        let why = "unable to get policy p to determine minimum required permissions and user &{tester  [] map[]} does not have \
                   \"get\" permission for all groups, versions and resources";
        assert!(refused.ends_with(why), "{refused}");
        world.put(policy("Secret")).await;
        let refused = world.admit(&plugin, named.clone()).unwrap_err();
        let why =
            "user &{tester  [] map[]} does not have \"get\" permission on the object referenced by paramRef";
        assert!(refused.ends_with(why), "{refused}");
        world
            .let_tester(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"]}]))
            .await;
        assert!(world.admit(&plugin, named).is_ok());
        assert!(world.admit(&plugin, binding(&json!({"selector": {}}))).is_err());
        assert!(world.admit(&plugin, binding(&Value::Null)).is_ok());
    }
}
