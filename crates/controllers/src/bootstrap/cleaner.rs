//! The token cleaner: deletes expired bootstrap tokens.

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
    writer::{ApiWriter, ObjectRef, delete_options_for_uid, has_status_code},
};

use super::token::{BootstrapToken, RemainingValidity};
use crate::{
    context::{ControllerContext, Task},
    resource::SECRETS,
};

// upstream: pkg/controller/bootstrap/tokencleaner.go TokenCleaner, evalSecret
struct TokenCleaner {
    writer: ApiWriter,
    store: Store<BootstrapToken>,
    clock: Clock,
}

// upstream: pkg/controller/bootstrap/tokencleaner.go TokenCleaner, evalSecret
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let tokens = BootstrapToken::informer(context);
    let writer = context.writer.clone();
    let store = tokens.store().clone();
    let clock = context.clock.clone();
    let runner = context
        .controller("token-cleaner-controller")
        .for_(&tokens)
        .reconciler(TokenCleaner { writer, store, clock });
    vec![Box::new(runner)]
}

impl Reconciler for TokenCleaner {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let TokenCleaner { writer, store, clock } = self;
        let token = store.get(&request.key);
        let now = clock.now();
        let Some(token) = token else {
            return Ok(Outcome::Done);
        };
        match token.remaining_validity(now) {
            RemainingValidity::Forever => Ok(Outcome::Done),
            RemainingValidity::For(left) => Ok(Outcome::RequeueAfter(left)),
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
}
