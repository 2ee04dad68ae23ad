//! The ValidatingAdmissionPolicy status controller: type-checks CEL expressions of policies.

use k3_api::{
    admission::{
        GroupVersionKind, MatchedResource, PolicyTypes, declared, declared_custom, type_check, types_to_check,
    },
    custom::Definition,
    kinds::builtin,
    strategy::Tree,
};
use kube::api::ListParams;
use kubecontroller::{
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::{Delta, Informer},
    writer::{ApiWriter, ListPage, ObjectRef, WrittenObject, has_status_code},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::{CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_ADMISSION_POLICIES},
};

const MANAGER: &str = "validatingadmissionpolicy-status";

type Policy = Projection<serde::de::IgnoredAny, PolicyStatus>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyStatus {
    observed_generation: i64,
}

// upstream: pkg/controller/validatingadmissionpolicystatus/controller.go Controller, reconcile
struct ValidatingAdmissionPolicyStatusController {
    writer: ApiWriter,
    /// Reads CRDs with the informers' rights: a policy may match any resource.
    reader: ApiWriter,
    policies: Informer<Policy>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let policies = context.informer::<Policy>(&VALIDATING_ADMISSION_POLICIES);
    let is_new = |delta: &Delta<Policy>| delta.new().is_some_and(|policy| is_unchecked(policy));
    let runner = context
        .controller("validatingadmissionpolicy-status-controller")
        .for_where(&policies, Predicate::new(is_new))
        .reconciler(ValidatingAdmissionPolicyStatusController {
            writer: context.writer.clone(),
            reader: ApiWriter::new(context.informers.client().clone()),
            policies: policies.clone(),
        });
    vec![Box::new(runner)]
}

fn is_unchecked(policy: &Policy) -> bool {
    policy.metadata.generation > policy.status.observed_generation
}

// --- ValidatingAdmissionPolicyStatusController ---

impl Reconciler for ValidatingAdmissionPolicyStatusController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let known = self.policies.store().get(&request.key);
        if !known.is_some_and(|policy| is_unchecked(&policy)) {
            return Ok(Outcome::Done);
        }
        let name = request.key.name();
        let object_ref = ObjectRef::new(&VALIDATING_ADMISSION_POLICIES, "", name);
        let policy: Value = match self.writer.get(object_ref).await {
            Err(error) if has_status_code(&error, 404) => return Ok(Outcome::Done),
            other => other?,
        };
        let types = types(&policy, &self.definitions().await?);
        let applied = apply_configuration(&policy, &types);
        match self
            .writer
            .server_side_apply::<WrittenObject>(object_ref.subresource("status"), MANAGER, &applied)
            .await
        {
            Ok(written) => request.record_write(&self.policies, &written.metadata.resource_version),
            // The policy was deleted; applying to a status does not create it again.
            Err(error) if has_status_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Outcome::Done)
    }
}

impl ValidatingAdmissionPolicyStatusController {
    async fn definitions(&self) -> kube::Result<Vec<Definition>> {
        let page: ListPage<Value> = self
            .reader
            .list_page(&CUSTOM_RESOURCE_DEFINITIONS, "", &ListParams::default())
            .await?;
        let read = page.items.iter().filter_map(|item| Definition::read(item).ok());
        Ok(read.collect())
    }
}

/// The apply configuration of the status.
fn apply_configuration(policy: &Value, types: &PolicyTypes) -> Value {
    let warnings: Vec<_> = type_check(policy, types)
        .into_iter()
        .map(|warning| json!({"fieldRef": warning.field, "warning": warning.text}))
        .collect();
    let checking = if warnings.is_empty() {
        json!({})
    } else {
        json!({"expressionWarnings": warnings})
    };
    json!({
        "apiVersion": VALIDATING_ADMISSION_POLICIES.api_version(), "kind": VALIDATING_ADMISSION_POLICIES.kind,
        "metadata": {"name": policy.at("metadata").at("name")},
        "status": {"observedGeneration": policy.at("metadata").at("generation"), "typeChecking": checking},
    })
}

/// The types that a policy matches.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go CreateContext
fn types(policy: &Value, definitions: &[Definition]) -> PolicyTypes {
    let kind_of = |matched: &MatchedResource| {
        let MatchedResource {
            group,
            version,
            resource,
        } = matched;
        let custom = || {
            let mut definitions = definitions.iter();
            let definition = definitions
                .find(|definition| definition.group == *group && definition.names.plural == *resource)?;
            let is_served = definition.version(version).is_some_and(|version| version.served);
            is_served.then(|| definition.names.kind.clone())
        };
        let built_in = builtin().resource(group, version, resource);
        let kind = built_in.map(|kind| kind.kind.to_string()).or_else(custom)?;
        Some(GroupVersionKind {
            group: group.clone(),
            version: version.clone(),
            kind,
        })
    };
    let decl_of = |group: &str, version: &str, kind: &str| {
        let custom = || {
            let mut definitions = definitions.iter();
            let definition =
                definitions.find(|definition| definition.group == group && definition.names.kind == kind)?;
            declared_custom(definition, version)
        };
        declared(group, version, kind).or_else(custom)
    };
    let objects = types_to_check(policy, kind_of).into_iter().map(|kind| {
        let decl = decl_of(&kind.group, &kind.version, &kind.kind);
        (kind, decl)
    });
    let params = policy.at_path("spec.paramKind");
    let (group, version) = match params.text("apiVersion").split_once('/') {
        Some(both) => both,
        None => ("", params.text("apiVersion")),
    };
    PolicyTypes {
        objects: objects.collect(),
        params: decl_of(group, version, params.text("kind")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus,
    };

    use super::*;
    use crate::testing::{Scenario, TestCluster};

    fn policy(cluster: &TestCluster, name: &str, rule: &Value, expression: &str) {
        cluster.put(
            &VALIDATING_ADMISSION_POLICIES,
            json!({
                "metadata": {"name": name, "generation": 2},
                "spec": {
                    "matchConstraints": {"resourceRules": [rule]},
                    "validations": [{"expression": "true"}, {"expression": expression}],
                },
            }),
        );
    }

    fn status(cluster: &TestCluster, name: &str) -> Option<ValidatingAdmissionPolicyStatus> {
        cluster.api.get::<ValidatingAdmissionPolicy>("", name)?.status
    }

    /// A policy that suits, and two that do not: of a built-in kind and of a custom one.
    const STORY: Scenario = Scenario {
        make,
        setup: |cluster| {
            let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
            cluster.put(
                &CUSTOM_RESOURCE_DEFINITIONS,
                json!({
                    "metadata": {"name": "carts.shop.example"},
                    "spec": {"group": "shop.example", "names": {"kind": "Cart", "plural": "carts"}, "scope": "Namespaced",
                        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
                }),
            );
            let apps = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]});
            let carts = json!({"apiGroups": ["shop.example"], "apiVersions": ["v1"], "resources": ["carts"]});
            policy(cluster, "fine", &apps, "object.spec.replicas < 5");
            policy(cluster, "wrong", &apps, "object.spec.replicas < '5'");
            policy(
                cluster,
                "custom",
                &carts,
                "object.spec.size < 5 && object.metadata.labels.all(l, l != '') && object.spec.color == ''",
            );
        },
        play: |_| {},
        end: |cluster| {
            let mut found = json!({});
            for name in ["fine", "wrong", "custom"] {
                let status = status(cluster, name)?;
                let warnings = status.type_checking?.expression_warnings.unwrap_or_default();
                let warnings = warnings
                    .iter()
                    .map(|warning| json!([warning.field_ref, warning.warning.lines().next()]));
                found[name] = json!([status.observed_generation?, warnings.collect::<Value>()]);
            }
            Some(found)
        },
    };

    #[tokio::test(start_paused = true)]
    async fn reports_type_checking_warnings() {
        let (end, writes) = STORY.run().await;
        let object_ref = "spec.validations[1].expression";
        assert_eq!(
            end,
            json!({
                "fine": [2, []],
                "wrong": [2, [[object_ref, "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_<_' applied to '(int, string)'"]]],
                "custom": [2, [[object_ref, "shop.example/v1, Kind=Cart: ERROR: <input>:1:78: undefined field 'color'"]]],
            })
        );
        assert_eq!(writes, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn reports_warnings_despite_crashes() {
        STORY.survives_crashes().await;
        STORY.survives_copies().await;
    }
}
