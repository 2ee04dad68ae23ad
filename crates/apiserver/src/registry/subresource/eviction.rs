//! Eviction: deletes a pod if its `PodDisruptionBudget` allows.

use std::sync::Arc;

use k3_api::{
    decode,
    kinds::builtin,
    selector::label,
    status::{GroupResource, Status, StatusCause},
    strategy::{StrategyContext, Tree, TreeMut},
};
use serde_json::{Value, json};

use super::{binding::set_condition, created_status, validate_rules};
use crate::{
    admission::Operation,
    http::HttpResponse,
    registry::{
        Registry, RequestContext, Resource,
        admission::AdmissionPhase,
        body::{self, ExpectedKind},
        create::match_namespace,
        decryption::{readable, readable_snapshot},
        delete::check_preconditions,
        freshness::read_index,
        pending_write::PendingWrite,
        request_context::Warnings,
    },
    request::{CommitMode, DeleteOptions, Query, WriteOptions, WriteVerb},
};

/// The `Retry-After` of a denial while the disruption controller has not processed the budget yet, in seconds.
const RETRY_AFTER_SECONDS: u32 = 10;
/// The condition type of a budget whose `status.disruptionsAllowed` is positive.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// The most entries in `status.disruptedPods`: evictions that the disruption controller has not confirmed yet. Upstream's
/// `MaxDisruptedPodSize`.
const MAX_DISRUPTED_POD_SIZE: usize = 2000;

// --- Registry ---

impl Registry {
    /// Evicts the pod that the eviction in the body names.
    // upstream: pkg/registry/core/pod/storage/eviction.go EvictionREST, Create
    pub(crate) async fn evict(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Create, &ctx.agent)?;
        let subresource = ctx.target.subresource().expect("an eviction is a subresource");
        let expected = ExpectedKind {
            group: "policy",
            version: eviction_version(&ctx.body),
            kind: "Eviction",
            ty: &subresource.ty,
        };
        let mut warnings = Warnings::default();
        let mut eviction = body::read(ctx, expected, &options, &mut warnings)?;
        let pods = Resource::of(ctx.target.kind.clone(), &self.caches);
        match_namespace(&mut eviction, &pods, &ctx.target.namespace)?;
        let phase = (Operation::Create, AdmissionPhase::Change);
        self.admission
            .admit_as(phase, ctx, &mut eviction, options.mode, &mut warnings)
            .await?;
        if eviction.at("metadata").text("name") != ctx.target.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        if let Some(rules) = k3_api::kinds::strategy_of_subresource(subresource) {
            let at = StrategyContext {
                kind: &ctx.target.kind,
                now: ctx.now,
                user: &ctx.user,
            };
            let subject_name = (GroupResource::new("policy", "Eviction"), ctx.target.name.as_str());
            validate_rules(rules, &eviction, &at, subject_name)?;
        }
        let phase = (Operation::Create, AdmissionPhase::Validate);
        self.admission
            .admit_as(phase, ctx, &mut eviction, options.mode, &mut warnings)
            .await?;
        let delete = eviction.at("deleteOptions");
        let delete = (!delete.is_null()).then_some(delete);
        let mut delete = DeleteOptions::read(&Query::default(), Some(delete.unwrap_or(&json!({}))))?;
        if options.mode == CommitMode::DryRun {
            delete.mode = CommitMode::DryRun;
        }
        read_index(&self.caches).await?;
        let key = pods.key(&ctx.target.namespace, &ctx.target.name)?;
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ctx.target.name))?;
        let tree = readable(&self.caches, &pods, pod).await?.tree();
        if !can_ignore_pdb(&tree) {
            self.check_and_decrement_budget(ctx, &tree, delete.mode).await?;
        }
        self.mark_and_delete(ctx, &pods, &delete).await?;
        Ok(created_status(ctx, &warnings))
    }

    /// Finds the `PodDisruptionBudget` that selects the pod and decrements its `status.disruptionsAllowed`. A pod that no budget
    /// selects may be evicted.
    async fn check_and_decrement_budget(
        &self,
        ctx: &RequestContext,
        pod: &Value,
        mode: CommitMode,
    ) -> Result<(), Status> {
        let kind = builtin()
            .kind("policy", "v1", "PodDisruptionBudget")
            .expect("the kind is built in");
        let budgets = Resource::of(kind, &self.caches);
        let snapshot = budgets.cache.snapshot(self.caches.applied());
        let prefix = budgets.under(&ctx.target.namespace);
        // A budget that cannot be read may be the one of the pod: the eviction fails, as when upstream cannot list them.
        let snapshot = readable_snapshot(&self.caches, &budgets, snapshot, &prefix).await?;
        if let Some(budget) = snapshot.under(&prefix, None).find(|budget| !budget.is_readable()) {
            let name = budget.name();
            return Err(Status::internal_error(format!(
                "cannot read PodDisruptionBudget {name:?}: stored object is not JSON"
            )));
        }
        let labels = pod.at("metadata").entries("labels");
        let mut matching_budgets = snapshot
            .under(&prefix, None)
            .filter(|budget| selects_labels(&budget.tree(), labels));
        let Some(budget) = matching_budgets.next() else {
            return Ok(());
        };
        if matching_budgets.next().is_some() {
            return Err(Status::unknown(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let tree = budget.tree();
        let budget = Arc::clone(budget);
        if !is_ready(pod) {
            let status = tree.at("status");
            let count = |name: &str| status.int(name).unwrap_or_default();
            let healthy = count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy");
            // An unready pod is not counted as healthy: evicting it disrupts nothing.
            if tree.at("spec").text("unhealthyPodEvictionPolicy") == "AlwaysAllow" || healthy {
                return Ok(());
            }
        }
        let now = ctx.now.truncated().to_string();
        self.modify(&budgets, &ctx.target.namespace, budget.name(), mode, |budget| {
            check_and_decrement(budget, &ctx.target.name, &now)
        })
        .await?;
        Ok(())
    }

    /// Sets the `DisruptionTarget` condition and deletes the pod.
    async fn mark_and_delete(
        &self,
        ctx: &RequestContext,
        pods: &Resource,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let key = pods.key(&ctx.target.namespace, &ctx.target.name)?;
        let mut options = options.clone();
        if options.mode == CommitMode::Commit {
            let condition = json!({
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            let pod_with_condition = self
                .modify(
                    pods,
                    &ctx.target.namespace,
                    &ctx.target.name,
                    CommitMode::Commit,
                    |pod| {
                        check_preconditions(pod, &options, pods)?;
                        set_condition(pod, "DisruptionTarget", &condition, ctx);
                        Ok(())
                    },
                )
                .await?;
            // The condition changed the resource version: without this the caller's precondition would always fail.
            if options.resource_version.is_some() {
                let pod = pod_with_condition.into_tree(pods);
                let version = pod.at("metadata").text("resourceVersion");
                options.resource_version = Some(version.to_owned());
            }
        }
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ctx.target.name))?;
        let mut write = PendingWrite::new(ctx, pods, &options);
        self.delete_object(&mut write, pod).await?;
        Ok(())
    }
}

/// The version of the `Eviction` in the body. `v1beta1` has the same fields as `v1`.
fn eviction_version(body: &[u8]) -> &'static str {
    match decode::type_of(body) {
        Ok(type_meta) if type_meta.api_version == "policy/v1beta1" => "v1beta1",
        _ => "v1",
    }
}

/// Whether a pod may be evicted regardless of its budget: it is terminal, pending or terminating.
// upstream: pkg/registry/core/pod/storage/eviction.go canIgnorePDB
fn can_ignore_pdb(pod: &Value) -> bool {
    matches!(pod.at("status").text("phase"), "Succeeded" | "Failed" | "Pending")
        || pod.at("metadata").has("deletionTimestamp")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod.at("status").items("conditions").iter();
    conditions.any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True")
}

fn selects_labels(budget: &Value, labels: &serde_json::Map<String, Value>) -> bool {
    // A selector that is not valid covers no pod.
    // upstream: pkg/registry/core/pod/storage/eviction.go getPodDisruptionBudgets
    label::from_object(budget.at("spec").get("selector")).is_ok_and(|selector| selector.matches(labels))
}

/// Decrements `status.disruptionsAllowed` and records the pod in `status.disruptedPods`, or returns why that is not allowed.
// upstream: pkg/registry/core/pod/storage/eviction.go checkAndDecrement
fn check_and_decrement(budget: &mut Value, pod: &str, now: &str) -> Result<(), Status> {
    let name = budget.at("metadata").text("name").to_owned();
    let forbidden = |message: &str, cause: &str| {
        let status = Status::forbidden(
            GroupResource::new("policy", "poddisruptionbudget"),
            &name,
            message,
        );
        let cause = format!("The disruption budget {name} does not allow evicting pods currently: {cause}");
        Err(with_disruption_budget_cause(status, cause))
    };
    let status = budget.at("status");
    let count = |name: &str| status.int(name).unwrap_or_default();
    if count("observedGeneration") < budget.at("metadata").int("generation").unwrap_or_default() {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many_requests(cause, RETRY_AFTER_SECONDS));
    }
    if count("disruptionsAllowed") < 0 {
        let message = "pdb disruptions allowed is negative";
        return forbidden(message, message);
    }
    if status.entries("disruptedPods").len() > MAX_DISRUPTED_POD_SIZE {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        );
    }
    if count("disruptionsAllowed") == 0 {
        // No retry time is known: the budget allows evictions again when another pod becomes ready.
        return Err(too_many_requests(denial_cause(&name, status), 0));
    }
    let remaining = count("disruptionsAllowed") - 1;
    let status = budget.ensure_object("status");
    status.set("disruptionsAllowed", remaining);
    status.ensure_object("disruptedPods").set(pod, now);
    if remaining == 0 {
        set_disruption_not_allowed(status, now);
    }
    Ok(())
}

/// Describes why a budget allows no disruption now.
// upstream: pkg/registry/core/pod/storage/eviction.go createTooManyRequestsError
fn denial_cause(name: &str, status: &Value) -> String {
    let count = |name: &str| status.int(name).unwrap_or_default();
    let mut conditions = status.items("conditions").iter();
    let not_allowed = conditions
        .find(|condition| condition.text("type") == DISRUPTION_ALLOWED)
        .filter(|condition| condition.text("status") == "False" && !condition.text("message").is_empty());
    let subject = format!("The disruption budget {name}");
    let healthy = count("currentHealthy");
    let needed = count("desiredHealthy");
    match not_allowed {
        // After a failed sync the counts of the status are out of date.
        Some(condition) if condition.text("reason") == "SyncFailed" => format!(
            "{subject} does not allow evicting pods currently because it failed sync: {}",
            condition.text("message")
        ),
        _ if healthy <= needed => {
            format!("{subject} needs {needed} healthy pods and has {healthy} currently")
        }
        Some(condition) => format!(
            "{subject} does not allow evicting pods currently ({}): {}",
            condition.text("reason"),
            condition.text("message")
        ),
        None => format!("{subject} does not allow evicting pods currently"),
    }
}

/// Sets the `DisruptionAllowed` condition to false.
fn set_disruption_not_allowed(status: &mut Value, now: &str) {
    let mut condition = json!({
        "type": DISRUPTION_ALLOWED,
        "status": "False",
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    });
    if let Some(generation) = status.int("observedGeneration") {
        condition.set("observedGeneration", generation);
    }
    status.set_default("conditions", json!([]));
    let Some(Value::Array(conditions)) = status.at_mut("conditions") else {
        return;
    };
    match conditions
        .iter_mut()
        .find(|other| other.text("type") == DISRUPTION_ALLOWED)
    {
        Some(other) => {
            if other.text("status") == "False" {
                condition.copy_from("lastTransitionTime", other);
            }
            *other = condition;
        }
        None => conditions.push(condition),
    }
}

fn too_many_requests(cause: String, retry_after_seconds: u32) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    with_disruption_budget_cause(Status::too_many_requests(message, retry_after_seconds), cause)
}

fn with_disruption_budget_cause(mut status: Status, message: String) -> Status {
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause {
        reason: "DisruptionBudget".into(),
        message,
        field: String::new(),
    });
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: &Value) -> Value {
        json!({"metadata": {"name": "b"}, "status": status})
    }

    fn cause(status: &Value) -> (u16, u32, String) {
        let denial =
            check_and_decrement(&mut budget(status), "p", "now").expect_err("the budget allows nothing");
        let details = denial.details.expect("a denial has details");
        let cause = details.causes.into_iter().next().expect("a denial has a cause");
        (denial.code, details.retry_after_seconds, cause.message)
    }

    #[test]
    fn budget_denial_has_reason() {
        let condition = |reason: &str| json!([{"type": DISRUPTION_ALLOWED, "status": "False", "reason": reason, "message": "m"}]);
        let exhausted = |conditions: Value| json!({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 1, "conditions": conditions});
        for (status, expected) in [
            (
                json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2}),
                "The disruption budget b needs 2 healthy pods and has 1 currently",
            ),
            (
                exhausted(condition("SyncFailed")),
                "The disruption budget b does not allow evicting pods currently because it failed sync: m",
            ),
            (
                exhausted(condition("Other")),
                "The disruption budget b does not allow evicting pods currently (Other): m",
            ),
            (
                exhausted(json!([])),
                "The disruption budget b does not allow evicting pods currently",
            ),
        ] {
            assert_eq!(cause(&status), (429, 0, expected.to_owned()));
        }
        let negative = "The disruption budget b does not allow evicting pods currently: pdb disruptions allowed is negative";
        assert_eq!(
            cause(&json!({"disruptionsAllowed": -1})),
            (403, 0, negative.to_owned())
        );
    }

    #[test]
    fn last_disruption_sets_condition_false() {
        let mut budget = budget(&json!({"disruptionsAllowed": 1, "observedGeneration": 3}));
        check_and_decrement(&mut budget, "p", "now").expect("one is left");
        assert_eq!(
            budget.at("status"),
            &json!({
                "disruptionsAllowed": 0,
                "observedGeneration": 3,
                "disruptedPods": {"p": "now"},
                "conditions": [{
                    "type": DISRUPTION_ALLOWED, "status": "False", "observedGeneration": 3, "lastTransitionTime": "now",
                    "reason": "InsufficientPods", "message": "",
                }],
            })
        );
    }
}
