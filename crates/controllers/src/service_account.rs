//! The ServiceAccount controller: creates the service account `default` in every namespace.

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::InformerScope,
    store::Store,
    writer::{ApiWriter, has_status_code},
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::{NAMESPACES, SERVICE_ACCOUNTS},
};

const NAME: &str = "default";

type MetadataOnly = Projection<IgnoredAny>;

// upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go ServiceAccountsController, syncNamespace
struct ServiceAccountController {
    writer: ApiWriter,
    known: Store<Projection<IgnoredAny>>,
    have: Store<Projection<IgnoredAny>>,
}

// upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go ServiceAccountsController, syncNamespace
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let namespaces = context.informer::<MetadataOnly>(&NAMESPACES);
    let scope = InformerScope::default().fields(format!("metadata.name={NAME}"));
    let accounts = context
        .informers
        .projected::<MetadataOnly>(&SERVICE_ACCOUNTS.api_resource(), scope);
    let writer = context.writer.clone();
    let known = namespaces.store().clone();
    let have = accounts.store().clone();
    let runner = context
        .controller("serviceaccount-controller")
        .for_(&namespaces)
        .watches(&accounts, |delta| {
            vec![Key::new("", &delta.object().metadata.namespace)]
        })
        .reconciler(ServiceAccountController { writer, known, have });
    vec![Box::new(runner)]
}

impl Reconciler for ServiceAccountController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let ServiceAccountController { writer, known, have } = self;
        let namespace = request.key.name();
        let wants = known
            .get(&request.key)
            .is_some_and(|namespace| !namespace.metadata.is_terminating());
        if !wants || have.get(&Key::new(namespace, NAME)).is_some() {
            return Ok(Outcome::Done);
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}});
        match writer
            .create::<Value>(&SERVICE_ACCOUNTS, namespace, &account)
            .await
        {
            // It exists already, or the namespace is terminating.
            Err(error)
                if has_status_code(&error, 409)
                    || has_status_code(&error, 403)
                    || has_status_code(&error, 404) =>
            {
                Ok(Outcome::Done)
            }
            other => Ok(other.map(|_| Outcome::Done)?),
        }
    }
}
