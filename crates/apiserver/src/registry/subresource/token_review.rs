//! Whose a token is, for those who are shown one and do not know.

use k3_api::{
    strategy::{Tree, TreeMut},
    time::Time,
};
use serde_json::{Value, json};

use super::review::user_info;
use crate::{authn::Reviewed, registry::Registry};

// --- Registry ---

impl Registry {
    /// The status of a review of a token.
    pub(super) async fn token_status(&self, spec: &Value, now: Time) -> Value {
        let audiences: Vec<String> = spec.texts("audiences").map(str::to_owned).collect();
        let reviewed = self
            .authenticator
            .review(spec.text("token"), &audiences, now)
            .await;
        match reviewed {
            Reviewed::Known(known) => json!({
                "authenticated": true,
                "user": user_info(&known.user),
                "audiences": known.audiences,
            }),
            Reviewed::Unknown(reason) => {
                let mut status = json!({"user": {}});
                if let Some(reason) = reason {
                    status.set("error", reason);
                }
                status
            }
        }
    }
}
