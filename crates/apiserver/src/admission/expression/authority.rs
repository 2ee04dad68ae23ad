//! What `authorizer` asks: whether the user of a request, or a service account, may do something.

use std::sync::Arc;

use k3_api::strategy::User;
use k3_cel::{Check, Decision, Target};

use crate::authz::{self, Action, Authorizer, What};

/// The authorizer, asked for a user.
pub(super) struct Authority {
    pub authorizer: Arc<Authorizer>,
    pub user: User,
}

impl k3_cel::Authorizer for Authority {
    fn authorize(&self, check: &Check<'_>) -> Decision {
        let account = check.service_account.map(|(namespace, name)| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            ..User::default()
        });
        let what = match check.target {
            Target::Path(path) => What::Path(path),
            Target::Resource(resource) => What::Object(authz::Object {
                group: &resource.group,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                ..authz::Object::default()
            }),
        };
        let decision = self.authorizer.decide(&Action {
            user: account.as_ref().unwrap_or(&self.user),
            verb: check.verb,
            what,
        });
        let (allowed, reason) = match decision {
            authz::Decision::Allow(reason) => (true, reason),
            authz::Decision::NoOpinion(reason) => (false, reason),
        };
        Decision {
            allowed,
            reason,
            error: None,
        }
    }
}
