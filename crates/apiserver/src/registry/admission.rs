//! Admission of objects that are written, and of requests that stand for objects.

use std::{sync::Arc, time::Duration};

use k3_api::status::Status;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{RequestContext, Resource, freshness::read_index, request_context::Warnings};
use crate::{
    admission::{AdmissionAttributes, AdmissionChain, Operation},
    authz::{AuthorizationAttributes, AuthorizationTarget, Authorizer, RbacGrant, ResourceAttributes},
    cache::WatchCaches,
    metrics::Metrics,
    request::CommitMode,
};

/// How long a new object waits for what its plugins miss, and how often they are asked meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// The admission chain, with the caches that its plugins read.
pub(crate) struct ObjectAdmission {
    chain: AdmissionChain,
    authorizer: Arc<Authorizer>,
    caches: Arc<WatchCaches>,
    pub(super) metrics: Arc<Metrics>,
}

/// How long admission of a new object may wait for objects that controllers create.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionWait {
    deadline: Option<Instant>,
}

/// The halves of admission.
#[derive(Clone, Copy)]
pub(super) enum AdmissionPhase {
    /// What may still be changed, or refused as it was asked for.
    Change,
    /// Whether the outcome may be.
    Validate,
}

// --- AdmissionWait ---

impl AdmissionWait {
    /// At most a second, and never beyond the deadline of the request.
    pub(super) fn of_request(ctx: &RequestContext) -> Self {
        AdmissionWait {
            deadline: ctx.deadline,
        }
    }

    /// When a wait that begins now is over.
    fn end(self) -> Instant {
        let longest = Instant::now() + MAX_WAIT;
        self.deadline.map_or(longest, |deadline| longest.min(deadline))
    }
}

// --- ObjectAdmission ---

impl ObjectAdmission {
    pub(crate) fn new(
        chain: AdmissionChain,
        authorizer: Arc<Authorizer>,
        caches: Arc<WatchCaches>,
        metrics: Arc<Metrics>,
    ) -> Self {
        ObjectAdmission {
            chain,
            authorizer,
            caches,
            metrics,
        }
    }

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

    /// Rejects a PUT or an apply that creates an object, if the user may not create it.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go withAuthorization
    pub(super) fn authorize_create(&self, ctx: &RequestContext, resource: &Resource) -> Result<(), Status> {
        let kind = &resource.kind;
        let attributes = ResourceAttributes {
            group: &kind.group,
            version: &kind.version,
            resource: &kind.plural,
            namespace: &ctx.target.namespace,
            name: &ctx.target.name,
            ..ResourceAttributes::default()
        };
        let action = AuthorizationAttributes {
            user: &ctx.user,
            verb: "create",
            what: AuthorizationTarget::Resource(attributes),
        };
        self.authorizer.require(&action).map(drop)
    }

    /// Lets the plugins, policies and webhooks change an object that is there.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go MutationInterface
    pub(super) async fn admit(&self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        self.chain.admit(attributes, &self.caches).await
    }

    /// Lets the plugins, policies and webhooks refuse an object.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go ValidationInterface
    pub(super) async fn validate(&self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        self.chain.validate(attributes, &self.caches).await
    }

    /// Lets the plugins, policies and webhooks change a new object. While it misses what is made for every namespace soon after
    /// it, such as the default service account, it is tried again until `wait` is over.
    // upstream: staging/src/k8s.io/apiserver/pkg/admission/interfaces.go MutationInterface
    pub(super) async fn admit_new(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        wait: AdmissionWait,
    ) -> Result<(), Status> {
        let mut admitted = self.admit_by_recent_plugins(attributes).await;
        // A namespace that is not there is another matter: nothing will come into it.
        if admitted.as_ref().is_err_and(|rejection| rejection.code == 403)
            && self.chain.awaits(attributes, &self.caches)
        {
            self.wait_for_dependency(attributes, wait).await?;
            admitted = self.chain.admit_by_plugins(attributes, &self.caches);
        }
        admitted?;
        self.chain.admit_by_configuration(attributes, &self.caches).await
    }

    /// Lets the plugins change a new object. No refusal comes from a cache that is behind the store.
    async fn admit_by_recent_plugins(&self, attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        let known = self.caches.applied();
        let Err(rejection) = self.chain.admit_by_plugins(attributes, &self.caches) else {
            return Ok(());
        };
        if read_index(&self.caches).await? > known {
            return self.chain.admit_by_plugins(attributes, &self.caches);
        }
        Err(rejection)
    }

    /// Waits until no plugin misses an object any more, or `wait` is over.
    async fn wait_for_dependency(
        &self,
        attributes: &AdmissionAttributes<'_>,
        wait: AdmissionWait,
    ) -> Result<(), Status> {
        let end = wait.end();
        while Instant::now() < end && self.chain.awaits(attributes, &self.caches) {
            attributes.ctx.check_cancelled()?;
            sleep_until(end.min(Instant::now() + PAUSE)).await;
        }
        Ok(())
    }

    /// Takes what is made under an object, and not stored itself, through half of admission.
    pub(super) async fn admit_as(
        &self,
        (operation, phase): (Operation, AdmissionPhase),
        ctx: &RequestContext,
        object: &mut Value,
        mode: CommitMode,
        warnings: &mut Warnings,
    ) -> Result<(), Status> {
        let resource = Resource::of(ctx.target.kind.clone(), &self.caches);
        let mut attributes = AdmissionAttributes {
            operation,
            resource: &resource,
            subresource: ctx.target.part(),
            namespace: &ctx.target.namespace,
            object,
            old: None,
            ctx,
            dry_run: mode == CommitMode::DryRun,
            warnings: &mut warnings.0,
        };
        match phase {
            AdmissionPhase::Change => {
                self.admit_new(&mut attributes, AdmissionWait::of_request(ctx))
                    .await
            }
            AdmissionPhase::Validate => self.validate(&mut attributes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use k3_api::{kinds::builtin, time::Time};
    use k3_storage::memory::MemoryStore;
    use serde_json::json;

    use super::*;
    use crate::registry::{own_user, testing::TestRegistry};

    /// A server with a namespace that has no service account yet.
    async fn start() -> TestRegistry {
        let server = TestRegistry::start(MemoryStore::new(), "10.0.0.0/24").await;
        let namespaces = server.resource("", "v1", "Namespace");
        server.put(&namespaces, &json!({"metadata": {"name": "n"}})).await;
        server
    }

    /// Admits a new pod.
    async fn admit_pod(server: &TestRegistry, ctx: &RequestContext) -> Result<(), Status> {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}});
        let mut attributes = AdmissionAttributes {
            operation: Operation::Create,
            resource: &server.resource("", "v1", "Pod"),
            subresource: "",
            namespace: "n",
            object: &mut pod,
            old: None,
            ctx,
            dry_run: false,
            warnings: &mut Vec::new(),
        };
        let wait = AdmissionWait::of_request(ctx);
        server.admission.admit_new(&mut attributes, wait).await
    }

    fn context(limit: Option<Duration>) -> RequestContext {
        let kind = builtin().kind("", "v1", "Pod").unwrap();
        let mut ctx = RequestContext::own(kind, "n", own_user(), Time::from_unix(0, 0));
        ctx.deadline = limit.map(|limit| Instant::now() + limit);
        ctx
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_with_the_deadline_of_the_request() {
        let server = start().await;
        for (limit, expected) in [(None, 1000), (Some(60_000), 1000), (Some(250), 250)] {
            let ctx = context(limit.map(Duration::from_millis));
            let began = Instant::now();
            assert_eq!(admit_pod(&server, &ctx).await.unwrap_err().code, 403);
            assert_eq!(began.elapsed().as_millis(), expected, "{limit:?}");
        }
        let ctx = context(None);
        drop(ctx.cancellation.on_drop());
        assert_eq!(admit_pod(&server, &ctx).await.unwrap_err().code, 504);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_account_that_is_made_meanwhile_is_found() {
        let server = start().await;
        let ctx = context(None);
        let make = async {
            sleep_until(Instant::now() + PAUSE * 3).await;
            let accounts = server.resource("", "v1", "ServiceAccount");
            let account = json!({"metadata": {"name": "default", "namespace": "n"}});
            server.put(&accounts, &account).await;
        };
        let (admitted, ()) = tokio::join!(admit_pod(&server, &ctx), make);
        assert_eq!(admitted, Ok(()));
    }
}
