//! The question whose a token is.

use serde_json::Value;

use crate::{status::Status, strategy::Tree};

/// Why a token review cannot be answered at all; `None` if it can.
pub fn refusal(review: &Value) -> Option<Status> {
    review
        .at("spec")
        .text("token")
        .is_empty()
        .then(|| Status::bad_request("token is required for TokenReview in authentication"))
}
