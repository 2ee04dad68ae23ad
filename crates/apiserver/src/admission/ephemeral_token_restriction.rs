//! Restricts writes of Secrets that hold ephemeral tokens.
//!
//! Promise: only members of `system:masters` create or change a secret that is an ephemeral token. Permission to write secrets
//! in `kube-system` must not be permission to become any user.

use super::{AdmissionAttributes, AdmissionPlugin, Operation};
use crate::{authn::EphemeralToken, cache::WatchCaches};
use k3_api::status::Status;

const MASTERS: &str = "system:masters";

pub(super) struct EphemeralTokenRestriction;

// upstream: plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go AuthenticateToken; upstream has no such plugin: bootstrap tokens are limited to bootstrapper groups, ephemeral tokens are not
impl AdmissionPlugin for EphemeralTokenRestriction {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, _: &WatchCaches) -> Result<(), Status> {
        let was_token = attributes.old.is_some_and(EphemeralToken::is);
        let is_token = EphemeralToken::is(attributes.object);
        // Deletion is allowed: it only revokes a token.
        if attributes.operation == Operation::Delete
            || !attributes.is_of("", "secrets")
            || !(is_token || was_token)
        {
            return Ok(());
        }
        if !attributes.ctx.user.groups.iter().any(|group| group == MASTERS) {
            let why = "tokens for users are made by members of system:masters alone (k3 token create)";
            return Err(attributes.forbidden(why));
        }
        let token = EphemeralToken::read(attributes.object).map_err(|error| attributes.forbidden(error))?;
        if token.expires <= attributes.ctx.now {
            return Err(attributes.forbidden("its expiration has passed"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn rejects_ephemeral_token_secret_of_non_master() {
        let world = TestCluster::new().await;
        let token = EphemeralToken::issue("root", &[], Duration::from_mins(1), UNIX_EPOCH).0;
        let secret = token.to_secret();
        let refused = world
            .admit(&EphemeralTokenRestriction, secret.clone())
            .unwrap_err();
        assert!(refused.contains("system:masters alone"), "{refused}");
        let mut harmless = secret.clone();
        harmless["type"] = json!("Opaque");
        assert!(world.admit(&EphemeralTokenRestriction, harmless.clone()).is_ok());
        for (new, old) in [(&secret, &harmless), (&harmless, &secret), (&secret, &secret)] {
            assert!(
                world
                    .update(&EphemeralTokenRestriction, new.clone(), old)
                    .is_err()
            );
        }
        assert!(world.delete(&EphemeralTokenRestriction, secret).is_ok());
    }
}
