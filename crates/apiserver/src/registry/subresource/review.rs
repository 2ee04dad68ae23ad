//! Kinds that are questions: they are answered, and nothing is stored.

use k3_api::{
    kinds::token_review,
    rules::{self, Circumstances, Tree, TreeMut, User},
    status::Status,
};
use serde_json::{Value, json};

use crate::{
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
        resource.rules().default(&mut object);
        let at = Circumstances {
            kind,
            now: ask.now,
            user: &ask.user,
        };
        manage::with_subject(kind, resource.rules(), "", |subject| {
            subject.track(None, &mut object, &options.manager, ask.now);
        });
        rules::review(&object, &at)?;
        match &*kind.kind {
            "TokenReview" => token_review::refusal(&object).map_or(Ok(()), Err)?,
            "SelfSubjectRulesReview" if object.at("spec").text("namespace").is_empty() => {
                return Err(Status::bad_request("no namespace on request"));
            }
            _ => {}
        }
        match &*kind.kind {
            "SelfSubjectReview" => {
                object.set("status", json!({"userInfo": user_info(&ask.user)}));
                object
                    .make("metadata")
                    .set("creationTimestamp", ask.now.truncated().to_string());
            }
            "TokenReview" => {
                let status = self.token_status(object.at("spec"), ask.now).await;
                object.set("status", status);
            }
            _ => Self::judge(&mut object, ask),
        }
        let object = answer::normal(&object, &kind.ty);
        let mut answer = answer::tree(201, object, ask, &resource)?;
        answer::warn(&mut answer, &warnings.0);
        Ok(answer)
    }

    /// Says what may be done. There is one rule so far: members of `system:masters` may do everything.
    fn judge(object: &mut Value, ask: &Ask) {
        let is_own = ask.target.kind.kind.starts_with("Self");
        let groups: Vec<String> = if is_own {
            ask.user.groups.clone()
        } else {
            let groups = object.pointer("/spec/groups").and_then(Value::as_array);
            groups
                .into_iter()
                .flatten()
                .filter_map(|group| group.as_str().map(str::to_owned))
                .collect()
        };
        let is_master = groups.iter().any(|group| group == "system:masters");
        match &*ask.target.kind.kind {
            "SelfSubjectRulesReview" => {
                let (resources, paths) = if is_master {
                    (
                        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
                        json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
                    )
                } else {
                    (json!([]), json!([]))
                };
                object.set(
                    "status",
                    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}),
                );
            }
            _ => object.set("status", json!({"allowed": is_master})),
        }
    }
}

/// A user as answers tell of it.
pub(super) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info.set("uid", user.uid.as_str());
    }
    for (name, values) in &user.extra {
        info.make("extra").set(name, values.clone());
    }
    info
}
