//! CustomResourceConversion: how objects of one version are converted to another.

use serde_json::Value;

use super::ca_bundle;
use crate::{
    field::{Error, Path},
    kinds::webhook_client::{self, REVIEW_VERSIONS},
    strategy::{ErrorList, Tree},
};

/// Which rules apply, depending on the old definition.
#[derive(Clone, Copy)]
pub(super) struct ConversionValidationOptions {
    /// The webhook must accept a review version that this server sends.
    pub(super) known_version: bool,
    /// The CA bundle must be valid.
    pub(super) certificates: bool,
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceConversion
pub(super) fn validate_conversion(
    conversion: &Value,
    options: ConversionValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
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
            if options.certificates && !config.text("caBundle").is_empty() {
                ca_bundle::validate_ca_bundle(config.at("caBundle"), &config_at.child("caBundle"), errors);
            }
        }
        webhook_client::validate_review_versions(versions, "", &versions_at, errors);
        if options.known_version {
            webhook_client::validate_known_review_version(versions, &versions_at, errors);
        }
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

/// Whether an old conversion accepts a review version that this server sends, or none at all.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go hasValidConversionReviewVersionOrEmpty
pub(super) fn has_known_review_version_or_empty(conversion: &Value) -> bool {
    let mut versions = conversion
        .at("webhook")
        .texts("conversionReviewVersions")
        .peekable();
    versions.peek().is_none() || versions.any(|version| REVIEW_VERSIONS.contains(&version))
}
