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

use super::{AdmissionPhase, binding::set_condition, created_status, validate_rules};
use crate::{
    admission::Operation,
    http::HttpResponse,
    registry::{
        Registry, RequestContext, Resource,
        body::{self, ExpectedKind},
        create::match_namespace,
        delete::check_preconditions,
        request_context::Warnings,
    },
    request::{DeleteOptions, Query, WriteOptions, WriteVerb},
};

/// After how many seconds to ask again when a budget allows nothing now.
const RETRY: u32 = 10;
/// The condition of a budget that allows something.
const ALLOWED: &str = "DisruptionAllowed";
/// How many pods a budget may have on their way out.
const MOST_DISRUPTED: usize = 2000;

// --- Registry ---

impl Registry {
    /// Evicts the pod that the eviction in the body names.
    // upstream: pkg/registry/core/pod/storage/eviction.go Create
    pub(super) async fn evict(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Create, &ctx.agent)?;
        let subresource = ctx.target.subresource().expect("an eviction is a subresource");
        let expected = ExpectedKind {
            group: "policy",
            version: version(&ctx.body),
            kind: "Eviction",
            ty: &subresource.ty,
        };
        let mut warnings = Warnings::default();
        let mut eviction = body::read(ctx, expected, &options, &mut warnings)?;
        let pods = Resource::of(ctx.target.kind.clone(), &self.caches);
        match_namespace(&mut eviction, &pods, &ctx.target.namespace)?;
        let phase = (Operation::Create, AdmissionPhase::Change);
        let dry_run = options.dry_run;
        self.admit_as(phase, ctx, &mut eviction, dry_run, &mut warnings)
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
        self.admit_as(phase, ctx, &mut eviction, dry_run, &mut warnings)
            .await?;
        let delete = eviction.at("deleteOptions");
        let delete = (!delete.is_null()).then_some(delete);
        let mut delete = DeleteOptions::read(&Query::default(), Some(delete.unwrap_or(&json!({}))))?;
        delete.dry_run |= dry_run;
        self.read_index().await?;
        let key = pods.key(&ctx.target.namespace, &ctx.target.name)?;
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ctx.target.name))?;
        let tree = self.readable(&pods, pod).await?.tree();
        if !is_free(&tree) {
            self.ask_budget(ctx, &tree, delete.dry_run).await?;
        }
        self.mark_and_delete(ctx, &pods, &delete).await?;
        Ok(created_status(ctx, &warnings))
    }

    /// Asks the budget of a pod, and counts the disruption.
    async fn ask_budget(&self, ctx: &RequestContext, pod: &Value, dry_run: bool) -> Result<(), Status> {
        let kind = builtin()
            .kind("policy", "v1", "PodDisruptionBudget")
            .expect("the kind is built in");
        let budgets = Resource::of(kind, &self.caches);
        let snapshot = budgets.cache.snapshot(self.caches.applied());
        let prefix = budgets.under(&ctx.target.namespace);
        // A budget that cannot be read may be the one of the pod: the eviction fails, as when upstream cannot list them.
        let snapshot = self.readable_snapshot(&budgets, snapshot, &prefix).await?;
        if let Some(budget) = snapshot.under(&prefix, None).find(|budget| !budget.is_readable()) {
            let name = budget.name();
            return Err(Status::internal_error(format!(
                "cannot read PodDisruptionBudget {name:?}: stored object is not JSON"
            )));
        }
        let labels = pod.at("metadata").entries("labels");
        let mut found = snapshot
            .under(&prefix, None)
            .filter(|budget| covers(&budget.tree(), labels));
        let Some(budget) = found.next() else {
            return Ok(());
        };
        if found.next().is_some() {
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
        self.modify(
            &budgets,
            &ctx.target.namespace,
            budget.name(),
            dry_run,
            |budget| take(budget, &ctx.target.name, &now),
        )
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
        if !options.dry_run {
            let why = json!({
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            let marked = self
                .modify(pods, &ctx.target.namespace, &ctx.target.name, false, |pod| {
                    check_preconditions(pod, &options, pods)?;
                    set_condition(pod, "DisruptionTarget", &why, ctx);
                    Ok(())
                })
                .await?;
            // The mark itself is no reason to let the pod be.
            if options.resource_version.is_some() {
                let version = marked.at("metadata").text("resourceVersion");
                options.resource_version = Some(version.to_owned());
            }
        }
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ctx.target.name))?;
        self.delete_object(ctx, pods, pod, &options, &mut Warnings::default())
            .await?;
        Ok(())
    }
}

/// The version of an eviction; the older one has the same fields.
fn version(body: &[u8]) -> &'static str {
    match decode::type_of(body) {
        Ok(body_text) if body_text.api_version == "policy/v1beta1" => "v1beta1",
        _ => "v1",
    }
}

/// Whether a pod may be evicted regardless of its budget: it is terminal, pending or terminating.
// upstream: pkg/registry/core/pod/storage/eviction.go canIgnorePDB
fn is_free(pod: &Value) -> bool {
    matches!(pod.at("status").text("phase"), "Succeeded" | "Failed" | "Pending")
        || pod.at("metadata").has("deletionTimestamp")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod.at("status").items("conditions").iter();
    conditions.any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True")
}

fn covers(budget: &Value, labels: &serde_json::Map<String, Value>) -> bool {
    // A selector that is not valid covers no pod.
    // upstream: pkg/registry/core/pod/storage/eviction.go getPodDisruptionBudgets
    label::Selector::from_object(budget.at("spec").get("selector"))
        .is_ok_and(|selector| selector.matches(labels))
}

/// Counts a disruption, if one is allowed.
// upstream: pkg/registry/core/pod/storage/eviction.go checkAndDecrement
fn take(budget: &mut Value, pod: &str, now: &str) -> Result<(), Status> {
    let name = budget.at("metadata").text("name").to_owned();
    let forbidden = |why: &str, cause: &str| {
        let status = Status::forbidden(GroupResource::new("policy", "poddisruptionbudget"), &name, why);
        let not_now = format!("The disruption budget {name} does not allow evicting pods currently: {cause}");
        Err(because(status, not_now))
    };
    let status = budget.at("status");
    let count = |name: &str| status.int(name).unwrap_or_default();
    if count("observedGeneration") < budget.at("metadata").int("generation").unwrap_or_default() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(why, RETRY));
    }
    if count("disruptionsAllowed") < 0 {
        let why = "pdb disruptions allowed is negative";
        return forbidden(why, why);
    }
    if status.entries("disruptedPods").len() > MOST_DISRUPTED {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        );
    }
    if count("disruptionsAllowed") == 0 {
        // No retry time is known.
        return Err(refused(not_now(&name, status), 0));
    }
    let left = count("disruptionsAllowed") - 1;
    let status = budget.ensure_object("status");
    status.set("disruptionsAllowed", left);
    status.ensure_object("disruptedPods").set(pod, now);
    if left == 0 {
        disallow(status, now);
    }
    Ok(())
}

/// Why a budget allows nothing at the moment.
fn not_now(name: &str, status: &Value) -> String {
    let count = |name: &str| status.int(name).unwrap_or_default();
    let mut conditions = status.items("conditions").iter();
    let body_text = conditions
        .find(|condition| condition.text("type") == ALLOWED)
        .filter(|condition| condition.text("status") == "False" && !condition.text("message").is_empty());
    let begin = format!("The disruption budget {name}");
    let healthy = count("currentHealthy");
    let needed = count("desiredHealthy");
    match body_text {
        // What was counted before it failed is not to be trusted.
        Some(condition) if condition.text("reason") == "SyncFailed" => format!(
            "{begin} does not allow evicting pods currently because it failed sync: {}",
            condition.text("message")
        ),
        _ if healthy <= needed => format!("{begin} needs {needed} healthy pods and has {healthy} currently"),
        Some(condition) => format!(
            "{begin} does not allow evicting pods currently ({}): {}",
            condition.text("reason"),
            condition.text("message")
        ),
        None => format!("{begin} does not allow evicting pods currently"),
    }
}

/// Sets the `DisruptionAllowed` condition to false.
fn disallow(status: &mut Value, now: &str) {
    let mut condition = json!({
        "type": ALLOWED,
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
    match conditions.iter_mut().find(|other| other.text("type") == ALLOWED) {
        Some(other) => {
            if other.text("status") == "False" {
                condition.copy_from("lastTransitionTime", other);
            }
            *other = condition;
        }
        None => conditions.push(condition),
    }
}

fn refused(why: String, retry: u32) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    because(Status::too_many_requests(message, retry), why)
}

/// A refusal with what the budget has to do with it.
fn because(mut status: Status, why: String) -> Status {
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause {
        reason: "DisruptionBudget".into(),
        message: why,
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
        let refused = take(&mut budget(status), "p", "now").expect_err("it allows nothing");
        let details = refused.details.expect("it has a reason");
        let cause = details.causes.into_iter().next().expect("it has a reason");
        (refused.code, details.retry_after_seconds, cause.message)
    }

    #[test]
    fn budget_denial_has_reason() {
        let condition =
            |reason: &str| json!([{"type": ALLOWED, "status": "False", "reason": reason, "message": "m"}]);
        let spent = |conditions: Value| json!({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 1, "conditions": conditions});
        for (status, wanted) in [
            (
                json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2}),
                "The disruption budget b needs 2 healthy pods and has 1 currently",
            ),
            (
                spent(condition("SyncFailed")),
                "The disruption budget b does not allow evicting pods currently because it failed sync: m",
            ),
            (
                spent(condition("Other")),
                "The disruption budget b does not allow evicting pods currently (Other): m",
            ),
            (
                spent(json!([])),
                "The disruption budget b does not allow evicting pods currently",
            ),
        ] {
            assert_eq!(cause(&status), (429, 0, wanted.to_owned()));
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
        take(&mut budget, "p", "now").expect("one is left");
        assert_eq!(
            budget.at("status"),
            &json!({
                "disruptionsAllowed": 0,
                "observedGeneration": 3,
                "disruptedPods": {"p": "now"},
                "conditions": [{
                    "type": ALLOWED, "status": "False", "observedGeneration": 3, "lastTransitionTime": "now",
                    "reason": "InsufficientPods", "message": "",
                }],
            })
        );
    }
}
