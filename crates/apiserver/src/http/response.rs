//! Builds responses: objects, statuses, texts, warnings.

use std::collections::HashSet;

use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{self, WARNING},
};
use http_body_util::BodyExt;
use k3_api::{decode, encode, protobuf, schema::schema, status::Status};

use super::{Format, JsonLayout, ResponseBody, status_limit::bound};

/// An answer: a status code, headers, a body.
pub(crate) type HttpResponse = Response<ResponseBody>;

/// A body of a media type.
pub(crate) fn answer(code: u16, media: &'static str, body: impl Into<ResponseBody>) -> HttpResponse {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut answer, header::CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}

/// A text.
pub(crate) fn text(code: u16, text: impl Into<String>) -> HttpResponse {
    let mut answer = answer(code, "text/plain; charset=utf-8", text.into());
    set(
        &mut answer,
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

/// A JSON text in the negotiated format.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go SerializeObject
pub(crate) fn json(code: u16, text: Vec<u8>, format: Format, layout: JsonLayout) -> HttpResponse {
    match format {
        Format::Yaml => {
            // Text of this server: an error means that it is nested deeper than anything that is accepted.
            match decode::tree_of(&text) {
                Ok(tree) => answer(code, format.media(), k3_yaml::to_string(&tree)),
                Err(error) => status(&Status::internal_error(error), Format::Json, layout),
            }
        }
        _ if layout == JsonLayout::Indented => answer(code, Format::Json.media(), encode::pretty(&text)),
        _ => answer(code, Format::Json.media(), text),
    }
}

/// A `Status` in the negotiated format.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go ErrorNegotiated
pub(crate) fn status(status: &Status, format: Format, layout: JsonLayout) -> HttpResponse {
    let bounded;
    let status = match bound(status) {
        None => status,
        Some(shortened) => {
            bounded = shortened;
            &bounded
        }
    };
    // A success may leave its code out.
    let code = if status.code == 0 { 200 } else { status.code };
    let mut answer = match format {
        Format::Protobuf => {
            let ty = schema()
                .get("meta", "v1", "Status")
                .expect("the table has the type");
            // A status has only texts and numbers, which can be encoded.
            let message = protobuf::encode(&status.to_value(), ty).unwrap_or_default();
            answer(code, format.media(), message)
        }
        _ => json(code, status.to_json().into_bytes(), format, layout),
    };
    let retry = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        set(&mut answer, header::RETRY_AFTER, HeaderValue::from(retry));
    }
    warn(&mut answer, &status.warnings);
    answer
}

/// The first bytes of an answer's body, as text.
pub(crate) async fn body_text(answer: HttpResponse, max: usize) -> String {
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while text.len() < max
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref() {
            text.extend_from_slice(data);
        }
    }
    text.truncate(max);
    String::from_utf8_lossy(&text).into_owned()
}

/// Sets a header.
pub(crate) fn set(answer: &mut HttpResponse, name: HeaderName, value: HeaderValue) {
    answer.headers_mut().insert(name, value);
}

/// All warnings together have no more letters than this, or each is cut.
const MAX_WARNED: usize = 4096;
/// So much is left of a warning that is cut.
const CUT: usize = 256;

/// Adds `Warning` headers: without duplicates, and no more than clients accept.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go AddWarning
pub(crate) fn warn(answer: &mut HttpResponse, warnings: &[String]) {
    let mut known = HashSet::new();
    let reported: Vec<&str> = warnings
        .iter()
        .map(String::as_str)
        .filter(|warning| !warning.is_empty() && known.insert(*warning))
        // Each has a letter at least.
        .take(MAX_WARNED + 1)
        .collect();
    let letters = |text: &str| text.chars().count();
    let cuts = reported.iter().map(|text| letters(text)).sum::<usize>() > MAX_WARNED;
    let mut written = 0;
    for warning in reported {
        let limit = if cuts { CUT } else { usize::MAX };
        if cuts && written >= MAX_WARNED {
            break;
        }
        written += letters(warning).min(limit);
        let text: String = warning
            .chars()
            .take(limit)
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .flat_map(|letter| {
                (letter == '"' || letter == '\\')
                    .then_some('\\')
                    .into_iter()
                    .chain([letter])
            })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            answer.headers_mut().append(WARNING, value);
        }
    }
}
