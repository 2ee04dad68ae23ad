//! Admission: plugins, policies and webhooks that change or reject writes beyond the rules of a kind. One plugin per file.
//!
//! ```text
//! policy, webhook       what a cluster configures to change or reject writes
//! matching              which requests a policy or a webhook matches
//! versioned_attributes  the attributes of a request as webhooks and policies see them
//! expression            the CEL expressions in their configurations
//! failure_policy        what an error of a policy or a webhook does to the request
//! configuration_cache   parsed configurations
//! undecryptable         rejects writes while an object that decides about them cannot be decrypted
//! reinvocation          which webhooks and policies run again after a later change
//! ```
//!
//! Plugins run in the order of [`AdmissionChain::new`]: first each may change the object (admit), then, after validation by the
//! kind's rules, each may reject it (validate). They read the cluster from the caches, so they never wait; a caller may retry, so
//! changes are idempotent. Policies, webhooks and quota, which may wait, follow in [`AdmissionChain::admit`] and
//! [`AdmissionChain::validate`].

mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod cluster_trust_bundle_attest;
mod configuration_cache;
mod default_class;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod derived_cache;
mod ephemeral_token_restriction;
mod expression;
mod failure_policy;
mod limit_ranger;
mod matching;
mod namespace_lifecycle;
mod node_features;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_certificate_signing;
mod pod_resize;
mod pod_security;
mod pod_topology_labels;
mod policy;
mod policy_param_authorization;
mod priority;
mod quota;
mod reinvocation;
mod resource_claim_status;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;
mod undecryptable;
mod versioned_attributes;
mod webhook;

use std::sync::Arc;

use k3_api::{kinds::builtin, status::Status, strategy::Tree};
use serde_json::Value;

use self::{policy::PolicyDispatcher, reinvocation::ReinvocationContext, webhook::WebhookDispatcher};
use crate::{
    authz::Authorizer,
    cache::WatchCaches,
    custom::CustomResourceConverter,
    outgoing::WebhookClientManager,
    registry::{RequestContext, Resource, StoreWriter},
};

/// The plugins, in order.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/chain.go chainAdmissionHandler
pub(crate) struct AdmissionChain {
    plugins: Vec<Box<dyn AdmissionPlugin>>,
    quotas: quota::QuotaAdmission,
    policies: PolicyDispatcher,
    webhooks: WebhookDispatcher,
}

/// What is being done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A stream to a pod, a node or a service.
    Connect,
}

/// What a plugin is asked about.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/attributes.go NewAttributesRecord
pub(crate) struct AdmissionAttributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-wide objects.
    pub namespace: &'a str,
    /// The object as it would be stored; for a delete, the object that is deleted.
    pub object: &'a mut Value,
    /// The object as it is, if it is changed.
    pub old: Option<&'a Value>,
    /// The request: who asks, when, and where notes for the audit log go.
    pub ctx: &'a RequestContext,
    /// Whether nothing is stored in the end.
    pub dry_run: bool,
    /// Warnings for the client.
    pub warnings: &'a mut Vec<String>,
}

pub(crate) trait AdmissionPlugin: Send + Sync {
    /// What upstream calls it, if it can be left out.
    fn name(&self) -> &'static str {
        ""
    }

    /// Changes the object, or refuses it.
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let _ = (attributes, caches);
        Ok(())
    }

    /// Whether what it misses is made without anybody asking, soon.
    fn awaits(&self, attributes: &AdmissionAttributes<'_>, caches: &WatchCaches) -> bool {
        let _ = (attributes, caches);
        false
    }

    /// Refuses the object, or not.
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let _ = (attributes, caches);
        Ok(())
    }
}

// --- AdmissionAttributes ---

impl AdmissionAttributes<'_> {
    /// Whether it is about this resource, or one of its subresources.
    fn is_of(&self, group: &str, plural: &str) -> bool {
        self.resource.kind.group == group && self.resource.kind.plural == plural
    }

    /// Whether an object of this resource is made.
    fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Create && self.subresource.is_empty() && self.is_of(group, plural)
    }

    /// The name of the object, from the request or the object; empty if it will be generated.
    fn name(&self) -> &str {
        match self.ctx.target.name.as_str() {
            "" => self.object.at("metadata").text("name"),
            name => name,
        }
    }

    /// The answer that refuses it. An object whose name is yet to be made up is called by what the name begins with.
    fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        let beginning = self.object.at("metadata").text("generateName");
        let name = [self.name(), beginning, "Unknown"]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        Status::forbidden(self.resource.grouped(), name, why)
    }
}

/// A resource that plugins read.
fn resource(group: &str, plural: &str, caches: &WatchCaches) -> Resource {
    let kind = builtin()
        .resource(group, "v1", plural)
        .expect("the resource is built in");
    Resource::of(kind, caches)
}

/// An object that plugins read.
fn object(group: &str, plural: &str, namespace: &str, name: &str, caches: &WatchCaches) -> Option<Value> {
    let resource = resource(group, plural, caches);
    // What cannot be a key is not there.
    let key = resource.key(namespace, name).ok()?;
    Some(resource.cache.get(&key)?.tree())
}

// --- AdmissionChain ---

impl AdmissionChain {
    /// All plugins that always run, and what a cluster configures.
    pub(crate) fn new(
        authorizer: &Arc<Authorizer>,
        outgoing: &Arc<WebhookClientManager>,
        writer: StoreWriter,
    ) -> Self {
        let converter = &Arc::new(CustomResourceConverter::new(Arc::clone(outgoing)));
        let policies = PolicyDispatcher::new(authorizer, converter);
        let webhooks = WebhookDispatcher::new(authorizer, outgoing, converter);
        let authorizer = || Arc::clone(authorizer);
        AdmissionChain {
            policies,
            webhooks,
            plugins: vec![
                // First the checks that upstream's strategies make with an authorizer.
                Box::new(pod_certificate_signing::PodCertificateSigning(authorizer())),
                Box::new(policy_param_authorization::PolicyParamAuthorization(authorizer())),
                Box::new(resource_claim_status::ResourceClaimStatusAuthorization(
                    authorizer(),
                )),
                Box::new(namespace_lifecycle::NamespaceLifecycle),
                Box::new(ephemeral_token_restriction::EphemeralTokenRestriction),
                Box::new(limit_ranger::LimitRanger::default()),
                Box::new(service_account::ServiceAccount),
                Box::new(node_restriction::NodeRestriction(authorizer())),
                Box::new(taint_nodes_by_condition::TaintNodesByCondition),
                Box::new(pod_security::PodSecurity),
                Box::new(priority::PodPriority::default()),
                Box::new(default_toleration_seconds::DefaultTolerationSeconds),
                Box::new(default_storage_class::DefaultStorageClass::default()),
                Box::new(storage_object_in_use_protection::StorageObjectInUseProtection),
                Box::new(persistent_volume_claim_resize::PersistentVolumeClaimResize),
                Box::new(runtime_class::RuntimeClass),
                Box::new(certificate_approval::CertificateApproval(authorizer())),
                Box::new(certificate_signing::CertificateSigning(authorizer())),
                Box::new(cluster_trust_bundle_attest::ClusterTrustBundleAttest(authorizer())),
                Box::new(certificate_subject_restriction::CertificateSubjectRestriction),
                Box::new(default_ingress_class::DefaultIngressClass::default()),
                Box::new(pod_topology_labels::PodTopologyLabels),
                Box::new(node_features::NodeFeatures),
                Box::new(pod_resize::PodResize),
            ],
            quotas: quota::QuotaAdmission::new(writer),
        }
    }

    /// Also asks who names an owner whether they may.
    pub(crate) fn enforce_owner_reference_permissions(&mut self, authorizer: &Arc<Authorizer>) {
        let plugin = owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement(
            Arc::clone(authorizer),
        );
        self.plugins.push(Box::new(plugin));
    }

    /// Leaves out the plugin of this name.
    pub(crate) fn remove_plugin(&mut self, name: &str) {
        self.plugins.retain(|plugin| plugin.name() != name);
    }

    /// Lets each plugin, then policies and webhooks, change the object.
    pub(crate) async fn admit(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        self.admit_by_plugins(attributes, caches)?;
        self.admit_by_configuration(attributes, caches).await
    }

    /// Plugins are about what is stored: they have nothing to say to a stream.
    fn plugins_for(&self, operation: Operation) -> impl Iterator<Item = &dyn AdmissionPlugin> {
        let all: &[Box<dyn AdmissionPlugin>] = match operation {
            Operation::Connect => &[],
            _ => &self.plugins,
        };
        all.iter().map(AsRef::as_ref)
    }

    /// Runs the mutating plugins, webhooks and policies; a second time if reinvocation requires it.
    pub(crate) fn admit_by_plugins(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        undecryptable::check_decrypted(attributes, caches)?;
        self.plugins_for(attributes.operation)
            .try_for_each(|plugin| plugin.admit(attributes, caches))
    }

    /// Lets policies and webhooks change the object after the plugins. When one does, all plugins run once more, and those that
    /// want to see what others did after them.
    pub(crate) async fn admit_by_configuration(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        let mut policies = ReinvocationContext::default();
        let mut webhooks = ReinvocationContext::default();
        loop {
            let mut changed = self.policies.admit(attributes, caches, &mut policies);
            if changed.is_ok() {
                changed = self.webhooks.admit(attributes, caches, &mut webhooks).await;
            }
            changed.map_err(|status| attach_warnings(status, attributes))?;
            if !ReinvocationContext::start_reinvocation([&mut policies, &mut webhooks]) {
                return Ok(());
            }
            self.admit_by_plugins(attributes, caches)?;
        }
    }

    /// Whether a plugin refuses what it would not refuse a little later.
    pub(crate) fn awaits(&self, attributes: &AdmissionAttributes<'_>, caches: &WatchCaches) -> bool {
        self.plugins
            .iter()
            .any(|plugin| plugin.awaits(attributes, caches))
    }

    /// Lets each plugin, then policies, webhooks and quotas, refuse the object.
    pub(crate) async fn validate(
        &self,
        attributes: &mut AdmissionAttributes<'_>,
        caches: &WatchCaches,
    ) -> Result<(), Status> {
        undecryptable::check_decrypted(attributes, caches)?;
        self.plugins_for(attributes.operation)
            .try_for_each(|plugin| plugin.validate(attributes, caches))?;
        let mut result = self.policies.validate(attributes, caches);
        if result.is_ok() {
            result = self.webhooks.validate(attributes, caches).await;
        }
        if result.is_ok() {
            // Something may have come since they were asked.
            result = undecryptable::check_decrypted(attributes, caches);
        }
        if result.is_ok() {
            // Last of all: what is charged is to be stored.
            result = self.quotas.charge(attributes, caches).await;
        }
        result.map_err(|status| attach_warnings(status, attributes))
    }
}

/// A rejection keeps the warnings collected so far.
fn attach_warnings(mut status: Status, attributes: &mut AdmissionAttributes<'_>) -> Status {
    status.warnings = std::mem::take(attributes.warnings).into();
    status
}
