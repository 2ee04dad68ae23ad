//! TokenReview: authenticates a token for a client.

use k3_api::{
    strategy::{Tree, TreeMut},
    time::Time,
};
use serde_json::{Value, json};

use super::review::{ReviewStorage, user_info};
use crate::authn::TokenReviewResult;

// --- ReviewStorage ---

impl ReviewStorage {
    /// The status of a TokenReview.
    // upstream: pkg/registry/authentication/tokenreview/storage.go Create
    pub(super) async fn token_status(&self, spec: &Value, now: Time) -> Value {
        let audiences: Vec<String> = spec.texts("audiences").map(str::to_owned).collect();
        let reviewed = self
            .authenticator
            .review(spec.text("token"), &audiences, now)
            .await;
        match reviewed {
            TokenReviewResult::Authenticated(known) => json!({
                "authenticated": true,
                "user": user_info(&known.user),
                "audiences": known.audiences,
            }),
            TokenReviewResult::Unknown(reason) => {
                let mut status = json!({"user": {}});
                if let Some(reason) = reason {
                    status.set("error", reason);
                }
                status
            }
        }
    }
}
