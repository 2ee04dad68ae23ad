//! The CEL variable `authorizer`: checks whether the user of a request, or a service account, may do something.

use std::sync::Arc;

use k3_api::strategy::User;
use k3_cel::{Check, Decision, Target};

use crate::authz::{self, AuthorizationAttributes, AuthorizationTarget, Authorizer};

/// The authorizer, asked for a user.
pub(super) struct CelAuthorizer {
    pub authorizer: Arc<Authorizer>,
    pub user: User,
}

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go Authorize
impl k3_cel::Authorizer for CelAuthorizer {
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
            Target::Path(path) => AuthorizationTarget::Path(path),
            Target::Resource(resource) => AuthorizationTarget::Resource(authz::ResourceAttributes {
                group: &resource.group,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                ..authz::ResourceAttributes::default()
            }),
        };
        let decision = self.authorizer.decide(&AuthorizationAttributes {
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
