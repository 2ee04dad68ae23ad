//! TokenReview: asks which user a token authenticates.

use serde_json::Value;

use crate::{status::Status, strategy::Tree};

/// The error of a review that is not evaluated; `None` if it is valid.
// upstream: pkg/registry/authentication/tokenreview/storage.go Create
pub fn validate_token_review(review: &Value) -> Option<Status> {
    review
        .at("spec")
        .text("token")
        .is_empty()
        .then(|| Status::bad_request("token is required for TokenReview in authentication"))
}
