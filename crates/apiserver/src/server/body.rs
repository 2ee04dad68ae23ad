//! The body of a request.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k3_api::status::Status;

/// The longest body.
const MOST_BYTES: usize = 3 * 1024 * 1024;

/// Reads a body, up to the limit. One that is compressed is not read: what it would become is not known before it is too late.
pub(super) async fn read<B>(body: B, headers: &HeaderMap) -> Result<Bytes, Status>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let encoding = headers
        .get(header::CONTENT_ENCODING)
        .filter(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if encoding.is_some() {
        return Err(Status::unsupported_media_type(
            "the body of the request is compressed, which is not accepted; send it as it is, without a Content-Encoding",
        ));
    }
    let too_large = || Status::request_entity_too_large(format!("limit is {MOST_BYTES}"));
    // Who says beforehand that it is too much need not send it.
    if body.size_hint().lower() > MOST_BYTES as u64 {
        return Err(too_large());
    }
    match Limited::new(body, MOST_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(Status::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}
