//! Calls one admission webhook and handles its failure policy.

use bytes::Bytes;
use k3_api::{
    go,
    status::{Status, StatusCause, StatusDetails},
    strategy::Tree,
};
use serde_json::Value;

use super::{
    super::{
        failure_policy::FailurePolicy,
        versioned_attributes::{VersionedAttributes, VersionedResource},
    },
    accessor::{SideEffects, WebhookAccessor},
    review::{self, AdmissionResponse, WebhookKind},
};
use crate::{outgoing::WebhookClientManager, registry::random_uid};

/// Why a webhook's word does not let a request go on.
#[derive(Debug)]
pub(super) enum WebhookError {
    /// It could not be asked; whether the request fails is for its configuration to say.
    Call(String),
    /// It was asked, and the request fails.
    Denied(Box<Status>),
}

/// The default and the maximum code of a denial.
const MIN_CODE: u16 = 400;
const MAX_CODE: u16 = 999;

/// Asks a webhook about a request in a form.
pub(super) async fn call_webhook(
    outgoing: &WebhookClientManager,
    hook: &WebhookAccessor,
    sort: WebhookKind,
    subject: &VersionedAttributes<'_>,
    form: &VersionedResource,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<AdmissionResponse, WebhookError> {
    if subject.dry_run {
        match hook.side_effects {
            SideEffects::Harmless => {}
            SideEffects::Some => {
                return Err(WebhookError::denied(Status::bad_request(format!(
                    "admission webhook {} does not support dry run",
                    go::quote(&hook.name)
                ))));
            }
            SideEffects::Unsaid => return Err(WebhookError::Call("Webhook SideEffects is nil".to_owned())),
        }
    }
    let Some(version) = hook.review else {
        return Err(WebhookError::Call(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned(),
        ));
    };
    let client = hook
        .client
        .as_ref()
        .map_err(|error| WebhookError::Call(format!("could not get REST client: {error}")))?;
    let uid = random_uid();
    let question = review::question(subject, form, version, &uid, new, old).map_err(WebhookError::denied)?;
    let body = serde_json::to_vec(&question).expect("a tree can be written");
    let answer = outgoing
        .post(client, Bytes::from(body), hook.timeout)
        .await
        .map_err(|error| error.to_string())
        .and_then(|answer| review::decode(&answer, version).map_err(|error| error.to_string()))
        .map_err(|why| WebhookError::Call(format!("failed to call webhook: {why}")))?;
    AdmissionResponse::read(&answer, version, &uid, sort)
        .map_err(|why| WebhookError::Call(format!("received invalid webhook response: {why}")))
}

/// The answer to a request that a webhook denies.
// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go ToStatusErr
pub(super) fn denial(hook: &WebhookAccessor, result: &Value) -> Status {
    let by = format!("admission webhook {} denied the request", go::quote(&hook.name));
    let code = result.int("code").and_then(|code| u16::try_from(code).ok());
    let message = match (result.text("message"), result.text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let details = result.at("details");
    let details = (!details.is_null()).then(|| {
        Box::new(StatusDetails {
            name: details.text("name").to_owned(),
            group: details.text("group").to_owned(),
            kind: details.text("kind").to_owned(),
            uid: details.text("uid").to_owned(),
            causes: details.items("causes").iter().map(cause).collect(),
            retry_after_seconds: details
                .int("retryAfterSeconds")
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or_default(),
        })
    });
    Status {
        code: code.unwrap_or_default().clamp(MIN_CODE, MAX_CODE),
        word: result.text("reason").into(),
        message,
        details,
        ..Status::unknown(String::new())
    }
}

fn cause(cause: &Value) -> StatusCause {
    StatusCause {
        reason: cause.text("reason").to_owned(),
        message: cause.text("message").to_owned(),
        field: cause.text("field").to_owned(),
    }
}

// --- WebhookError ---

impl WebhookError {
    pub(super) fn denied(status: Status) -> Self {
        WebhookError::Denied(Box::new(status))
    }

    /// The response to the client; `None` if the failure is ignored.
    pub(super) fn status(self, hook: &WebhookAccessor) -> Option<Status> {
        match self {
            WebhookError::Denied(status) => Some(*status),
            WebhookError::Call(why) => {
                let text = format!("failed calling webhook {}: {why}", go::quote(&hook.name));
                if hook.failure_policy == FailurePolicy::Ignore {
                    tracing::warn!(
                        webhook = hook.name,
                        error = text,
                        "webhook failed and failurePolicy is Ignore"
                    );
                    return None;
                }
                Some(Status::internal_error(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hook() -> WebhookAccessor {
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "h.example.com"}]});
        let hook = WebhookAccessor::read_all(&configuration).pop().unwrap();
        std::sync::Arc::into_inner(hook).unwrap()
    }

    #[test]
    fn denial_names_webhook_and_reason() {
        let message = |result: Value| denial(&hook(), &result).message;
        let by = r#"admission webhook "h.example.com" denied the request"#;
        assert_eq!(message(json!(null)), format!("{by} without explanation"));
        assert_eq!(message(json!({"reason": "Because"})), format!("{by}: Because"));
        assert_eq!(
            message(json!({"reason": "Because", "message": "no"})),
            format!("{by}: no")
        );
    }

    #[test]
    fn denial_keeps_code_and_details_but_is_never_success() {
        let status = denial(
            &hook(),
            &json!({"status": "Success", "code": 200, "reason": "Own", "details": {"causes": [{"field": "a", "message": "b"}]}}),
        );
        assert_eq!(status.code, 400);
        assert_eq!(
            status.to_value(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Own", "code": 400,
                "message": "admission webhook \"h.example.com\" denied the request: Own",
                "details": {"causes": [{"field": "a", "message": "b"}]}})
        );
        assert_eq!(denial(&hook(), &json!({"code": 418})).code, 418);
    }
}
