//! HTTP: content negotiation, bodies and responses, independent of resources.

mod body;
mod gzip;
mod negotiation;
mod response;
mod status_limit;

pub use self::body::BodyError;
pub(crate) use self::{
    body::{BodyStream, RequestBody, RequestBodyError, ResponseBody, sent},
    gzip::compress,
    negotiation::{Format, JsonLayout, MediaTypeOffer, NegotiatedMediaType, ObjectForm, negotiate, refused},
    response::{HttpResponse, answer, body_text, json, set, status, text, warn},
};
