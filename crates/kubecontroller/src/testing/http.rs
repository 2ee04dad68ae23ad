//! The service behind a client: what a test has planned for a request, then its answer.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{client::Body, core::Status};
use serde_json::{Value, json};

use super::{
    Inner,
    call::{ApiCall, CallResult},
    discovery,
    faults::Fault,
    recorded_request::RecordedRequest,
    resource::Target,
    status,
    view::View,
    watch,
};

/// The connection broke, because a test said so.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the connection broke, as the test said")]
pub(super) struct Broken;

pub(super) type AnswerBody = UnsyncBoxBody<Bytes, Broken>;

// --- the service ---

/// Answers a request, or suffers what the test has planned for it.
pub(super) async fn serve(inner: Arc<Inner>, request: Request<Body>) -> Result<Response<AnswerBody>, Broken> {
    let (parts, body) = request.into_parts();
    let header = |name: header::HeaderName| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let bytes = body.collect_bytes().await.map_err(|_| Broken)?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let target = Target::parse(parts.uri.path());
    let requested = RecordedRequest::new(
        &parts.method,
        &parts.uri,
        header(header::USER_AGENT),
        target.as_ref(),
        body.clone(),
    );
    let fault = inner.faults.of(&requested);
    let verb = requested.verb;
    inner.log(requested);
    match fault {
        Some(Fault::Status(code)) => return Ok(refusal(&status::coded(code))),
        Some(Fault::Broken) => return Err(Broken),
        Some(Fault::Hang) => std::future::pending::<()>().await,
        Some(Fault::Late(time)) => tokio::time::sleep(time).await,
        Some(Fault::Lost | Fault::SlowAnswer(_)) | None => {}
    }
    let Some(target) = target else {
        return Ok(
            discovery::answer(&inner, parts.uri.path(), &header(header::ACCEPT)).map_or_else(
                || refusal(&status::coded(404)),
                |value| json_response(StatusCode::OK, &value),
            ),
        );
    };
    let call = ApiCall {
        verb,
        target,
        query: ApiCall::query(parts.uri.query().unwrap_or_default()),
        view: View::parse(&header(header::ACCEPT)),
        content_type: header(header::CONTENT_TYPE),
        body,
    };
    let answer = call.answer(&inner);
    match fault {
        Some(Fault::Lost) => return Err(Broken),
        Some(Fault::SlowAnswer(time)) => tokio::time::sleep(time).await,
        _ => {}
    }
    Ok(match answer {
        Ok(CallResult::Json(code, value)) => json_response(code, &value),
        Ok(CallResult::Watch(request)) => {
            let events = StreamBody::new(watch::start(inner, *request));
            respond(StatusCode::OK, BodyExt::boxed_unsync(events))
        }
        Err(status) => refusal(&status),
    })
}

fn respond(code: StatusCode, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn json_response(code: StatusCode, value: &Value) -> Response<AnswerBody> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never: Infallible| match never {});
    respond(code, BodyExt::boxed_unsync(body))
}

fn refusal(status: &Status) -> Response<AnswerBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(code, &status_json(status))
}

/// A status as an object.
pub(super) fn status_json(status: &Status) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    value["apiVersion"] = "v1".into();
    value["kind"] = "Status".into();
    value["metadata"] = json!({});
    value
}
