//! A GET of HTTP: well if it is answered with 200 to 399.
//!
//! Certificates are not checked: it is the pod that is asked whether it is well, not who it is. Redirects are followed on the
//! same host only: a pod must not make its node ask others.

mod connection;
mod location;

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri,
    header::{ACCEPT, CONNECTION, HOST, LOCATION, USER_AGENT},
};
use http_body_util::Empty;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use tokio::time::timeout;

use self::{
    connection::{Answer, Failure},
    location::{address, target},
};
use super::{Found, port};

/// How probes introduce themselves.
pub(super) const AGENT: &str = "kube-probe/1.37";
const LIFECYCLE_AGENT: &str = "kube-lifecycle/1.37";
/// How many redirects are followed.
const REDIRECTS: usize = 10;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A probe.
    Probe,
    /// A hook of the container's life: any answer will do.
    Lifecycle,
}

/// Sends the request to the action's host, or to `address` if it names none. An error means that it could not be sent as asked
/// for, or not be read to its end; what the pod made impossible is [`Found::Unwell`].
pub async fn get(
    action: &HTTPGetAction,
    container: &Container,
    pod_address: &str,
    purpose: Purpose,
    limit: Duration,
) -> Result<Found, String> {
    let port = port::number(&action.port, container)?;
    let url = address(action, pod_address, port)?;
    let headers = match headers(action, purpose) {
        Ok(headers) => headers,
        Err(why) => return Ok(Found::Unwell(format!("Get \"{url}\": {why}"))),
    };
    let late = || {
        Found::Unwell(format!(
            "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ))
    };
    match timeout(limit, follow(&url, &headers, purpose)).await {
        Ok(found) => found,
        Err(_) => Ok(late()),
    }
}

async fn follow(url: &Uri, headers: &HeaderMap, purpose: Purpose) -> Result<Found, String> {
    let mut at = url.clone();
    let mut headers = headers.clone();
    for _ in 0..=REDIRECTS {
        let answer = match ask(&at, &headers).await {
            Ok(answer) => answer,
            Err(Failure::Before(why)) => return Ok(Found::Unwell(format!("Get \"{at}\": {why}"))),
            Err(Failure::InBody(why)) => return Err(why),
        };
        let Some(next) = redirected(&at, &answer) else {
            return Ok(judge(&answer, purpose));
        };
        if next.uri.host() != url.host() {
            return Ok(judge(&answer, purpose));
        }
        if next.is_absolute {
            headers.remove(HOST);
        }
        at = next.uri;
    }
    Ok(Found::Unwell(format!(
        "Get \"{at}\": stopped after {REDIRECTS} redirects"
    )))
}

async fn ask(url: &Uri, headers: &HeaderMap) -> Result<Answer, Failure> {
    let bad = |error: http::Error| Failure::Before(error.to_string());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).body(Empty::<Bytes>::new()).map_err(bad)?;
    *request.headers_mut() = headers.clone();
    if !headers.contains_key(HOST) {
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(|error| bad(error.into()))?;
        request.headers_mut().insert(HOST, host);
    }
    request
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    connection::send(url, request).await
}

/// Where an answer leads, if it leads on.
fn redirected(from: &Uri, answer: &Answer) -> Option<location::Target> {
    let leads = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !leads.contains(&answer.status) {
        return None;
    }
    target(from, answer.headers.get(LOCATION)?.to_str().ok()?)
}

fn judge(answer: &Answer, purpose: Purpose) -> Found {
    let body = String::from_utf8_lossy(&answer.body);
    match answer.status.as_u16() {
        _ if purpose == Purpose::Lifecycle => Found::Well(body.into_owned()),
        200..=299 => Found::Well(body.into_owned()),
        300..=399 => Found::Warning(format!("Probe terminated redirects, Response body: {body}")),
        // What a pod answers with may be meant for nobody else.
        code => Found::Unwell(format!("HTTP probe failed with statuscode: {code}")),
    }
}

/// Those of the action, and how we introduce ourselves unless they say so. An empty `Accept` is none.
fn headers(action: &HTTPGetAction, purpose: Purpose) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let name = &header.name;
        let value = &header.value;
        let bad_name = |_| format!("net/http: invalid header field name \"{name}\"");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(bad_name)?;
        let bad_value = |_| format!("net/http: invalid header field value for \"{name}\"");
        let value = HeaderValue::from_str(value).map_err(bad_value)?;
        if name == HOST {
            // There is one host, and the first that is named is it.
            headers.entry(HOST).or_insert(value);
        } else {
            headers.append(name, value);
        }
    }
    let agent = match purpose {
        Purpose::Probe => AGENT,
        Purpose::Lifecycle => LIFECYCLE_AGENT,
    };
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(agent));
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    if headers[ACCEPT].is_empty() {
        headers.remove(ACCEPT);
    }
    Ok(headers)
}
