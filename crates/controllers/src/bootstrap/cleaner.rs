//! Deletes tokens whose time is over.

use kubecontroller::controller::{Outcome, reconcile_fn};

use super::token::{Left, Token};
use crate::{
    context::{ControllerContext, Task},
    resource::SECRETS,
    writer::{ObjectRef, delete_options_for_uid, has_status_code},
};

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let tokens = Token::informer(context);
    let (writer, store, clock) = (
        context.writer.clone(),
        tokens.store().clone(),
        context.clock.clone(),
    );
    let runner = context
        .controller("token-cleaner-controller")
        .for_(&tokens)
        .reconciler(reconcile_fn(move |request| {
            let (writer, token, now) = (writer.clone(), store.get(&request.key), clock.now());
            async move {
                let Some(token) = token else {
                    return Ok(Outcome::Done);
                };
                match token.left(now) {
                    Left::Ever => Ok(Outcome::Done),
                    Left::For(left) => Ok(Outcome::After(left)),
                    Left::Nothing => {
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
