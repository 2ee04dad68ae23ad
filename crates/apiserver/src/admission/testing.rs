//! A small cluster for the tests of plugins.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use k3_api::{
    encode,
    kinds::{KindRef, builtin},
    status::Status,
    strategy::{Tree, User},
    time::Time,
};
use k3_storage::{Store, Write, memory::MemoryStore};
use serde_json::{Value, json};

use super::{AdmissionAttributes, AdmissionChain, AdmissionPlugin, Operation};
use crate::{
    authz::Authorizer,
    cache::{StoreReflector, WatchCaches},
    outgoing::WebhookClientManager,
    registry::{self, RequestContext, Resource, StoreWriter},
    request::Query,
};

/// A write, as all of admission sees it.
pub(super) struct TestRequest<'r> {
    pub operation: Operation,
    pub part: &'r str,
    pub object: Value,
    pub old: Option<Value>,
    pub query: &'r str,
    pub dry_run: bool,
}

/// The result of an admitted write.
#[derive(Debug)]
pub(super) struct AdmissionOutcome {
    pub object: Value,
    pub warnings: Vec<String>,
    pub notes: BTreeMap<String, String>,
}

impl TestRequest<'_> {
    /// A new object.
    pub(super) fn create(object: Value) -> Self {
        TestRequest {
            operation: Operation::Create,
            part: "",
            object,
            old: None,
            query: "",
            dry_run: false,
        }
    }
}

/// What plugins read.
pub(super) struct TestCluster {
    caches: Arc<WatchCaches>,
    authorizer: Arc<Authorizer>,
    _feed: StoreReflector,
}

/// What a plugin is asked.
pub(super) struct TestAttributes {
    pub operation: Operation,
    pub subresource: String,
    pub namespace: String,
    pub object: Value,
    pub ctx: RequestContext,
    pub dry_run: bool,
    /// Warnings sent to the client.
    pub warnings: Vec<String>,
    resource: Resource,
}

// --- TestAttributes ---

impl TestAttributes {
    /// It, as plugins see it.
    pub(super) fn attributes<'q>(&'q mut self, old: Option<&'q Value>) -> AdmissionAttributes<'q> {
        AdmissionAttributes {
            operation: self.operation,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            object: &mut self.object,
            old,
            ctx: &self.ctx,
            dry_run: self.dry_run,
            warnings: &mut self.warnings,
        }
    }
}

// --- TestCluster ---

impl TestCluster {
    /// A cluster with nothing in it.
    pub(super) async fn new() -> Self {
        Self::over(MemoryStore::new()).await
    }

    /// What a server sees of the cluster in a store.
    pub(super) async fn over(store: Arc<dyn Store>) -> Self {
        let (caches, feed) = WatchCaches::fill(store, registry::selectable).await.unwrap();
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&caches)));
        TestCluster {
            caches,
            authorizer,
            _feed: feed,
        }
    }

    /// Who decides in it.
    pub(super) fn authorizer(&self) -> Arc<Authorizer> {
        Arc::clone(&self.authorizer)
    }

    /// Lets the user that plugins are asked for do what rules allow, besides what was allowed before.
    pub(super) async fn let_tester(&self, rules: &Value) {
        let name = format!("r{}", self.caches.applied());
        let version = "rbac.authorization.k8s.io/v1";
        self.put(
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        )
        .await;
        self.put(json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name}, "subjects": [{"kind": "User", "name": "tester"}],
        }))
        .await;
    }

    /// Puts an object in, as it is.
    pub(super) async fn put(&self, object: Value) {
        let metadata = object.at("metadata");
        let key = self
            .resource(&object)
            .key(metadata.text("namespace"), metadata.text("name"))
            .unwrap();
        let bytes = Bytes::from(encode::encode_stored(object.as_object().unwrap()));
        let revision = self
            .caches
            .store()
            .writable()
            .commit(Write::create(key, bytes))
            .await
            .unwrap();
        self.caches.wait_until_applied(revision).await;
    }

    /// What a plugin makes of a new object, or why it refuses it.
    pub(super) fn admit(&self, plugin: &dyn AdmissionPlugin, object: Value) -> Result<Value, String> {
        self.ask(plugin, Operation::Create, "", object, None)
    }

    /// What a plugin makes of a changed object, or why it refuses it.
    pub(super) fn update(
        &self,
        plugin: &dyn AdmissionPlugin,
        new: Value,
        old: &Value,
    ) -> Result<Value, String> {
        self.update_part(plugin, "", new, old)
    }

    /// The same through a subresource.
    pub(super) fn update_part(
        &self,
        plugin: &dyn AdmissionPlugin,
        part: &str,
        new: Value,
        old: &Value,
    ) -> Result<Value, String> {
        self.ask(plugin, Operation::Update, part, new, Some(old))
    }

    /// Runs a plugin on a deleted object.
    pub(super) fn delete(&self, plugin: &dyn AdmissionPlugin, object: Value) -> Result<Value, String> {
        self.ask(plugin, Operation::Delete, "", object, None)
    }

    fn ask(
        &self,
        plugin: &dyn AdmissionPlugin,
        operation: Operation,
        subresource: &str,
        object: Value,
        old: Option<&Value>,
    ) -> Result<Value, String> {
        let mut question = self.question(operation, subresource, object);
        self.put_to(plugin, &mut question, old)
            .map_err(|status| status.message)?;
        Ok(question.object)
    }

    /// Attributes of a request about an object, by a user without any permission.
    pub(super) fn question(&self, operation: Operation, subresource: &str, object: Value) -> TestAttributes {
        let resource = self.resource(&object);
        let namespace = object.at("metadata").text("namespace").to_owned();
        let user = User {
            name: "tester".to_owned(),
            ..User::default()
        };
        TestAttributes {
            operation,
            subresource: subresource.to_owned(),
            ctx: RequestContext::own(resource.kind.clone(), &namespace, user, Time::from_unix(0, 0)),
            resource,
            namespace,
            object,
            dry_run: false,
            warnings: Vec::new(),
        }
    }

    /// Runs a plugin on attributes: first admit, then validate.
    pub(super) fn put_to(
        &self,
        plugin: &dyn AdmissionPlugin,
        question: &mut TestAttributes,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let mut attributes = question.attributes(old);
        plugin.admit(&mut attributes, &self.caches)?;
        plugin.validate(&mut attributes, &self.caches)
    }

    /// Commits to the store of the cluster.
    pub(super) fn writer(&self) -> StoreWriter {
        StoreWriter::new(Arc::clone(self.caches.store().writable()))
    }

    /// The caches of the cluster.
    pub(super) fn caches(&self) -> &Arc<WatchCaches> {
        &self.caches
    }

    /// All of admission.
    pub(super) fn admission(&self) -> AdmissionChain {
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&self.caches)));
        let outgoing = Arc::new(WebhookClientManager::new(
            Arc::clone(&self.caches),
            Arc::default(),
        ));
        AdmissionChain::new(&authorizer, &outgoing, self.writer())
    }

    /// Takes a write through all of admission.
    pub(super) async fn pass(
        &self,
        admission: &AdmissionChain,
        mut request: TestRequest<'_>,
    ) -> Result<AdmissionOutcome, Status> {
        let resource = self.resource(&request.object);
        let metadata = request.object.at("metadata");
        let namespace = metadata.text("namespace").to_owned();
        let user = User {
            name: "tester".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let mut ctx = RequestContext::own(resource.kind.clone(), &namespace, user, Time::from_unix(0, 0));
        if request.operation != Operation::Create {
            metadata.text("name").clone_into(&mut ctx.target.name);
        }
        ctx.query = Query::parse(request.query);
        let mut warnings = Vec::new();
        let mut attributes = AdmissionAttributes {
            operation: request.operation,
            resource: &resource,
            subresource: request.part,
            namespace: &namespace,
            object: &mut request.object,
            old: request.old.as_ref(),
            ctx: &ctx,
            dry_run: request.dry_run,
            warnings: &mut warnings,
        };
        admission.admit(&mut attributes, &self.caches).await?;
        admission.validate(&mut attributes, &self.caches).await?;
        Ok(AdmissionOutcome {
            object: request.object,
            warnings,
            notes: ctx.notes.all(),
        })
    }

    fn resource(&self, object: &Value) -> Resource {
        let version = object.text("apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let name = object.text("kind");
        let custom = || {
            let definitions = self.caches.definitions().all();
            let mut all = definitions.values();
            all.find_map(|served| served.served(version).filter(|kind| &*kind.kind == name))
        };
        let builtin = builtin().kind(group, version, name).map(KindRef::from);
        let kind = builtin.or_else(custom).unwrap();
        Resource::of(kind, &self.caches)
    }
}

/// A definition of namespaced widgets that is served in two versions, of which the first is stored.
pub(super) fn widgets() -> Value {
    let versions: Vec<Value> = ["v1", "v2"]
        .iter()
        .map(|name| {
            json!({
                "name": name, "served": true, "storage": *name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            })
        })
        .collect();
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
        "status": {"acceptedNames": names, "conditions": [
            {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"},
        ]},
    })
}
