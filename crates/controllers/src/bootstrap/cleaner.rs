//! The token cleaner: deletes expired bootstrap tokens.

use kubecontroller::controller::{Outcome, reconcile_fn};

use super::token::{BootstrapToken, RemainingValidity};
use crate::{
    context::{ControllerContext, Task},
    resource::SECRETS,
    writer::{ObjectRef, delete_options_for_uid, has_status_code},
};

// upstream: pkg/controller/bootstrap/tokencleaner.go TokenCleaner, evalSecret
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let tokens = BootstrapToken::informer(context);
    let writer = context.writer.clone();
    let store = tokens.store().clone();
    let clock = context.clock.clone();
    let runner = context
        .controller("token_cleaner")
        .for_(&tokens)
        .reconciler(reconcile_fn(move |request| {
            let writer = writer.clone();
            let token = store.get(&request.key);
            let now = clock.now();
            async move {
                let Some(token) = token else {
                    return Ok(Outcome::Done);
                };
                match token.remaining_validity(now) {
                    RemainingValidity::Forever => Ok(Outcome::Done),
                    RemainingValidity::For(left) => Ok(Outcome::After(left)),
                    RemainingValidity::Expired => {
                        let meta = &token.metadata;
                        let object_ref = ObjectRef::new(&SECRETS, &meta.namespace, &meta.name);
                        match writer
                            .delete(object_ref, &delete_options_for_uid(&meta.uid))
                            .await
                        {
                            Err(error) if has_status_code(&error, 409) => Ok(Outcome::Done),
                            other => Ok(other.map(|()| Outcome::Done)?),
                        }
                    }
                }
            }
        }));
    vec![Box::new(runner)]
}
