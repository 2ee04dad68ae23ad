//! The HTTP service behind a client, with fault injection.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{client::Body, core::Status};
use serde_json::{Value, json};

use super::{
    FakeApiState,
    call::{ApiCall, CallResult},
    discovery,
    faults::Fault,
    recorded_request::RecordedRequest,
    resource::RequestTarget,
    response_format::ResponseFormat,
    status, watch,
};

/// A connection broken by an injected fault.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("injected fault: the connection broke")]
pub(super) struct ConnectionBroken;

pub(super) type ResponseBody = UnsyncBoxBody<Bytes, ConnectionBroken>;

// --- the service ---

/// Serves a request, or applies the fault injected for it. The request and the code of the response are recorded.
pub(super) async fn serve(
    inner: Arc<FakeApiState>,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, ConnectionBroken> {
    let (parts, body) = request.into_parts();
    let header = |name: header::HeaderName| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let bytes = body.collect_bytes().await.map_err(|_| ConnectionBroken)?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let target = RequestTarget::parse(parts.uri.path());
    let requested = RecordedRequest::new(
        &parts.method,
        &parts.uri,
        header(header::USER_AGENT),
        target.as_ref(),
        body.clone(),
    );
    let fault = inner.faults.of(&requested);
    let verb = requested.verb;
    let response_code = requested.response_code_slot();
    let record = |response: Response<ResponseBody>| {
        response_code.get_or_init(|| response.status().as_u16());
        Ok(response)
    };
    inner.log(requested);
    match fault {
        Some(Fault::Status(code)) => return record(status_response(&status::coded(code))),
        Some(Fault::ConnectionReset) => return Err(ConnectionBroken),
        Some(Fault::Hang) => std::future::pending::<()>().await,
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::LostResponse | Fault::SlowResponse(_)) | None => {}
    }
    let Some(target) = target else {
        let document = discovery::serve(&inner, parts.uri.path(), &header(header::ACCEPT));
        return record(document.map_or_else(
            || status_response(&status::coded(404)),
            |value| json_response(StatusCode::OK, &value),
        ));
    };
    let call = ApiCall {
        verb,
        target,
        query: ApiCall::query(parts.uri.query().unwrap_or_default()),
        view: ResponseFormat::parse(&header(header::ACCEPT)),
        content_type: header(header::CONTENT_TYPE),
        body,
    };
    let result = call.perform(&inner);
    match fault {
        Some(Fault::LostResponse) => return Err(ConnectionBroken),
        Some(Fault::SlowResponse(time)) => tokio::time::sleep(time).await,
        _ => {}
    }
    record(match result {
        Ok(CallResult::Json(code, value)) => json_response(code, &value),
        Ok(CallResult::Watch(request)) => {
            let events = StreamBody::new(watch::start(inner, *request));
            respond(StatusCode::OK, BodyExt::boxed_unsync(events))
        }
        Err(status) => status_response(&status),
    })
}

fn respond(code: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn json_response(code: StatusCode, value: &Value) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never: Infallible| match never {});
    respond(code, BodyExt::boxed_unsync(body))
}

fn status_response(status: &Status) -> Response<ResponseBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(code, &status_json(status))
}

/// A status as a JSON object.
pub(super) fn status_json(status: &Status) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    value["apiVersion"] = "v1".into();
    value["kind"] = "Status".into();
    value["metadata"] = json!({});
    value
}
