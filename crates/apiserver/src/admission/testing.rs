//! A small cluster for the tests of plugins.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use k3_api::{
    encode,
    kinds::builtin,
    rules::{Tree, User},
    status::Status,
    time::Time,
};
use k3_storage::{StorageConfig, Write};
use serde_json::Value;

use super::{Admission, Attributes, Operation, Plugin};
use crate::{
    authz::Authorizer,
    cache::{Caches, Feed},
    outgoing::Outgoing,
    registry::{self, Ask, Resource},
    request::Query,
};

/// A write, as all of admission sees it.
pub(super) struct Request<'r> {
    pub operation: Operation,
    pub part: &'r str,
    pub object: Value,
    pub old: Option<Value>,
    pub query: &'r str,
    pub dry_run: bool,
}

/// What came of a write.
#[derive(Debug)]
pub(super) struct Passed {
    pub object: Value,
    pub warnings: Vec<String>,
    pub notes: BTreeMap<String, String>,
}

impl Request<'_> {
    /// A new object.
    pub(super) fn create(object: Value) -> Self {
        Request {
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
pub(super) struct World {
    caches: Arc<Caches>,
    _feed: Feed,
}

impl World {
    /// A cluster with nothing in it.
    pub(super) async fn new() -> Self {
        let store = k3_storage::open(StorageConfig::Memory).await.unwrap();
        let (caches, feed) = Caches::fill(store, registry::selectable).await.unwrap();
        World { caches, _feed: feed }
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
            .commit(Write::create(key, bytes))
            .await
            .unwrap();
        self.caches.reach(revision.get()).await;
    }

    /// What a plugin makes of a new object, or why it refuses it.
    pub(super) fn admit(&self, plugin: &dyn Plugin, object: Value) -> Result<Value, String> {
        self.ask(plugin, Operation::Create, "", object, None)
    }

    /// What a plugin makes of a changed object, or why it refuses it.
    pub(super) fn update(&self, plugin: &dyn Plugin, new: Value, old: &Value) -> Result<Value, String> {
        self.update_part(plugin, "", new, old)
    }

    /// The same through a subresource.
    pub(super) fn update_part(
        &self,
        plugin: &dyn Plugin,
        part: &str,
        new: Value,
        old: &Value,
    ) -> Result<Value, String> {
        self.ask(plugin, Operation::Update, part, new, Some(old))
    }

    /// What a plugin says of an object that goes.
    pub(super) fn delete(&self, plugin: &dyn Plugin, object: Value) -> Result<Value, String> {
        self.ask(plugin, Operation::Delete, "", object, None)
    }

    fn ask(
        &self,
        plugin: &dyn Plugin,
        operation: Operation,
        subresource: &str,
        mut object: Value,
        old: Option<&Value>,
    ) -> Result<Value, String> {
        let resource = self.resource(&object);
        let namespace = object.at("metadata").text("namespace").to_owned();
        let user = User {
            name: "tester".to_owned(),
            ..User::default()
        };
        let ask = Ask::own(resource.kind.clone(), &namespace, user, Time::from_unix(0, 0));
        let mut attributes = Attributes {
            operation,
            resource: &resource,
            subresource,
            namespace: &namespace,
            object: &mut object,
            old,
            ask: &ask,
            dry_run: false,
            warnings: &mut Vec::new(),
        };
        plugin
            .admit(&mut attributes, &self.caches)
            .and_then(|()| plugin.validate(&mut attributes, &self.caches))
            .map_err(|status| status.message)?;
        Ok(object)
    }

    /// All of admission.
    pub(super) fn admission(&self) -> Admission {
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&self.caches)));
        let outgoing = Arc::new(Outgoing::new(Arc::clone(&self.caches)));
        Admission::new(&authorizer, &outgoing)
    }

    /// Takes a write through all of admission.
    pub(super) async fn pass(
        &self,
        admission: &Admission,
        mut request: Request<'_>,
    ) -> Result<Passed, Status> {
        let resource = self.resource(&request.object);
        let metadata = request.object.at("metadata");
        let namespace = metadata.text("namespace").to_owned();
        let user = User {
            name: "tester".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let mut ask = Ask::own(resource.kind.clone(), &namespace, user, Time::from_unix(0, 0));
        if request.operation != Operation::Create {
            metadata.text("name").clone_into(&mut ask.target.name);
        }
        ask.query = Query::parse(request.query);
        let mut warnings = Vec::new();
        let mut attributes = Attributes {
            operation: request.operation,
            resource: &resource,
            subresource: request.part,
            namespace: &namespace,
            object: &mut request.object,
            old: request.old.as_ref(),
            ask: &ask,
            dry_run: request.dry_run,
            warnings: &mut warnings,
        };
        admission.admit(&mut attributes, &self.caches).await?;
        admission.validate(&mut attributes, &self.caches).await?;
        Ok(Passed {
            object: request.object,
            warnings,
            notes: ask.notes.all(),
        })
    }

    fn resource(&self, object: &Value) -> Resource {
        let version = object.text("apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        Resource::of(
            builtin().kind(group, version, object.text("kind")).unwrap(),
            &self.caches,
        )
    }
}
