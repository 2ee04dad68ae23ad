//! Every namespace has a service account `default`.

use kubecontroller::{
    Key,
    controller::{Outcome, reconcile_fn},
    informer::Scope,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::{NAMESPACES, SERVICE_ACCOUNTS},
    writer::has_status_code,
};

const NAME: &str = "default";

type Bare = Projection<IgnoredAny>;

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let namespaces = context.informer::<Bare>(&NAMESPACES);
    let scope = Scope::default().fields(format!("metadata.name={NAME}"));
    let accounts = context
        .informers
        .projected::<Bare>(&SERVICE_ACCOUNTS.api_resource(), scope);
    let (writer, known) = (context.writer.clone(), namespaces.store().clone());
    let have = accounts.store().clone();
    let runner = context
        .controller("serviceaccount-controller")
        .for_(&namespaces)
        .watches(&accounts, |delta| {
            vec![Key::new("", &delta.object().metadata.namespace)]
        })
        .reconciler(reconcile_fn(move |request| {
            let (writer, known, have) = (writer.clone(), known.clone(), have.clone());
            async move {
                let namespace = request.key.name();
                let wants = known
                    .get(&request.key)
                    .is_some_and(|namespace| !namespace.metadata.is_going());
                if !wants || have.get(&Key::new(namespace, NAME)).is_some() {
                    return Ok(Outcome::Done);
                }
                let account =
                    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}});
                match writer
                    .create::<Value>(&SERVICE_ACCOUNTS, namespace, &account)
                    .await
                {
                    // Another was faster, or the namespace is going by now.
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
        }));
    vec![Box::new(runner)]
}
