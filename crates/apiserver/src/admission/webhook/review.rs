//! AdmissionReview requests and responses of webhooks.

use std::borrow::Cow;

use k3_api::{base64, go, status::Status, strategy::Tree};
use serde_json::{Value, json};

use super::{
    super::versioned_attributes::{VersionedAttributes, VersionedResource},
    accessor::ReviewVersion,
};

/// Whether webhooks may change objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookKind {
    Mutating,
    Validating,
}

/// What a webhook said.
#[derive(Debug, PartialEq)]
pub(super) struct AdmissionResponse {
    pub allowed: bool,
    /// The patch as received; empty for none.
    pub patch: Vec<u8>,
    /// How the patch is written.
    pub patch_type: String,
    /// The `Status` of a refusal; `null` for none.
    pub result: Value,
    pub warnings: Vec<String>,
    pub annotations: Vec<(String, String)>,
}

/// Why the body of an answer is not a review, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewDecodeError {
    #[error("couldn't get version/kind; json parse error: {0}")]
    Syntax(String),
    /// It is JSON of another kind, in Go's word for it.
    #[error(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {0} into Go value of type struct {{ APIVersion \
         string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )]
    NoObject(&'static str),
    /// The webhook answered with an error of its own.
    #[error("{0}")]
    Status(String),
    /// Both quoted.
    #[error(
        "no kind {kind} is registered for version {version} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:72\""
    )]
    Kind { kind: String, version: String },
    #[error("converting ({found}.AdmissionReview) to ({asked}.AdmissionReview): unknown conversion")]
    Version { found: String, asked: String },
}

/// Why a review is no answer to the question.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdmissionResponseError {
    #[error("webhook response was absent")]
    Absent,
    #[error("illegal base64 data in response.patch")]
    PatchEncoding(#[source] base64::Base64Error),
    /// Both quoted.
    #[error("expected response.uid={expected}, got {found}")]
    Uid { expected: String, found: String },
    #[error("expected webhook response of {expected}, Kind=AdmissionReview, got {version}, Kind={kind}")]
    Kind {
        expected: &'static str,
        version: String,
        kind: String,
    },
    /// What is wrong with the patch and its type.
    #[error("{0}")]
    Patch(&'static str),
}

/// The review of a request in a form.
pub(super) fn question(
    subject: &VersionedAttributes<'_>,
    form: &VersionedResource,
    version: ReviewVersion,
    uid: &str,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<Value, Status> {
    let view = |state: Option<&Value>| match state {
        Some(state) => subject.view(state, form).map(Cow::into_owned),
        None => Ok(Value::Null),
    };
    let mut request = subject.request(form);
    request["uid"] = uid.into();
    request["object"] = view(new)?;
    request["oldObject"] = view(old)?;
    Ok(json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request}))
}

/// Reads what a webhook answered to a review, as a client that knows both versions of reviews does.
pub(super) fn decode(answer: &[u8], asked: ReviewVersion) -> Result<Value, ReviewDecodeError> {
    let review: Value =
        serde_json::from_slice(answer).map_err(|error| ReviewDecodeError::Syntax(syntax(answer, &error)))?;
    if !review.is_object() {
        return Err(ReviewDecodeError::NoObject(go_kind(&review)));
    }
    let version = review.text("apiVersion");
    let kind = review.text("kind");
    let is_known = matches!(version, "" | "admission.k8s.io/v1" | "admission.k8s.io/v1beta1")
        && matches!(kind, "" | "AdmissionReview");
    if kind == "Status" && version == "v1" && review.text("status") != "Success" {
        return Err(ReviewDecodeError::Status(review.text("message").to_owned()));
    }
    if !is_known {
        return Err(ReviewDecodeError::Kind {
            kind: go::quote(kind),
            version: go::quote(version),
        });
    }
    if !version.is_empty() && version != asked.api_version() {
        let short = |version: &str| version.rsplit('/').next().unwrap_or_default().to_owned();
        return Err(ReviewDecodeError::Version {
            found: short(version),
            asked: short(asked.api_version()),
        });
    }
    Ok(review)
}

/// Where text ceases to be JSON, in Go's words.
fn syntax(answer: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let first = answer.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(byte) if !matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
            format!(
                "invalid character '{}' looking for beginning of value",
                char::from(*byte)
            )
        }
        _ => error.to_string(),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    }
}

// --- AdmissionResponse ---

impl AdmissionResponse {
    /// Reads a review that was answered; or why it is no answer.
    pub(super) fn read(
        review: &Value,
        asked: ReviewVersion,
        uid: &str,
        sort: WebhookKind,
    ) -> Result<Self, AdmissionResponseError> {
        let response = review.at("response");
        if response.is_null() {
            return Err(AdmissionResponseError::Absent);
        }
        let patch = base64::decode(response.text("patch")).map_err(AdmissionResponseError::PatchEncoding)?;
        let patch_type = response.at("patchType").as_str();
        let patch_type = match asked {
            ReviewVersion::V1 => {
                check(review, asked, uid)?;
                check_patch(&patch, patch_type, sort)?;
                patch_type.unwrap_or_default()
            }
            // Nothing was checked in these times, and there was one sort of patch.
            ReviewVersion::V1Beta1 => "JSONPatch",
        };
        Ok(AdmissionResponse {
            allowed: response.flag("allowed"),
            patch_type: patch_type.to_owned(),
            patch: if sort == WebhookKind::Mutating {
                patch
            } else {
                Vec::new()
            },
            result: response.at("status").clone(),
            warnings: response.texts("warnings").map(str::to_owned).collect(),
            annotations: response
                .entries("auditAnnotations")
                .iter()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
        })
    }
}

/// An answer must be to this question, and say what it is.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go VerifyAdmissionResponse
fn check(review: &Value, asked: ReviewVersion, uid: &str) -> Result<(), AdmissionResponseError> {
    let said = review.at("response").text("uid");
    if said != uid {
        return Err(AdmissionResponseError::Uid {
            expected: go::quote(uid),
            found: go::quote(said),
        });
    }
    let version = review.text("apiVersion");
    let kind = review.text("kind");
    if (version, kind) != (asked.api_version(), "AdmissionReview") {
        let version = if version.is_empty() { "/" } else { version };
        return Err(AdmissionResponseError::Kind {
            expected: asked.api_version(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        });
    }
    Ok(())
}

/// A patch requires a patch type and a mutating webhook.
fn check_patch(
    patch: &[u8],
    patch_type: Option<&str>,
    sort: WebhookKind,
) -> Result<(), AdmissionResponseError> {
    let why = match (sort, patch.is_empty(), patch_type) {
        (WebhookKind::Mutating, false, None) => "webhook returned response.patch but not response.patchType",
        (WebhookKind::Mutating, true, Some(_)) => {
            "webhook returned response.patchType but not response.patch"
        }
        (WebhookKind::Mutating, _, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (WebhookKind::Validating, false, _) => "validating webhook may not return response.patch",
        (WebhookKind::Validating, _, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(AdmissionResponseError::Patch(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(response: &Value, sort: WebhookKind) -> Result<AdmissionResponse, AdmissionResponseError> {
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        AdmissionResponse::read(&review, ReviewVersion::V1, "u", sort)
    }

    #[test]
    fn rejects_response_with_other_uid_or_version() {
        let v1 = |review: &Value| {
            AdmissionResponse::read(review, ReviewVersion::V1, "u", WebhookKind::Mutating)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(v1(&json!({})), "webhook response was absent");
        assert_eq!(
            v1(&json!({"response": {"uid": "x"}})),
            "expected response.uid=\"u\", got \"x\""
        );
        assert_eq!(
            v1(&json!({"response": {"uid": "u"}})),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
        );
        let old = json!({"response": {"allowed": true, "patch": "W10="}});
        let response =
            AdmissionResponse::read(&old, ReviewVersion::V1Beta1, "u", WebhookKind::Mutating).unwrap();
        assert!(response.allowed);
        assert_eq!(
            (response.patch.as_slice(), response.patch_type.as_str()),
            (&b"[]"[..], "JSONPatch")
        );
    }

    #[test]
    fn patch_requires_type_and_mutating_webhook() {
        for (patch, patch_type, sort, why) in [
            (
                json!("W10="),
                json!(null),
                WebhookKind::Mutating,
                "webhook returned response.patch but not response.patchType",
            ),
            (
                json!(null),
                json!("JSONPatch"),
                WebhookKind::Mutating,
                "webhook returned response.patchType but not response.patch",
            ),
            (
                json!("W10="),
                json!(""),
                WebhookKind::Mutating,
                "webhook returned invalid response.patchType of \"\"",
            ),
            (
                json!("W10="),
                json!("JSONPatch"),
                WebhookKind::Validating,
                "validating webhook may not return response.patch",
            ),
            (
                json!(null),
                json!("JSONPatch"),
                WebhookKind::Validating,
                "validating webhook may not return response.patchType",
            ),
        ] {
            let response = json!({"uid": "u", "patch": patch, "patchType": patch_type});
            assert_eq!(read(&response, sort).unwrap_err().to_string(), why);
        }
        assert!(
            read(
                &json!({"uid": "u", "patch": "W10=", "patchType": "JSONPatch"}),
                WebhookKind::Mutating
            )
            .is_ok()
        );
    }

    #[test]
    fn reports_malformed_review() {
        let wrong = |text: &str| {
            decode(text.as_bytes(), ReviewVersion::V1)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            wrong("hello"),
            "couldn't get version/kind; json parse error: invalid character 'h' looking for beginning of value"
        );
        assert_eq!(
            wrong("{"),
            "couldn't get version/kind; json parse error: unexpected end of JSON input"
        );
        assert!(
            wrong(r#"{"kind":"Pod","apiVersion":"v1"}"#)
                .starts_with(r#"no kind "Pod" is registered for version "v1""#)
        );
        assert_eq!(
            wrong(r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#),
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        );
    }
}
