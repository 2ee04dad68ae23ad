//! HTTP probes and HTTP lifecycle hooks: a GET request succeeds with status 200 to 399.
//!
//! Certificates are not verified: a probe checks the health of the pod, not its identity. Redirects are followed to the same host
//! only: a pod must not make the node send requests to other hosts.
// upstream: pkg/probe/http/http.go DoHTTPProbe

mod connection;
mod location;

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri,
    header::{ACCEPT, CONNECTION, HOST, InvalidHeaderName, InvalidHeaderValue, LOCATION, USER_AGENT},
};
use http_body_util::Empty;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use tokio::time::timeout;

pub use self::location::InvalidUrlError;
use self::{
    connection::{ProbeResponse, RequestError, http_error_message},
    location::{RedirectTarget, format_url, resolve_redirect},
};
use super::{ProbeAttempt, ResolvePortError, port};

/// User agent of probes.
// upstream: pkg/probe/http/request.go userAgent
pub(super) const PROBE_USER_AGENT: &str = "kube-probe/1.37";
const LIFECYCLE_USER_AGENT: &str = "kube-lifecycle/1.37";
/// Number of requests of one probe: the first one and nine redirects. The error message counts them as redirects, as Go's does.
// upstream: pkg/probe/http/http.go RedirectChecker
const MAX_REQUESTS: usize = 10;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPurpose {
    /// A probe.
    Probe,
    /// A lifecycle hook: any response is a success.
    LifecycleHook,
}

/// Why a request has no result: the action is invalid, or the body could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpGetError {
    /// The port of the action is unknown or invalid.
    #[error(transparent)]
    Port(#[from] ResolvePortError),
    /// The action makes no URL.
    #[error(transparent)]
    Url(#[from] InvalidUrlError),
    /// The connection broke while the body was read. The message is that of Go's client.
    #[error("{}", http_error_message(.0))]
    IncompleteBody(#[source] hyper::Error),
}

/// A header of an action that cannot be sent. The messages are those of Go's client.
#[derive(Debug, thiserror::Error)]
enum InvalidHeaderError {
    #[error("net/http: invalid header field name \"{name}\"")]
    Name { name: String, source: InvalidHeaderName },
    #[error("net/http: invalid header field value for \"{name}\"")]
    Value {
        name: HeaderName,
        source: InvalidHeaderValue,
    },
}

/// Sends the request to the host of the action, or to `pod_address` if it has none. An error means that the action is invalid, or
/// that the body could not be read to its end; if the pod does not respond, the result is [`ProbeAttempt::Failure`].
pub async fn get(
    action: &HTTPGetAction,
    container: &Container,
    pod_address: &str,
    purpose: RequestPurpose,
    limit: Duration,
) -> Result<ProbeAttempt, HttpGetError> {
    let port = port::resolve_container_port(&action.port, container)?;
    let url = format_url(action, pod_address, port)?;
    let headers = match request_headers(action, purpose) {
        Ok(headers) => headers,
        Err(error) => return Ok(ProbeAttempt::Failure(format!("Get \"{url}\": {error}"))),
    };
    let timeout_failure = || {
        ProbeAttempt::Failure(format!(
            "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ))
    };
    match timeout(limit, send_following_redirects(&url, &headers, purpose)).await {
        Ok(attempt) => attempt,
        Err(_) => Ok(timeout_failure()),
    }
}

async fn send_following_redirects(
    first_url: &Uri,
    headers: &HeaderMap,
    purpose: RequestPurpose,
) -> Result<ProbeAttempt, HttpGetError> {
    let mut url = first_url.clone();
    let mut headers = headers.clone();
    for _ in 0..MAX_REQUESTS {
        let response = match send_request(&url, &headers).await {
            Ok(response) => response,
            Err(RequestError::NoResponse(reason)) => {
                return Ok(ProbeAttempt::Failure(format!("Get \"{url}\": {reason}")));
            }
            Err(RequestError::IncompleteBody(error)) => return Err(HttpGetError::IncompleteBody(error)),
        };
        let Some(redirect) = redirect_target(&url, &response) else {
            return Ok(evaluate_response(&response, purpose));
        };
        if redirect.uri.host() != first_url.host() {
            return Ok(evaluate_response(&response, purpose));
        }
        // Like Go's client: a custom Host header is kept for relative redirects only.
        if redirect.is_absolute {
            headers.remove(HOST);
        }
        url = redirect.uri;
    }
    Ok(ProbeAttempt::Failure(format!(
        "Get \"{url}\": stopped after {MAX_REQUESTS} redirects"
    )))
}

async fn send_request(url: &Uri, headers: &HeaderMap) -> Result<ProbeResponse, RequestError> {
    let invalid = |error: http::Error| RequestError::NoResponse(error.to_string());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).body(Empty::<Bytes>::new()).map_err(invalid)?;
    *request.headers_mut() = headers.clone();
    if !headers.contains_key(HOST) {
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(|error| invalid(error.into()))?;
        request.headers_mut().insert(HOST, host);
    }
    request
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    connection::send(url, request).await
}

/// The target of a redirect; `None` if the response is none.
fn redirect_target(from: &Uri, response: &ProbeResponse) -> Option<RedirectTarget> {
    let redirect_statuses = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !redirect_statuses.contains(&response.status) {
        return None;
    }
    resolve_redirect(from, response.headers.get(LOCATION)?.to_str().ok()?)
}

// upstream: pkg/probe/http/http.go DoHTTPProbe
fn evaluate_response(response: &ProbeResponse, purpose: RequestPurpose) -> ProbeAttempt {
    let body = String::from_utf8_lossy(&response.body);
    match response.status.as_u16() {
        _ if purpose == RequestPurpose::LifecycleHook => ProbeAttempt::Success(body.into_owned()),
        200..=299 => ProbeAttempt::Success(body.into_owned()),
        300..=399 => ProbeAttempt::Warning(format!("Probe terminated redirects, Response body: {body}")),
        // Without the body: it may be confidential, and the message becomes an event.
        code => ProbeAttempt::Failure(format!("HTTP probe failed with statuscode: {code}")),
    }
}

/// The headers of the action, and defaults for `User-Agent` and `Accept`. An empty `Accept` removes the header.
// upstream: pkg/probe/http/request.go newProbeRequest, v1HeaderToHTTPHeader
fn request_headers(action: &HTTPGetAction, purpose: RequestPurpose) -> Result<HeaderMap, InvalidHeaderError> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let name = &header.name;
        let value = &header.value;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|source| InvalidHeaderError::Name {
            name: name.clone(),
            source,
        })?;
        let value = HeaderValue::from_str(value).map_err(|source| InvalidHeaderError::Value {
            name: name.clone(),
            source,
        })?;
        if name == HOST {
            // A request has one Host header. The first one wins, as upstream.
            headers.entry(HOST).or_insert(value);
        } else {
            headers.append(name, value);
        }
    }
    let user_agent = match purpose {
        RequestPurpose::Probe => PROBE_USER_AGENT,
        RequestPurpose::LifecycleHook => LIFECYCLE_USER_AGENT,
    };
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(user_agent));
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    if headers[ACCEPT].is_empty() {
        headers.remove(ACCEPT);
    }
    Ok(headers)
}
