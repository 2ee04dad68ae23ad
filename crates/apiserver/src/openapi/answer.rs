//! Serving the documents.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{Read, Write as _},
    sync::OnceLock,
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use http::{HeaderValue, StatusCode, header};
use ring::digest::{SHA512, digest};
use serde_json::{Map, json};

use super::document;
use crate::{
    discovery::ranges,
    http::{Answer, Body, answer, set},
};

/// The documents. Each is built when it is first asked for; that takes tens of milliseconds for the largest.
#[derive(Debug)]
pub(crate) struct OpenApi {
    /// Version 3, by the path below `/openapi/v3/`.
    parts: BTreeMap<String, OnceLock<Kept>>,
    /// Which parts there are, with their hashes.
    index: OnceLock<Kept>,
    /// Version 2.
    json: OnceLock<Kept>,
    protobuf: OnceLock<Kept>,
}

/// A document, as it is kept.
#[derive(Debug)]
struct Kept {
    deflated: Vec<u8>,
    length: usize,
    /// The hash of its content, in digits.
    hash: String,
}

const JSON: &str = "application/json";
/// The media type of version 2 as protobuf; clients may spell it with an `@`.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_SPELLED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// What a document that carries its hash in its address may be kept for: a year, without asking again.
const FOR_EVER: &str = "public, immutable, max-age=31536000";

// --- OpenApi ---

impl OpenApi {
    /// The documents of what is built in. Nothing is built yet.
    pub(crate) fn new() -> Self {
        let parts = document::names().into_iter().map(|name| (name, OnceLock::new()));
        Self {
            parts: parts.collect(),
            index: OnceLock::new(),
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
        }
    }

    /// The answer to a GET below `/openapi`; `None` if the path is not one of ours. `hash` is that parameter of the
    /// query; `accept` and `known` are the headers Accept and If-None-Match.
    pub(crate) fn answer(&self, path: &str, hash: &str, accept: &str, known: &str) -> Option<Answer> {
        match path {
            "/openapi/v2" => return Some(self.version_2(accept, known)),
            "/openapi/v3" | "/openapi/v3/" => {
                // Upstream leaves it to its library to guess the type of the index, which guesses text.
                return Some(serve(self.index(), "text/plain; charset=utf-8", known));
            }
            _ => {}
        }
        let name = path.strip_prefix("/openapi/v3/")?;
        Some(self.version_3(name, hash, accept, known))
    }

    fn version_2(&self, accept: &str, known: &str) -> Answer {
        let accept = if accept.is_empty() { "*/*" } else { accept };
        for range in ranges(accept) {
            let served = if range.takes(JSON) {
                Some((&self.json, JSON, document::version_2 as fn() -> Vec<u8>))
            } else if range.takes(PROTOBUF) || range.takes(PROTOBUF_SPELLED) {
                Some((
                    &self.protobuf,
                    PROTOBUF,
                    document::version_2_protobuf as fn() -> Vec<u8>,
                ))
            } else {
                None
            };
            if let Some((place, media, build)) = served {
                let kept = place.get_or_init(|| Kept::new(&build()));
                return varied(serve(kept, media, known));
            }
        }
        varied(bare(StatusCode::NOT_ACCEPTABLE))
    }

    fn version_3(&self, name: &str, hash: &str, accept: &str, known: &str) -> Answer {
        let Some(kept) = self.part(name) else {
            return bare(StatusCode::NOT_FOUND);
        };
        let accept = if accept.is_empty() { "*/*" } else { accept };
        if !ranges(accept).iter().any(|range| range.takes(JSON)) {
            return varied(bare(StatusCode::NOT_ACCEPTABLE));
        }
        if !hash.is_empty() && hash != kept.hash {
            let mut moved = bare(StatusCode::MOVED_PERMANENTLY);
            let place =
                HeaderValue::from_str(&address(name, &kept.hash)).expect("names can stand in a header");
            set(&mut moved, header::LOCATION, place);
            return varied(moved);
        }
        let mut answer = varied(serve(kept, JSON, known));
        if !hash.is_empty() {
            set(
                &mut answer,
                header::CACHE_CONTROL,
                HeaderValue::from_static(FOR_EVER),
            );
        }
        answer
    }

    fn part(&self, name: &str) -> Option<&Kept> {
        let place = self.parts.get(name)?;
        Some(place.get_or_init(|| Kept::new(&document::version_3(name).unwrap_or_default())))
    }

    /// The index has a hash of each part, so all parts are built for it.
    fn index(&self) -> &Kept {
        self.index.get_or_init(|| {
            let mut paths = Map::new();
            for name in self.parts.keys() {
                if let Some(kept) = self.part(name) {
                    paths.insert(
                        name.clone(),
                        json!({"serverRelativeURL": address(name, &kept.hash)}),
                    );
                }
            }
            Kept::new(json!({"paths": paths}).to_string().as_bytes())
        })
    }
}

/// The address of a part, which changes when the part does.
fn address(name: &str, hash: &str) -> String {
    format!("/openapi/v3/{name}?hash={hash}")
}

/// A document, unless it is `known` already.
fn serve(kept: &Kept, media: &'static str, known: &str) -> Answer {
    let tag = format!("\"{}\"", kept.hash);
    let is = |said: &str| matches!(said.trim().trim_start_matches("W/"), said if said == tag || said == "*");
    let mut answer = if known.split(',').any(is) {
        bare(StatusCode::NOT_MODIFIED)
    } else {
        answer(200, media, kept.inflate())
    };
    let tag = HeaderValue::from_str(&tag).expect("digits can stand in a header");
    set(&mut answer, header::ETAG, tag);
    answer
}

/// An answer without a body.
fn bare(code: StatusCode) -> Answer {
    let mut answer = Answer::new(Body::Empty);
    *answer.status_mut() = code;
    answer
}

/// An answer that depends on what the client accepts.
fn varied(mut answer: Answer) -> Answer {
    set(&mut answer, header::VARY, HeaderValue::from_static("Accept"));
    answer
}

// --- Kept ---

impl Kept {
    fn new(content: &[u8]) -> Self {
        let mut hash = String::with_capacity(128);
        for byte in digest(&SHA512, content).as_ref() {
            write!(hash, "{byte:02X}").expect("text can be written to memory");
        }
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflated
            .write_all(content)
            .expect("bytes can be written to memory");
        let mut deflated = deflated.finish().expect("bytes can be written to memory");
        deflated.shrink_to_fit();
        Self {
            deflated,
            length: content.len(),
            hash,
        }
    }

    fn inflate(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.length);
        DeflateDecoder::new(self.deflated.as_slice())
            .read_to_end(&mut content)
            .expect("what was deflated here can be inflated");
        content
    }
}

#[cfg(test)]
mod tests;
