//! Kinds that are questions: they are answered, and nothing is stored.

use k3_api::{
    field::Path,
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
    authz::{Action, Decision, Object, What},
    http::Answer,
    registry::{
        Ask, Registry, Resource, answer,
        ask::Warnings,
        body::{self, Expected},
        create::match_namespace,
        manage,
    },
    request::{WriteOptions, Writing},
};

// --- Registry ---

impl Registry {
    /// Answers the question in the body.
    pub(super) async fn review(&self, ask: &Ask) -> Result<Answer, Status> {
        let options = WriteOptions::read(&ask.query, Writing::Create, &ask.agent)?;
        let mut warnings = Warnings::default();
        let kind = &ask.target.kind;
        let mut object = body::read(ask, Expected::of(kind), &options, &mut warnings)?;
        let resource = Resource::of(kind.clone(), &self.caches);
        match_namespace(&mut object, &resource, &ask.target.namespace)?;
        resource.strategy().set_defaults(&mut object);
        let at = StrategyContext {
            kind,
            now: ask.now,
            user: &ask.user,
        };
        manage::with_subject(kind, resource.strategy(), "", None, |subject| {
            subject.track(None, &mut object, &options.manager, ask.now);
        });
        strategy::review(&object, &at)?;
        match &*kind.kind {
            "TokenReview" => {
                token_review::validate_token_review(&object).map_or(Ok(()), Err)?;
                let status = self.token_status(object.at("spec"), ask.now).await;
                object.set("status", status);
            }
            "SelfSubjectReview" => {
                object.set("status", json!({"userInfo": user_info(&ask.user)}));
                object
                    .ensure_object("metadata")
                    .set("creationTimestamp", ask.now.truncated().to_string());
            }
            "SelfSubjectRulesReview" => object = self.list_rules(&object, ask)?,
            _ => self.judge(&mut object, ask),
        }
        let object = answer::normal(&object, &kind.ty);
        let mut answer = answer::tree(201, object, ask, &resource)?;
        answer::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// Says whether somebody may do something.
    fn judge(&self, object: &mut Value, ask: &Ask) {
        let spec = object.at("spec");
        let is_own = ask.target.kind.kind.starts_with("Self");
        let user = if is_own { ask.user.clone() } else { user_in(spec) };
        let (resource, other) = (spec.at("resourceAttributes"), spec.at("nonResourceAttributes"));
        let selected = Selected::read(resource);
        let action = if resource.is_null() {
            Action {
                user: &user,
                verb: other.text("verb"),
                what: What::Path(other.text("path")),
            }
        } else {
            let version = resource.text("version");
            Action {
                user: &user,
                verb: resource.text("verb"),
                what: What::Object(Object {
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

    /// Says what who asks may do in a namespace. The answer does not repeat the question.
    fn list_rules(&self, object: &Value, ask: &Ask) -> Result<Value, Status> {
        let namespace = object.at("spec").text("namespace");
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let rules = self.authorizer.rules(&ask.user, namespace);
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
struct Selected {
    fields: Vec<Term>,
    faults: Vec<String>,
}

impl Selected {
    fn read(attributes: &Value) -> Self {
        let mut selected = Selected::default();
        let (fields, sound) = read_fields(attributes.at("fieldSelector"));
        selected.note("fieldSelector", sound, !fields.is_empty());
        selected.fields = fields;
        let (labels, sound) = read_labels(attributes.at("labelSelector"));
        selected.note("labelSelector", sound, labels > 0);
        selected
    }

    fn note(&mut self, name: &str, is_sound: bool, is_used: bool) {
        if !is_sound {
            let how = if is_used { "partially ignored" } else { "ignored" };
            self.faults
                .push(format!("spec.resourceAttributes.{name} {how} due to parse error"));
        }
    }
}

/// The fields that are understood, and whether those are all.
fn read_fields(selector: &Value) -> (Vec<Term>, bool) {
    let raw = selector.text("rawSelector");
    if !raw.is_empty() {
        return match field::Selector::parse(raw) {
            Ok(selector) => (selector.terms().to_vec(), true),
            Err(_) => (Vec::new(), false),
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
    let is_sound = terms.len() == all.len();
    (terms, is_sound)
}

/// How many requirements of labels are understood, and whether those are all.
fn read_labels(selector: &Value) -> (usize, bool) {
    let raw = selector.text("rawSelector");
    if !raw.is_empty() {
        return match label::Selector::parse(raw) {
            Ok(selector) => (selector.requirements().len(), true),
            Err(_) => (0, false),
        };
    }
    let all = selector.items("requirements");
    let is_sound = |requirement: &&Value| {
        let operator = match requirement.text("operator") {
            "In" => label::Operator::In,
            "NotIn" => label::Operator::NotIn,
            "Exists" => label::Operator::Exists,
            "DoesNotExist" => label::Operator::DoesNotExist,
            _ => return false,
        };
        let values = requirement.texts("values").map(str::to_owned).collect();
        label::Requirement::try_new(requirement.text("key"), operator, values, &Path::NIL).is_ok()
    };
    let sound = all.iter().filter(is_sound).count();
    (sound, sound == all.len())
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

/// A user as answers tell of it.
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
