//! Compresses long responses for clients that accept gzip.

use std::{
    io::Write,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};

use super::{BodyStream, HttpResponse, ResponseBody};

/// Answers shorter than this go out as they are.
const SHORTEST: usize = 128 * 1024;

/// Compresses a long answer if the client takes it so. A watch is never compressed: its events must not wait for more.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go deferredResponseWriter
pub(crate) fn compress(mut answer: HttpResponse, asked: &HeaderMap) -> HttpResponse {
    let accepts = asked
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|encoding| {
            encoding
                .split(';')
                .next()
                .is_some_and(|name| name.trim() == "gzip")
        });
    if !accepts || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return answer;
    }
    let body = match std::mem::replace(answer.body_mut(), ResponseBody::Empty) {
        // Piece by piece too: all of it at once would keep the thread from other connections.
        ResponseBody::Whole(bytes) if bytes.len() >= SHORTEST => ResponseBody::Stream(Box::new(GzipBody {
            pieces: Box::new(SlicedBody {
                rest: bytes,
                has_yielded: true,
            }),
            encoder: Some(encoder()),
        })),
        ResponseBody::Stream(pieces) if pieces.is_long() => ResponseBody::Stream(Box::new(GzipBody {
            pieces,
            encoder: Some(encoder()),
        })),
        other => {
            *answer.body_mut() = other;
            return answer;
        }
    };
    *answer.body_mut() = body;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

/// How much is compressed at a time.
const SLICE: usize = 64 * 1024;

/// A whole body in slices, with a turn for others after each.
struct SlicedBody {
    rest: Bytes,
    has_yielded: bool,
}

/// Pieces, compressed one by one.
struct GzipBody {
    pieces: Box<dyn BodyStream>,
    /// `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

fn encoder() -> GzEncoder<Vec<u8>> {
    // The fastest level: the answers are JSON, which shrinks well at any.
    GzEncoder::new(Vec::new(), Compression::fast())
}

impl BodyStream for SlicedBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_yielded = false;
        let length = self.rest.len().min(SLICE);
        Poll::Ready(Some(self.rest.split_to(length)))
    }
}

impl BodyStream for GzipBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Poll::Ready(None);
            };
            match self.pieces.poll_piece(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(piece)) => {
                    encoder.write_all(&piece).expect("memory can be written to");
                    let out = std::mem::take(encoder.get_mut());
                    if !out.is_empty() {
                        return Poll::Ready(Some(out.into()));
                    }
                }
                Poll::Ready(None) => {
                    let encoder = self.encoder.take().expect("it was there a moment ago");
                    let out = encoder.finish().expect("memory can be written to");
                    return Poll::Ready(Some(out.into()));
                }
            }
        }
    }

    fn broken(&mut self, why: &str) {
        self.pieces.broken(why);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http_body_util::BodyExt;

    use super::*;
    use crate::http::answer;

    fn gunzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
        out
    }

    fn asked(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(encoding))])
    }

    #[tokio::test]
    async fn compresses_long_responses_when_accepted() {
        let text = "a".repeat(SHORTEST);
        let compressed = compress(
            answer(200, "text/plain", text.clone()),
            &asked("deflate, gzip;q=1.0"),
        );
        assert_eq!(compressed.headers()[header::CONTENT_ENCODING], "gzip");
        let bytes = compressed.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(gunzip(&bytes), text.as_bytes());
        for (text, encoding) in [(text.as_str(), "br"), ("short", "gzip")] {
            let plain = compress(answer(200, "text/plain", text.to_owned()), &asked(encoding));
            assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        }
    }
}
