//! Admission: what is changed in an object, or refused, beyond the rules of its kind. A plugin a file.
//!
//! ```text
//! a plugin a file
//! policy, webhook  what a cluster is configured to change or refuse
//! matching         which requests a policy or a webhook is about
//! subject          what is asked about, as they see it
//! expression       the expressions in their configurations
//! configured       what is made of configurations, once
//! unreadable       nothing is admitted without what decides about it
//! reinvocation     who is asked again, when somebody later changed the object
//! ```
//!
//! Plugins run in the order of [`Admission::new`]: first each may change the object, then, when the rules of the kind have been
//! asked, each may refuse it. They read the cluster from the caches, so they never wait. Whoever asks may wait and ask again:
//! changing an object twice is changing it once. What is configured (policies, webhooks) and what waits comes after them, in
//! [`Admission::admit`] and [`Admission::validate`].

mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod claim_resize;
mod claim_status;
mod configured;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod ephemeral_tokens;
mod expression;
mod limit_ranger;
mod marked_class;
mod matching;
mod namespace_lifecycle;
mod node_features;
mod node_restriction;
mod owner_references;
mod pod_certificate_signing;
mod pod_resize;
mod pod_security;
mod pod_topology_labels;
mod policy;
mod policy_parameters;
mod priority;
mod quota;
mod reinvocation;
mod remembered;
mod runtime_class;
mod service_account;
mod storage_protection;
mod subject;
mod taint_nodes;
#[cfg(test)]
mod testing;
mod trust_bundle_attest;
mod unreadable;
mod webhook;

use std::sync::Arc;

use k3_api::{kinds::builtin, status::Status, strategy::Tree};
use serde_json::Value;

use self::{policy::Policies, reinvocation::Round, webhook::Webhooks};
use crate::{
    authz::Authorizer,
    cache::Caches,
    custom::Converter,
    outgoing::Outgoing,
    registry::{Ask, Resource},
};

/// The plugins, in order.
pub(crate) struct Admission {
    plugins: Vec<Box<dyn Plugin>>,
    quotas: quota::Quotas,
    policies: Policies,
    webhooks: Webhooks,
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
pub(crate) struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-wide objects.
    pub namespace: &'a str,
    /// The object as it would be stored; of a delete, the object that goes.
    pub object: &'a mut Value,
    /// The object as it is, if it is changed.
    pub old: Option<&'a Value>,
    /// The request: who asks, when, and where notes for the audit log go.
    pub ask: &'a Ask,
    /// Whether nothing is stored in the end.
    pub dry_run: bool,
    /// What the client is told besides.
    pub warnings: &'a mut Vec<String>,
}

/// A plugin.
pub(crate) trait Plugin: Send + Sync {
    /// What upstream calls it, if it can be left out.
    fn name(&self) -> &'static str {
        ""
    }

    /// Changes the object, or refuses it.
    fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let _ = (attributes, caches);
        Ok(())
    }

    /// Whether what it misses is made without anybody asking, soon.
    fn awaits(&self, attributes: &Attributes<'_>, caches: &Caches) -> bool {
        let _ = (attributes, caches);
        false
    }

    /// Refuses the object, or not.
    fn validate(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let _ = (attributes, caches);
        Ok(())
    }
}

// --- Attributes ---

impl Attributes<'_> {
    /// Whether it is about this resource, or one of its subresources.
    fn is_of(&self, group: &str, plural: &str) -> bool {
        self.resource.kind.group == group && self.resource.kind.plural == plural
    }

    /// Whether an object of this resource is made.
    fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Create && self.subresource.is_empty() && self.is_of(group, plural)
    }

    /// The name of the object: as it is asked for, or as it says itself; empty if it is yet to be made up.
    fn name(&self) -> &str {
        match self.ask.target.name.as_str() {
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
fn resource(group: &str, plural: &str, caches: &Caches) -> Resource {
    let kind = builtin()
        .resource(group, "v1", plural)
        .expect("the resource is built in");
    Resource::of(kind, caches)
}

/// An object that plugins read.
fn object(group: &str, plural: &str, namespace: &str, name: &str, caches: &Caches) -> Option<Value> {
    let resource = resource(group, plural, caches);
    // What cannot be a key is not there.
    let key = resource.key(namespace, name).ok()?;
    Some(resource.cache.get(&key)?.tree())
}

// --- Admission ---

impl Admission {
    /// All plugins that always run, and what a cluster configures.
    pub(crate) fn new(authorizer: &Arc<Authorizer>, outgoing: &Arc<Outgoing>) -> Self {
        let converter = &Arc::new(Converter::new(Arc::clone(outgoing)));
        let (policies, webhooks) = (
            Policies::new(authorizer, converter),
            Webhooks::new(authorizer, outgoing, converter),
        );
        let authorizer = || Arc::clone(authorizer);
        Admission {
            policies,
            webhooks,
            plugins: vec![
                // First what the rules of a kind would ask if they knew who may do what.
                Box::new(pod_certificate_signing::PodCertificateSigning(authorizer())),
                Box::new(policy_parameters::PolicyParameters(authorizer())),
                Box::new(claim_status::ClaimStatus(authorizer())),
                Box::new(namespace_lifecycle::NamespaceLifecycle),
                Box::new(ephemeral_tokens::EphemeralTokens),
                Box::new(limit_ranger::LimitRanger::default()),
                Box::new(service_account::ServiceAccount),
                Box::new(node_restriction::NodeRestriction(authorizer())),
                Box::new(taint_nodes::TaintNodes),
                Box::new(pod_security::PodSecurity),
                Box::new(priority::Priority::default()),
                Box::new(default_toleration_seconds::DefaultTolerationSeconds),
                Box::new(default_storage_class::DefaultStorageClass::default()),
                Box::new(storage_protection::StorageProtection),
                Box::new(claim_resize::ClaimResize),
                Box::new(runtime_class::RuntimeClass),
                Box::new(certificate_approval::CertificateApproval(authorizer())),
                Box::new(certificate_signing::CertificateSigning(authorizer())),
                Box::new(trust_bundle_attest::TrustBundleAttest(authorizer())),
                Box::new(certificate_subject_restriction::CertificateSubjectRestriction),
                Box::new(default_ingress_class::DefaultIngressClass::default()),
                Box::new(pod_topology_labels::PodTopologyLabels),
                Box::new(node_features::NodeFeatures),
                Box::new(pod_resize::PodResize),
            ],
            quotas: quota::Quotas::default(),
        }
    }

    /// Also asks who names an owner whether they may.
    pub(crate) fn guard_owners(&mut self, authorizer: &Arc<Authorizer>) {
        let plugin = owner_references::OwnerReferences(Arc::clone(authorizer));
        self.plugins.push(Box::new(plugin));
    }

    /// Leaves out the plugin of this name.
    pub(crate) fn leave_out(&mut self, name: &str) {
        self.plugins.retain(|plugin| plugin.name() != name);
    }

    /// Lets each plugin, then policies and webhooks, change the object.
    pub(crate) async fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        self.admit_by_plugins(attributes, caches)?;
        self.admit_by_configuration(attributes, caches).await
    }

    /// Plugins are about what is stored: they have nothing to say to a stream.
    fn plugins_for(&self, operation: Operation) -> impl Iterator<Item = &dyn Plugin> {
        let all: &[Box<dyn Plugin>] = match operation {
            Operation::Connect => &[],
            _ => &self.plugins,
        };
        all.iter().map(AsRef::as_ref)
    }

    /// Lets each plugin change the object. May be asked again.
    pub(crate) fn admit_by_plugins(
        &self,
        attributes: &mut Attributes<'_>,
        caches: &Caches,
    ) -> Result<(), Status> {
        unreadable::refuse(attributes, caches)?;
        self.plugins_for(attributes.operation)
            .try_for_each(|plugin| plugin.admit(attributes, caches))
    }

    /// Lets policies and webhooks change the object after the plugins. When one does, all plugins run once more, and those that
    /// want to see what others did after them.
    pub(crate) async fn admit_by_configuration(
        &self,
        attributes: &mut Attributes<'_>,
        caches: &Caches,
    ) -> Result<(), Status> {
        let (mut policies, mut webhooks) = (Round::default(), Round::default());
        loop {
            let mut changed = self.policies.admit(attributes, caches, &mut policies);
            if changed.is_ok() {
                changed = self.webhooks.admit(attributes, caches, &mut webhooks).await;
            }
            changed.map_err(|status| tell(status, attributes))?;
            if !Round::go_on([&mut policies, &mut webhooks]) {
                return Ok(());
            }
            self.admit_by_plugins(attributes, caches)?;
        }
    }

    /// Whether a plugin refuses what it would not refuse a little later.
    pub(crate) fn awaits(&self, attributes: &Attributes<'_>, caches: &Caches) -> bool {
        self.plugins
            .iter()
            .any(|plugin| plugin.awaits(attributes, caches))
    }

    /// Lets each plugin, then policies, webhooks and quotas, refuse the object.
    pub(crate) async fn validate(
        &self,
        attributes: &mut Attributes<'_>,
        caches: &Caches,
    ) -> Result<(), Status> {
        unreadable::refuse(attributes, caches)?;
        self.plugins_for(attributes.operation)
            .try_for_each(|plugin| plugin.validate(attributes, caches))?;
        let mut judged = self.policies.validate(attributes, caches);
        if judged.is_ok() {
            judged = self.webhooks.validate(attributes, caches).await;
        }
        if judged.is_ok() {
            // Something may have come since they were asked.
            judged = unreadable::refuse(attributes, caches);
        }
        if judged.is_ok() {
            // Last of all: what is charged is to be stored.
            judged = self.quotas.charge(attributes, caches).await;
        }
        judged.map_err(|status| tell(status, attributes))
    }
}

/// A refusal does not swallow what the client was to be told.
fn tell(mut status: Status, attributes: &mut Attributes<'_>) -> Status {
    status.warnings = std::mem::take(attributes.warnings).into();
    status
}
