//! How a stage ends a request.

use http::{HeaderValue, header};
use k3_api::status::Status;

use crate::http::{self as web, HttpResponse};

/// How a stage ends a request.
pub(super) enum Rejection {
    /// An error, which is encoded in the form that the client asks for.
    Status(Status),
    /// A response that is sent as it is.
    Response(Box<HttpResponse>),
}

// --- Rejection ---

impl Rejection {
    /// 404 for an unknown path, as text.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/routes/index.go ServeHTTP; an unknown path is 404 with a text body
    pub(super) fn path_not_found() -> Self {
        Rejection::Response(Box::new(web::text(404, "404 page not found\n")))
    }

    /// The response 429 Too Many Requests when the in-flight limit is reached.
    // upstream: staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go tooManyRequests
    pub(super) fn too_many_requests() -> Self {
        let mut answer = web::text(429, "Too many requests, please try again later.\n");
        web::set(&mut answer, header::RETRY_AFTER, HeaderValue::from_static("1"));
        Rejection::Response(Box::new(answer))
    }
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Rejection::Status(status)
    }
}
