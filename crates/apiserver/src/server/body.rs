//! The body of a request.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k3_api::status::Status;
use tokio::time;

use crate::http::Sent;

/// The longest body.
const MOST_BYTES: usize = 3 * 1024 * 1024;
/// How much more of a longer one is taken, and for how long.
const MOST_DISCARDED: usize = 4 * 1024 * 1024;
const DISCARD: Duration = Duration::from_secs(1);

/// Reads a body, up to the limit. One that is compressed is not read: what it would become is not known before it is too late.
pub(super) async fn read(mut body: Sent, headers: &HeaderMap) -> Result<Bytes, Status> {
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
    // Who says beforehand that it is too much, is not listened to.
    let limit = if body.size_hint().lower() > MOST_BYTES as u64 {
        0
    } else {
        MOST_BYTES
    };
    match Limited::new(&mut body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            // Whether that ended in time is all the same: the answer is.
            let _ = time::timeout(DISCARD, discard(body)).await;
            Err(Status::request_entity_too_large(format!("limit is {MOST_BYTES}")))
        }
        Err(error) => Err(Status::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}

/// Takes some more of a body, and forgets it: a client that is still sending when its connection is closed never reads why.
async fn discard(mut body: Sent) {
    let mut discarded = 0;
    while discarded < MOST_DISCARDED
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
    }
}
