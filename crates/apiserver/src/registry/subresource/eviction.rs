//! A pod goes, if its disruption budget allows.

use std::sync::Arc;

use k3_api::{
    decode,
    kinds::builtin,
    rules::{Circumstances, Tree, TreeMut},
    selector::label,
    status::{Cause, Grouped, Status},
};
use serde_json::{Value, json};

use super::{binding::set_condition, done, judge};
use crate::{
    http::Answer,
    registry::{
        Ask, Registry, Resource,
        ask::Warnings,
        body::{self, Expected},
    },
    request::{DeleteOptions, Query, WriteOptions, Writing},
};

/// After how many seconds to ask again when a budget allows nothing now.
const RETRY: u32 = 10;
/// How many pods a budget may have on their way out.
const MOST_DISRUPTED: usize = 2000;

// --- Registry ---

impl Registry {
    /// Evicts the pod that the eviction in the body names.
    pub(super) async fn evict(&self, ask: &Ask) -> Result<Answer, Status> {
        let options = WriteOptions::read(&ask.query, Writing::Create, &ask.agent)?;
        let subresource = ask.target.subresource().expect("an eviction is a subresource");
        let expected = Expected {
            group: "policy",
            version: version(&ask.body),
            kind: "Eviction",
            ty: &subresource.ty,
        };
        let mut warnings = Warnings::default();
        let mut eviction = body::read(ask, expected, &options, &mut warnings)?;
        self.admit_part(ask, &mut eviction, options.dry_run, &mut warnings)
            .await?;
        if eviction.at("metadata").text("name") != ask.target.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        if let Some(rules) = k3_api::kinds::rules_of_part(subresource) {
            let at = Circumstances {
                kind: &ask.target.kind,
                now: ask.now,
                user: &ask.user,
            };
            judge(rules, &eviction, &at, Grouped::new("policy", "Eviction"))?;
        }
        let delete = eviction.at("deleteOptions");
        let delete = (!delete.is_null()).then_some(delete);
        let mut delete = DeleteOptions::read(&Query::default(), Some(delete.unwrap_or(&json!({}))))?;
        delete.dry_run |= options.dry_run;
        self.fresh().await?;
        let pods = Resource::of(ask.target.kind.clone(), &self.caches);
        let key = pods.key(&ask.target.namespace, &ask.target.name)?;
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ask.target.name))?;
        let tree = pod.tree();
        if !is_free(&tree) {
            self.ask_budget(ask, &tree, delete.dry_run).await?;
        }
        self.mark_and_delete(ask, &pods, &delete).await?;
        Ok(done(ask, 201))
    }

    /// Asks the budget of a pod, and counts the disruption.
    async fn ask_budget(&self, ask: &Ask, pod: &Value, dry_run: bool) -> Result<(), Status> {
        let kind = builtin()
            .kind("policy", "v1", "PodDisruptionBudget")
            .expect("the kind is built in");
        let budgets = Resource::of(kind, &self.caches);
        let snapshot = budgets.cache.snapshot(self.caches.applied());
        let prefix = budgets.under(&ask.target.namespace);
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
        let (budget, tree) = (Arc::clone(budget), budget.tree());
        if !is_ready(pod) {
            let status = tree.at("status");
            let count = |name: &str| status.int(name).unwrap_or_default();
            let healthy = count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy");
            // A pod that is not ready counts for nothing: taking it disturbs nobody.
            if tree.at("spec").text("unhealthyPodEvictionPolicy") == "AlwaysAllow" || healthy {
                return Ok(());
            }
        }
        let now = ask.now.truncated().to_string();
        self.modify(
            &budgets,
            &ask.target.namespace,
            budget.name(),
            dry_run,
            |budget| take(budget, &ask.target.name, &now),
        )
        .await?;
        Ok(())
    }

    /// Says in the pod's status why it goes, and deletes it.
    async fn mark_and_delete(
        &self,
        ask: &Ask,
        pods: &Resource,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let key = pods.key(&ask.target.namespace, &ask.target.name)?;
        if !options.dry_run && options.resource_version.is_none() {
            let why = json!({
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            let wanted = options.uid.as_deref();
            self.modify(pods, &ask.target.namespace, &ask.target.name, false, |pod| {
                check_uid(pod, wanted)?;
                set_condition(pod, "DisruptionTarget", &why, ask);
                Ok(())
            })
            .await?;
        }
        let pod = pods
            .cache
            .get(&key)
            .ok_or_else(|| pods.not_found(&ask.target.name))?;
        self.delete_object(ask, pods, pod, options, &mut Warnings::default())
            .await?;
        Ok(())
    }
}

fn check_uid(pod: &Value, wanted: Option<&str>) -> Result<(), Status> {
    let (name, uid) = (pod.at("metadata").text("name"), pod.at("metadata").text("uid"));
    match wanted.filter(|wanted| !wanted.is_empty() && *wanted != uid) {
        None => Ok(()),
        Some(wanted) => Err(Status::conflict(
            Grouped::new("", "Pod"),
            name,
            format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been \
                 deleted and then recreated"
            ),
        )),
    }
}

/// The version an eviction says it is of; the older one is the same.
fn version(body: &[u8]) -> &'static str {
    match decode::type_of(body) {
        Ok(said) if said.api_version == "policy/v1beta1" => "v1beta1",
        _ => "v1",
    }
}

/// Whether a pod may go whatever its budget says: it has ended, never ran, or is going already.
fn is_free(pod: &Value) -> bool {
    matches!(pod.at("status").text("phase"), "Succeeded" | "Failed" | "Pending")
        || pod.at("metadata").has("deletionTimestamp")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod.at("status").items("conditions").iter();
    conditions.any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True")
}

fn covers(budget: &Value, labels: &serde_json::Map<String, Value>) -> bool {
    struct Map<'m>(&'m serde_json::Map<String, Value>);
    impl label::Labels for Map<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.as_str()
        }
    }
    label::Selector::from_object(budget.at("spec").get("selector"))
        .is_ok_and(|selector| selector.matches(&Map(labels)))
}

/// Counts a disruption, if one is allowed.
fn take(budget: &mut Value, pod: &str, now: &str) -> Result<(), Status> {
    let name = budget.at("metadata").text("name").to_owned();
    let forbidden =
        |why: String| Status::forbidden(Grouped::new("policy", "poddisruptionbudgets"), &name, why);
    let status = budget.at("status");
    let count = |name: &str| status.int(name).unwrap_or_default();
    if count("observedGeneration") < budget.at("metadata").int("generation").unwrap_or_default() {
        return Err(refused(format!(
            "The disruption budget {name} is still being processed by the server."
        )));
    }
    if count("disruptionsAllowed") < 0 {
        return Err(forbidden("pdb disruptions allowed is negative".to_owned()));
    }
    if status.entries("disruptedPods").len() > MOST_DISRUPTED {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller".to_owned(),
        ));
    }
    if count("disruptionsAllowed") == 0 {
        return Err(refused(format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        )));
    }
    let left = count("disruptionsAllowed") - 1;
    let status = budget.make("status");
    status.set("disruptionsAllowed", left);
    status.make("disruptedPods").set(pod, now);
    if left == 0 {
        disallow(status, now);
    }
    Ok(())
}

/// Says in the conditions of a budget that it allows nothing any more.
fn disallow(status: &mut Value, now: &str) {
    for condition in status.items_mut("conditions") {
        if condition.text("type") == "DisruptionAllowed" && condition.text("status") == "True" {
            condition.set("status", "False");
            condition.set("reason", "InsufficientPods");
            condition.set("lastTransitionTime", now);
        }
    }
}

fn refused(why: String) -> Status {
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        RETRY,
    );
    let details = status.details.get_or_insert_default();
    details.causes.push(Cause {
        reason: "DisruptionBudget".into(),
        message: why,
        field: String::new(),
    });
    status
}
