//! Runs admission for new objects, and RBAC escalation checks for roles and bindings.

use std::time::Duration;

use k3_api::status::Status;

use super::Registry;
use crate::{admission::AdmissionAttributes, authz::RbacGrant};

/// How often, and with which pause, admission is retried for objects that are created with a namespace.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

// --- Registry ---

impl Registry {
    /// Rejects a role or binding that grants permissions that the user does not have (privilege escalation).
    // upstream: pkg/registry/rbac/role/policybased/storage.go Create, Update
    pub(super) fn check_grant(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
        if !attributes.subresource.is_empty() {
            return Ok(());
        }
        let kind = &attributes.resource.kind;
        self.authorizer.check_grant(&RbacGrant {
            user: &attributes.ctx.user,
            group: &kind.group,
            resource: &kind.plural,
            namespace: attributes.namespace,
            name: &attributes.ctx.target.name,
            object: attributes.object,
            old: attributes.old,
        })
    }

    /// Runs the mutating admission plugins for a new object.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go MutationInterface
    pub(super) async fn admit_new(&self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        self.admit_with_retry(attributes).await?;
        self.admission
            .admit_by_configuration(attributes, &self.caches)
            .await
    }

    /// Lets the plugins change a new object. No refusal comes from a cache that is behind the store; and for what is made for
    /// every namespace soon after it, there is a little patience.
    async fn admit_with_retry(&self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        let known = self.caches.applied();
        let Err(mut rejection) = self.admission.admit_by_plugins(attributes, &self.caches) else {
            return Ok(());
        };
        if self.read_index().await? > known {
            match self.admission.admit_by_plugins(attributes, &self.caches) {
                Ok(()) => return Ok(()),
                Err(status) => rejection = status,
            }
        }
        // A namespace that is not there is another matter: nothing will come into it.
        if rejection.code != 403 || !self.admission.awaits(attributes, &self.caches) {
            return Err(rejection);
        }
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE).await;
            if !self.admission.awaits(attributes, &self.caches) {
                break;
            }
        }
        self.admission.admit_by_plugins(attributes, &self.caches)
    }
}
