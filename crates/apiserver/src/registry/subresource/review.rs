//! Review kinds (SubjectAccessReview, TokenReview, SelfSubjectReview, ...): evaluated and returned, never stored.

use std::sync::Arc;

use k3_api::{
    kinds::token_review,
    selector::{
        field::{self, Operator, Term},
        label,
    },
    status::Status,
    strategy::{self, StrategyContext, Tree, TreeMut, User},
};
use serde_json::{Value, json};

use crate::{
    authn::Authenticator,
    authz::{AuthorizationAttributes, AuthorizationTarget, Authorizer, Decision, ResourceAttributes},
    cache::WatchCaches,
    http::HttpResponse,
    registry::{
        RequestContext, Resource,
        body::{self, ExpectedKind},
        create::match_namespace,
        managed_fields,
        request_context::Warnings,
        response,
    },
    request::{WriteOptions, WriteVerb},
};

/// Evaluates reviews.
pub(crate) struct ReviewStorage {
    caches: Arc<WatchCaches>,
    authorizer: Arc<Authorizer>,
    pub(super) authenticator: Arc<Authenticator>,
}

// --- ReviewStorage ---

impl ReviewStorage {
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        authorizer: Arc<Authorizer>,
        authenticator: Arc<Authenticator>,
    ) -> Self {
        ReviewStorage {
            caches,
            authorizer,
            authenticator,
        }
    }

    /// Answers the question in the body.
    // upstream: pkg/registry/authorization/subjectaccessreview/rest.go Create
    pub(crate) async fn create(&self, ctx: &RequestContext) -> Result<HttpResponse, Status> {
        let options = WriteOptions::read(&ctx.query, WriteVerb::Create, &ctx.agent)?;
        let mut warnings = Warnings::default();
        let kind = &ctx.target.kind;
        let mut object = body::read(ctx, ExpectedKind::of(kind), &options, &mut warnings)?;
        let resource = Resource::of(kind.clone(), &self.caches);
        match_namespace(&mut object, &resource, &ctx.target.namespace)?;
        resource.strategy().set_defaults(&mut object);
        let at = StrategyContext {
            kind,
            now: ctx.now,
            user: &ctx.user,
        };
        managed_fields::with_subject(kind, resource.strategy(), "", None, |subject| {
            subject.track(None, &mut object, &options.manager, ctx.now);
        });
        strategy::review(&object, &at)?;
        match &*kind.kind {
            "TokenReview" => {
                token_review::validate_token_review(&object).map_or(Ok(()), Err)?;
                let status = self.token_status(object.at("spec"), ctx.now).await;
                object.set("status", status);
            }
            "SelfSubjectReview" => {
                object.set("status", json!({"userInfo": user_info(&ctx.user)}));
                object
                    .ensure_object("metadata")
                    .set("creationTimestamp", ctx.now.truncated().to_string());
            }
            "SelfSubjectRulesReview" => object = self.list_rules(&object, ctx)?,
            _ => self.review_access(&mut object, ctx),
        }
        let object = response::normal(&object, &kind.ty);
        let mut answer = response::tree(201, object, ctx, &resource)?;
        response::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// Evaluates an access review.
    // upstream: pkg/registry/authorization/util/helpers.go AuthorizationAttributesFrom
    fn review_access(&self, object: &mut Value, ctx: &RequestContext) {
        let spec = object.at("spec");
        let is_own = ctx.target.kind.kind.starts_with("Self");
        let user = if is_own { ctx.user.clone() } else { user_in(spec) };
        let resource = spec.at("resourceAttributes");
        let other = spec.at("nonResourceAttributes");
        let selected = SelectorAttributes::read(resource);
        let action = if resource.is_null() {
            AuthorizationAttributes {
                user: &user,
                verb: other.text("verb"),
                what: AuthorizationTarget::Path(other.text("path")),
            }
        } else {
            let version = resource.text("version");
            AuthorizationAttributes {
                user: &user,
                verb: resource.text("verb"),
                what: AuthorizationTarget::Resource(ResourceAttributes {
                    group: resource.text("group"),
                    version: if version.is_empty() { "*" } else { version },
                    resource: resource.text("resource"),
                    subresource: resource.text("subresource"),
                    namespace: resource.text("namespace"),
                    name: resource.text("name"),
                    fields: &selected.fields,
                }),
            }
        };
        let decision = self.authorizer.decide(&action);
        let mut status = json!({"allowed": matches!(decision, Decision::Allow(_))});
        let (Decision::Allow(reason) | Decision::NoOpinion(reason)) = decision;
        if !reason.is_empty() {
            status.set("reason", reason);
        }
        if !selected.faults.is_empty() {
            status.set("evaluationError", selected.faults.join("; "));
        }
        object.set("status", status);
    }

    /// Lists the rules of the user in a namespace, for a `SelfSubjectRulesReview`. The spec is not repeated.
    // upstream: pkg/registry/authorization/selfsubjectrulesreview/rest.go Create
    fn list_rules(&self, object: &Value, ctx: &RequestContext) -> Result<Value, Status> {
        let namespace = object.at("spec").text("namespace");
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let rules = self.authorizer.rules(&ctx.user, namespace);
        let mut status = json!({
            "resourceRules": rules.resources,
            "nonResourceRules": rules.paths,
            "incomplete": rules.incomplete,
        });
        if let Some(error) = rules.error {
            status.set("evaluationError", error);
        }
        Ok(json!({
            "kind": object.text("kind"),
            "apiVersion": object.text("apiVersion"),
            "metadata": {},
            "spec": {},
            "status": status,
        }))
    }
}

/// What the selectors of a question ask for, and what cannot be understood of them.
#[derive(Default)]
struct SelectorAttributes {
    fields: Vec<Term>,
    faults: Vec<String>,
}

/// How much of a selector is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorReading {
    Whole,
    Partial,
    Nothing,
}

impl SelectorReading {
    fn of(understood: usize, all: usize) -> Self {
        match understood {
            _ if understood == all => SelectorReading::Whole,
            0 => SelectorReading::Nothing,
            _ => SelectorReading::Partial,
        }
    }
}

impl SelectorAttributes {
    fn read(attributes: &Value) -> Self {
        let mut selected = SelectorAttributes::default();
        let (fields, reading) = read_fields(attributes.at("fieldSelector"));
        selected.note("fieldSelector", reading);
        selected.fields = fields;
        selected.note("labelSelector", read_labels(attributes.at("labelSelector")));
        selected
    }

    fn note(&mut self, name: &str, reading: SelectorReading) {
        let how = match reading {
            SelectorReading::Whole => return,
            SelectorReading::Partial => "partially ignored",
            SelectorReading::Nothing => "ignored",
        };
        self.faults
            .push(format!("spec.resourceAttributes.{name} {how} due to parse error"));
    }
}

/// The fields that are understood, and how much of the selector they are.
fn read_fields(selector: &Value) -> (Vec<Term>, SelectorReading) {
    let raw = selector.text("rawSelector");
    if !raw.is_empty() {
        return match field::Selector::parse(raw) {
            Ok(selector) => (selector.terms().to_vec(), SelectorReading::Whole),
            Err(_) => (Vec::new(), SelectorReading::Nothing),
        };
    }
    let all = selector.items("requirements");
    let read = |requirement: &Value| {
        let operator = match requirement.text("operator") {
            "In" => Operator::Equals,
            "NotIn" => Operator::NotEquals,
            _ => return None,
        };
        let [value] = requirement.items("values") else {
            return None;
        };
        Some(Term {
            field: requirement.text("key").to_owned(),
            value: value.as_str().unwrap_or_default().to_owned(),
            operator,
        })
    };
    let terms: Vec<_> = all.iter().filter_map(read).collect();
    let reading = SelectorReading::of(terms.len(), all.len());
    (terms, reading)
}

/// How much of a label selector is understood.
fn read_labels(selector: &Value) -> SelectorReading {
    let raw = selector.text("rawSelector");
    if !raw.is_empty() {
        return match label::parse(raw) {
            Ok(_) => SelectorReading::Whole,
            Err(_) => SelectorReading::Nothing,
        };
    }
    let all = selector.items("requirements");
    let is_sound = |requirement: &&Value| {
        let Some(operator) = label::Operator::from_label_selector(requirement.text("operator")) else {
            return false;
        };
        let values = requirement.texts("values").map(str::to_owned).collect();
        label::Requirement::try_new(requirement.text("key"), operator, values).is_ok()
    };
    SelectorReading::of(all.iter().filter(is_sound).count(), all.len())
}

/// Whom a question is about.
fn user_in(spec: &Value) -> User {
    let extra = spec.entries("extra").keys().map(|key| {
        let values = spec.at("extra").texts(key).map(str::to_owned);
        (key.clone(), values.collect())
    });
    User {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: spec.texts("groups").map(str::to_owned).collect(),
        extra: extra.collect(),
    }
}

/// A user as `UserInfo`.
pub(super) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info.set("uid", user.uid.as_str());
    }
    for (name, values) in &user.extra {
        info.ensure_object("extra").set(name, values.clone());
    }
    info
}
