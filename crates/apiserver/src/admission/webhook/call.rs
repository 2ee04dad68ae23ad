//! Asking one webhook.

use bytes::Bytes;
use k3_api::{
    go,
    status::{Status, StatusCause, StatusDetails},
    strategy::Tree,
};
use serde_json::Value;

use super::{
    super::subject::{Form, Subject},
    hook::{Hook, SideEffects},
    review::{self, Sort, Verdict},
};
use crate::{outgoing::Outgoing, registry::random_uid};

/// Why a webhook's word does not let a request go on.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It could not be asked; whether the request fails is for its configuration to say.
    Call(String),
    /// It was asked, and the request fails.
    Denied(Box<Status>),
}

/// The code of a refusal that says none, and the last that HTTP has.
const LEAST_CODE: u16 = 400;
const MOST_CODE: u16 = 999;

/// Asks a webhook about a request in a form.
pub(super) async fn ask(
    outgoing: &Outgoing,
    hook: &Hook,
    sort: Sort,
    subject: &Subject<'_>,
    form: &Form,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<Verdict, Refusal> {
    if subject.dry_run {
        match hook.side_effects {
            SideEffects::Harmless => {}
            SideEffects::Some => {
                return Err(Refusal::denied(Status::bad_request(format!(
                    "admission webhook {} does not support dry run",
                    go::quote(&hook.name)
                ))));
            }
            SideEffects::Unsaid => return Err(Refusal::Call("Webhook SideEffects is nil".to_owned())),
        }
    }
    let Some(version) = hook.review else {
        return Err(Refusal::Call(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned(),
        ));
    };
    let client = hook
        .client
        .as_ref()
        .map_err(|error| Refusal::Call(format!("could not get REST client: {error}")))?;
    let uid = random_uid();
    let question = review::question(subject, form, version, &uid, new, old).map_err(Refusal::denied)?;
    let body = serde_json::to_vec(&question).expect("a tree can be written");
    let answer = outgoing
        .post(client, Bytes::from(body), hook.timeout)
        .await
        .map_err(|error| error.to_string())
        .and_then(|answer| review::decode(&answer, version))
        .map_err(|why| Refusal::Call(format!("failed to call webhook: {why}")))?;
    Verdict::read(&answer, version, &uid, sort)
        .map_err(|why| Refusal::Call(format!("received invalid webhook response: {why}")))
}

/// The answer to a request that a webhook denies.
pub(super) fn denial(hook: &Hook, result: &Value) -> Status {
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
        code: code.unwrap_or_default().clamp(LEAST_CODE, MOST_CODE),
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

// --- Refusal ---

impl Refusal {
    pub(super) fn denied(status: Status) -> Self {
        Refusal::Denied(Box::new(status))
    }

    /// The answer to the client; `None` if the request goes on without this webhook's word.
    pub(super) fn status(self, hook: &Hook) -> Option<Status> {
        match self {
            Refusal::Denied(status) => Some(*status),
            Refusal::Call(why) => {
                let text = format!("failed calling webhook {}: {why}", go::quote(&hook.name));
                if hook.fails_open {
                    tracing::warn!(
                        webhook = hook.name,
                        error = text,
                        "a webhook failed; going on without it"
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

    fn hook() -> Hook {
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "h.example.com"}]});
        let hook = Hook::read_all(&configuration).pop().unwrap();
        std::sync::Arc::into_inner(hook).unwrap()
    }

    #[test]
    fn a_denial_says_who_denies_and_why() {
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
    fn a_denial_keeps_code_reason_and_details_but_is_never_a_success() {
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
