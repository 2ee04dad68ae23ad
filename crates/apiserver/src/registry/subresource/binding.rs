//! The `binding` subresource: assigns a pod to a node.

use k3_api::{
    field,
    status::{GroupResource, Status},
    strategy::{self, StrategyContext, Tree, TreeMut},
};
use serde_json::{Value, json};

use super::created_status;
use crate::{
    admission::Operation,
    http::HttpResponse,
    registry::{
        Registry, RequestContext, Resource,
        admission::AdmissionPhase,
        body::{self, ExpectedKind},
        create::match_namespace,
        request_context::Warnings,
        update::precondition_failed,
    },
    request::{WriteOptions, WriteVerb},
};
use k3_api::kinds::builtin;

// --- Registry ---

impl Registry {
    /// Assigns the pod that the binding in the body names to a node.
    // upstream: pkg/registry/core/pod/storage/storage.go Create, assignPod; BindingREST
    pub(crate) async fn bind(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Create, &ctx.agent)?;
        let kind = builtin().kind("", "v1", "Binding").expect("the kind is built in");
        let mut warnings = Warnings::default();
        let mut binding = body::read(ctx, ExpectedKind::of(kind), &options, &mut warnings)?;
        let pods = Resource::of(
            builtin().kind("", "v1", "Pod").expect("the kind is built in"),
            &self.caches,
        );
        match_namespace(&mut binding, &pods, &ctx.target.namespace)?;
        let is_part = !ctx.target.name.is_empty();
        if !is_part {
            // Only under a pod does a binding say which one of its name is meant.
            binding.ensure_object("metadata").remove("uid");
        }
        let phase = (Operation::Create, AdmissionPhase::Change);
        self.admission
            .admit_as(phase, ctx, &mut binding, options.mode, &mut warnings)
            .await?;
        let name = binding.at("metadata").text("name").to_owned();
        if is_part && name != ctx.target.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let at = StrategyContext {
            kind,
            now: ctx.now,
            user: &ctx.user,
        };
        let mut errors = strategy::ErrorList::new();
        strategy::for_kind(kind).validate(&binding, &at, &mut errors);
        if let Some(text) = field::aggregate(&errors) {
            return Err(Status::unknown(text));
        }
        let phase = (Operation::Create, AdmissionPhase::Validate);
        self.admission
            .admit_as(phase, ctx, &mut binding, options.mode, &mut warnings)
            .await?;
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        self.modify(&pods, &ctx.target.namespace, &name, options.mode, |pod| {
            check(pod, &binding, &pods)?;
            assign(pod, &binding, &name, ctx)
        })
        .await?;
        Ok(created_status(ctx, &warnings))
    }
}

/// A binding may say which pod of a name it means, and which state of it.
fn check(pod: &Value, binding: &Value, pods: &Resource) -> Result<(), Status> {
    let there = pod.at("metadata");
    let meant = binding.at("metadata");
    for (what, field) in [("UID", "uid"), ("ResourceVersion", "resourceVersion")] {
        let wanted = meant.text(field);
        let found = there.text(field);
        if !wanted.is_empty() && wanted != found {
            let object = (there.text("namespace"), there.text("name"));
            return Err(precondition_failed(pods, object, what, wanted, found));
        }
    }
    Ok(())
}

// upstream: pkg/registry/core/pod/storage/storage.go setPodNodeAndMetadata
fn assign(pod: &mut Value, binding: &Value, name: &str, ctx: &RequestContext) -> Result<(), Status> {
    let conflict = |why: String| Status::conflict(GroupResource::new("", "pods/binding"), name, why);
    if pod.at("metadata").has("deletionTimestamp") {
        return Err(conflict(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    let assigned = pod.at("spec").text("nodeName");
    if !assigned.is_empty() {
        return Err(conflict(format!(
            "pod {name} is already assigned to node {}",
            k3_api::go::quote(assigned)
        )));
    }
    if !pod.at("spec").items("schedulingGates").is_empty() {
        return Err(conflict(format!(
            "pod {name} has non-empty .spec.schedulingGates"
        )));
    }
    pod.ensure_object("spec")
        .set("nodeName", binding.at("target").text("name"));
    // Where it was to go is no longer of interest.
    pod.ensure_object("status").remove("nominatedNodeName");
    for map in ["annotations", "labels"] {
        for (key, value) in binding.at("metadata").entries(map) {
            pod.ensure_object("metadata")
                .ensure_object(map)
                .set(key, value.clone());
        }
    }
    set_condition(pod, "PodScheduled", &json!({"status": "True"}), ctx);
    Ok(())
}

/// Sets a condition of a pod; the time changes only with the status.
pub(super) fn set_condition(pod: &mut Value, kind: &str, with: &Value, ctx: &RequestContext) {
    let now = ctx.now.truncated().to_string();
    let status = pod.ensure_object("status");
    status.set_default("conditions", json!([]));
    let Some(Value::Array(conditions)) = status.at_mut("conditions") else {
        return;
    };
    let position = conditions
        .iter()
        .position(|condition| condition.text("type") == kind);
    let mut condition = json!({"type": kind, "lastProbeTime": null, "lastTransitionTime": now});
    if let Some(position) = position
        && conditions[position].text("status") == with.text("status")
    {
        condition.copy_from("lastTransitionTime", &conditions[position]);
    }
    for (name, value) in with.as_object().into_iter().flatten() {
        condition.set(name, value.clone());
    }
    match position {
        Some(position) => conditions[position] = condition,
        None => conditions.push(condition),
    }
}
