//! TokenRequest: the `token` subresource of ServiceAccounts.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::go_values,
    name,
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree, TreeMut},
};

/// Its errors carry no object name.
pub(super) struct TokenRequest;

const HOUR: i64 = 3600;
const MIN_EXPIRATION_SECONDS: i64 = 600;
const MAX_EXPIRATION_SECONDS: i64 = 1 << 32;
const REVIEWED_GROUPS: &str = "admissionReviewAPIGroups";

impl RestStrategy for TokenRequest {
    fn set_defaults(&self, object: &mut Value) {
        object
            .ensure_object("spec")
            .set_default("expirationSeconds", HOUR);
    }

    // upstream: pkg/apis/authentication/validation/validation.go ValidateTokenRequest
    // upstream: pkg/apis/authentication/validation/validation.go ValidateTokenRequest
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        let root = Path::new("spec");
        let seconds = spec.int_or_zero("expirationSeconds");
        let field_path = root.child("expirationSeconds");
        if seconds < MIN_EXPIRATION_SECONDS {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(Error::invalid(&field_path, seconds, detail));
        }
        if seconds > MAX_EXPIRATION_SECONDS {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(Error::invalid(&field_path, seconds, detail));
        }
        let field_path = root.child("attestations");
        if is_for_webhook(spec.at("boundObjectRef")) {
            if spec.items("audiences").len() != 1 {
                let audiences = go_values::json_value(spec.at("audiences"));
                let detail = "must be length 1 when bound to a webhook config";
                errors.push(Error::invalid(&root.child("audiences"), audiences, detail));
            }
            attestations(errors, &field_path, spec);
        } else if !spec.entries("attestations").is_empty() {
            // upstream: pkg/apis/authentication/validation/validation.go ValidateTokenRequest; it returns this error alone
            let attestations = go_values::json_value(spec.at("attestations"));
            let detail = "attestations may only be specified with a webhook bound object reference";
            errors.clear();
            errors.push(Error::invalid(&field_path, attestations, detail));
        }
    }
}

fn is_for_webhook(reference: &Value) -> bool {
    reference.text("apiVersion") == "admissionregistration.k8s.io/v1"
        && matches!(
            reference.text("kind"),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
        )
}

/// A token bound to a webhook configuration must name the API group whose reviews it authenticates.
fn attestations(errors: &mut ErrorList, at: &Path<'_>, spec: &Value) {
    let entries = spec.entries("attestations");
    if entries.len() != 1 {
        let attestations = go_values::json_value(spec.at("attestations"));
        let detail = "webhook bound requests require exactly one admissionReviewAPIGroups attestation";
        errors.push(Error::invalid(at, attestations, detail));
        return;
    }
    for (key, values) in entries {
        let field_path = at.key(key);
        if key != REVIEWED_GROUPS {
            errors.push(Error::not_supported(&field_path, key, [REVIEWED_GROUPS]));
            continue;
        }
        let values = values.as_array().map_or(&[][..], Vec::as_slice);
        let [group] = values else {
            let groups = go_values::json_value(spec.at("attestations").at(key));
            errors.push(Error::invalid(&field_path, groups, "must specify a single value"));
            continue;
        };
        let field_path = field_path.index(0);
        match group.as_str().unwrap_or_default() {
            "" => errors.push(Error::invalid(&field_path, "", "may not be an empty string")),
            "*" => {}
            group => {
                for msg in name::validate_dns1123_subdomain(group) {
                    let detail = format!("must specify a valid API Group: {msg}");
                    errors.push(Error::invalid(&field_path, group, detail));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{kinds::builtin, strategy::User, time::Time};

    fn messages(spec: &Value) -> Vec<String> {
        let mut request = json!({"spec": spec});
        TokenRequest.set_defaults(&mut request);
        let at = StrategyContext {
            kind: builtin().kind("", "v1", "ServiceAccount").unwrap(),
            now: Time::from_unix(0, 0),
            user: &User::default(),
        };
        let mut errors = ErrorList::new();
        TokenRequest.validate(&request, &at, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_expiration_below_ten_minutes() {
        assert!(messages(&json!({})).is_empty());
        assert_eq!(
            messages(&json!({"expirationSeconds": 599})),
            ["spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"]
        );
        assert_eq!(
            messages(&json!({"expirationSeconds": MAX_EXPIRATION_SECONDS + 1})).len(),
            1
        );
    }

    #[test]
    fn rejects_attestations_without_webhook() {
        assert_eq!(
            messages(&json!({"expirationSeconds": 1, "attestations": {"a": ["b"]}})),
            [
                "spec.attestations: Invalid value: {\"a\":[\"b\"]}: attestations may only be specified with a webhook \
                 bound object reference"
            ]
        );
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "name": "m",
        });
        let bound = |attestations: Value| {
            messages(&json!({"boundObjectRef": webhook, "audiences": ["a"], "attestations": attestations}))
        };
        assert!(bound(json!({REVIEWED_GROUPS: ["*"]})).is_empty());
        assert_eq!(bound(json!({"x": []})).len(), 1);
        assert_eq!(
            bound(json!({REVIEWED_GROUPS: [""]})),
            [
                "spec.attestations[admissionReviewAPIGroups][0]: Invalid value: \"\": may not be an empty string"
            ]
        );
    }
}
