//! How the versions of a defined kind become each other.

use serde_json::Value;

use super::bundle;
use crate::{
    field::{Error, Path},
    kinds::webhook_client::{self, REVIEW_VERSIONS},
    rules::{Errors, Tree},
};

/// What is asked of a conversion.
#[derive(Clone, Copy)]
pub(super) struct Demands {
    /// The webhook must take a review of a version this server writes.
    pub(super) known_version: bool,
    /// The certificates must be some.
    pub(super) certificates: bool,
}

/// What is wrong with a conversion.
pub(super) fn validate(conversion: &Value, demands: Demands, at: &Path<'_>, errors: &mut Errors) {
    if conversion.is_null() {
        return;
    }
    let strategy = conversion.text("strategy");
    match strategy {
        "" => errors.push(Error::required(&at.child("strategy"), "")),
        "None" | "Webhook" => {}
        _ => errors.push(Error::not_supported(
            &at.child("strategy"),
            strategy,
            ["None", "Webhook"],
        )),
    }
    let config = conversion.at("webhook").at("clientConfig");
    let versions = conversion.at("webhook").at("conversionReviewVersions");
    let config_at = at.child("webhookClientConfig");
    let versions_at = at.child("conversionReviewVersions");
    if strategy == "Webhook" {
        if config.is_null() {
            let detail = "required when strategy is set to Webhook";
            errors.push(Error::required(&config_at, detail));
        } else {
            webhook_client::validate_client_config(config, &config_at, errors);
            if demands.certificates && !config.text("caBundle").is_empty() {
                bundle::validate(config.at("caBundle"), &config_at.child("caBundle"), errors);
            }
        }
        webhook_client::validate_review_versions(versions, demands.known_version, "", &versions_at, errors);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if !config.is_null() {
        errors.push(Error::forbidden(&config_at, detail));
    }
    if versions.as_array().is_some_and(|versions| !versions.is_empty()) {
        errors.push(Error::forbidden(&versions_at, detail));
    }
}

/// Whether the reviews of an old conversion are of a version this server writes, or of none.
pub(super) fn is_known(conversion: &Value) -> bool {
    let mut versions = conversion
        .at("webhook")
        .texts("conversionReviewVersions")
        .peekable();
    versions.peek().is_none() || versions.any(|version| REVIEW_VERSIONS.contains(&version))
}
