//! Subresources that are more than a part of their object, and kinds that are questions: a file each.

mod binding;
mod connection;
mod eviction;
mod node;
mod passed;
mod review;
mod scale;
mod token;
mod token_review;

pub(super) use self::scale::NewScale;

use k3_api::{
    kinds::Persistence,
    status::{GroupResource, Status, StatusDetails},
    strategy::RestStrategy,
};
use k3_storage::{Revision, Write};
use serde_json::Value;

use super::{Ask, Registry, Resource, answer, ask::Warnings, commit::NotCommitted, version};
use crate::{
    admission::{Attributes, Operation},
    cache::Object,
    http::{self as web, Answer},
    outgoing::Passed,
    server::Verb,
};

const TRIES: usize = 10;

/// The halves of admission.
#[derive(Clone, Copy)]
enum Phase {
    /// What may still be changed, or refused as it was asked for.
    Change,
    /// Whether the outcome may be.
    Judge,
}

// --- Registry ---

impl Registry {
    /// Answers a request for what is not an object that is stored, or a part of one; `None` if it is.
    pub(crate) async fn special(&self, ask: &Ask, verb: Verb) -> Option<Result<Answer, Status>> {
        let target = &ask.target;
        // Whatever a custom resource is called, it is nothing of what follows.
        if target.kind.strategy.is_some() && target.part() != "scale" {
            return None;
        }
        Some(match (&*target.kind.plural, target.part()) {
            (_, "scale") => self.scale(ask, verb).await,
            ("pods", "binding") | ("bindings", "") => self.bind(ask).await,
            ("pods", "eviction") => self.evict(ask).await,
            ("serviceaccounts", "token") => self.issue_token(ask).await,
            ("componentstatuses", "") => self.component_statuses(ask, verb).await,
            _ if target.kind.persistence == Persistence::Virtual => self.review(ask).await,
            _ => return None,
        })
    }

    /// Answers a request for a connection: a log, a stream, or something that is passed on.
    pub(crate) async fn connect(&self, ask: &Ask, verb: Verb, passed: Passed) -> Result<Answer, Status> {
        match ask.target.part() {
            "log" => self.log(ask).await,
            "proxy" => self.proxy(ask, passed).await,
            _ => self.stream(ask, verb, passed).await,
        }
    }

    /// Takes a request for a stream through admission. Its options stand for an object.
    async fn admit_connection(&self, ask: &Ask, path: &str) -> Result<(), Status> {
        let mut options = connection::options(ask, path)?;
        let mut warnings = Warnings::default();
        for phase in [Phase::Change, Phase::Judge] {
            self.admit_as(
                (Operation::Connect, phase),
                ask,
                &mut options,
                false,
                &mut warnings,
            )
            .await?;
        }
        Ok(())
    }

    /// Takes what is made under an object, and not stored itself, through half of admission.
    async fn admit_as(
        &self,
        (operation, phase): (Operation, Phase),
        ask: &Ask,
        object: &mut Value,
        dry_run: bool,
        warnings: &mut Warnings,
    ) -> Result<(), Status> {
        let resource = Resource::of(ask.target.kind.clone(), &self.caches);
        let mut attributes = Attributes {
            operation,
            resource: &resource,
            subresource: ask.target.part(),
            namespace: &ask.target.namespace,
            object,
            old: None,
            ask,
            dry_run,
            warnings: &mut warnings.0,
        };
        match phase {
            Phase::Change => self.admit_new(&mut attributes).await,
            Phase::Judge => self.admission.validate(&mut attributes, &self.caches).await,
        }
    }

    /// Changes a stored object by the server's own doing: no admission, no rules, nobody owns what changes.
    async fn modify(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        dry_run: bool,
        mut change: impl FnMut(&mut Value) -> Result<(), Status>,
    ) -> Result<Value, Status> {
        self.fresh().await?;
        let key = resource.key(namespace, name)?;
        let current = resource.cache.get(&key).ok_or_else(|| resource.not_found(name))?;
        let mut current = self.readable(resource, current).await?;
        for _ in 0..TRIES {
            let mut tree = current.tree();
            change(&mut tree)?;
            let bytes = version::stored_bytes(&tree, &resource.stored, &resource.stored);
            if dry_run || *current.stored() == bytes {
                return Ok(tree);
            }
            let write = Write::update(key.clone(), Revision::new(current.revision), bytes.clone());
            match self.commit(write).await {
                Ok(revision) => return Ok(Object::new(key, bytes, revision).tree()),
                Err(NotCommitted::Failed(status)) => return Err(status),
                Err(NotCommitted::Conflict(None)) => return Err(resource.not_found(name)),
                Err(NotCommitted::Conflict(Some(entry))) => {
                    current = std::sync::Arc::new(Object::new(entry.key, entry.value, entry.revision.get()));
                }
            }
        }
        let why = "the object is being changed again and again; please try again";
        Err(Status::conflict(resource.grouped(), name, why))
    }

    /// The states of the parts of a control plane: long deprecated, and answered by none.
    async fn component_statuses(&self, ask: &Ask, verb: Verb) -> Result<Answer, Status> {
        let resource = Resource::of(ask.target.kind.clone(), &self.caches);
        let health = self.caches.store().health().await;
        let (status, message) = match &health {
            Ok(_) => ("True", "ok".to_owned()),
            Err(error) => ("False", error.to_string()),
        };
        let tree = serde_json::json!({
            "kind": "ComponentStatus",
            "apiVersion": "v1",
            "metadata": {"name": "etcd-0"},
            "conditions": [{"type": "Healthy", "status": status, "message": message}],
        });
        match verb {
            Verb::List => super::list::answer_trees(vec![tree], &serde_json::json!({}), ask, &resource),
            _ if ask.target.name == "etcd-0" => answer::tree(200, tree, ask, &resource),
            _ => Err(resource.not_found(&ask.target.name)),
        }
    }
}

/// A `Status` that says no more than that it was made.
fn made(ask: &Ask, warnings: &Warnings) -> Answer {
    let status = Status {
        code: 201,
        details: None,
        ..Status::success(StatusDetails::default())
    };
    let mut made = web::status(&status, ask.accepted.format, ask.accepted.pretty);
    answer::warn(&mut made, &warnings.0);
    made
}

/// The answer to what the rules of a kind find wrong with an object that is told of by a name.
fn judge(
    rules: &dyn RestStrategy,
    object: &Value,
    at: &k3_api::strategy::StrategyContext<'_>,
    (kind, name): (GroupResource<'_>, &str),
) -> Result<(), Status> {
    let mut errors = k3_api::strategy::ErrorList::new();
    rules.validate(object, at, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_with_omitted(
        kind,
        name,
        &errors,
        errors.omitted(),
    ))
}
