//! HTTP: what requests ask for and how answers look, without knowing what they are about.

mod answer;
mod body;
mod bound;
mod gzip;
mod negotiation;

pub use self::body::Broken;
pub(crate) use self::{
    answer::{Answer, answer, json, said, set, status, text, warn},
    body::{Body, NotSent, Pieces, Sent, panic_text, sent},
    gzip::compress,
    negotiation::{Accepted, Form, Format, Offer, negotiate, refused},
};
