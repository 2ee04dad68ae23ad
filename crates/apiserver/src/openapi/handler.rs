//! Serving the documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::{Read, Write as _},
    sync::{Arc, OnceLock},
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use http::{HeaderValue, StatusCode, header};
use k3_api::kinds::Kind;
use k3_storage::Revision;
use ring::digest::{SHA512, digest};
use serde_json::{Map, Value, json};

use super::document;
use crate::{
    custom::DefinitionRegistry,
    discovery::ranges,
    http::{HttpResponse, ResponseBody, answer, set},
};

/// The documents. Each is built when it is first asked for; that takes tens of milliseconds for the largest.
#[derive(Debug)]
pub(crate) struct OpenApi {
    /// Version 3, by the path below `/openapi/v3/`.
    parts: BTreeMap<String, Arc<OnceLock<CachedDocument>>>,
    /// Which parts there are, with their hashes.
    index: OnceLock<CachedDocument>,
    /// Version 2.
    json: OnceLock<CachedDocument>,
    protobuf: OnceLock<CachedDocument>,
    /// The parts that users define.
    custom: Arc<BTreeMap<String, CustomPart>>,
}

/// The part of a group and version that users define.
#[derive(Clone, Debug)]
struct CustomPart {
    /// Which definitions it is made from: their names, and the commits that wrote them.
    from: Vec<(Box<str>, Revision)>,
    kinds: Vec<Arc<Kind>>,
    kept: Arc<OnceLock<CachedDocument>>,
}

/// Finds a definition as it is stored, by its name.
type DefinitionLookup<'s> = &'s dyn Fn(&str) -> Option<Value>;

/// Builds a document of everything, with the kinds that users define.
type DocumentBuilder = fn(&[(Arc<Kind>, Value)]) -> Vec<u8>;

/// A document, as it is kept.
#[derive(Debug)]
struct CachedDocument {
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
        let parts = document::names().into_iter().map(|name| (name, Arc::default()));
        Self {
            parts: parts.collect(),
            index: OnceLock::new(),
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
            custom: Arc::default(),
        }
    }

    /// The documents of what is built in and of what is defined now. What did not change is not built again.
    pub(crate) fn with(&self, definitions: &DefinitionRegistry) -> Self {
        let mut custom: BTreeMap<String, CustomPart> = BTreeMap::new();
        for (name, served) in definitions.all().iter() {
            for (_, kind) in served.versions().filter(|(version, _)| version.served) {
                let path = format!("apis/{}/{}", kind.group, kind.version);
                if self.parts.contains_key(&path) {
                    continue;
                }
                let part = custom.entry(path).or_insert_with(|| CustomPart {
                    from: Vec::new(),
                    kinds: Vec::new(),
                    kept: Arc::default(),
                });
                part.from.push((name.clone(), served.since));
                part.kinds.push(Arc::clone(kind));
            }
        }
        for (path, part) in &mut custom {
            if let Some(known) = self.custom.get(path)
                && known.from == part.from
            {
                part.kept = Arc::clone(&known.kept);
            }
        }
        Self {
            parts: self.parts.clone(),
            index: OnceLock::new(),
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
            custom: Arc::new(custom),
        }
    }

    /// The answer to a GET below `/openapi`; `None` if the path is not one of ours. `hash` is that parameter of the
    /// query; `accept` and `known` are the headers Accept and If-None-Match; `stored` finds a definition as it is stored.
    pub(crate) fn answer(
        &self,
        path: &str,
        hash: &str,
        accept: &str,
        known: &str,
        stored: &dyn Fn(&str) -> Option<Value>,
    ) -> Option<HttpResponse> {
        match path {
            "/openapi/v2" => return Some(self.version_2(accept, known, stored)),
            "/openapi/v3" | "/openapi/v3/" => {
                // Upstream leaves it to its library to guess the type of the index, which guesses text.
                return Some(serve(self.index(stored), "text/plain; charset=utf-8", known));
            }
            _ => {}
        }
        let name = path.strip_prefix("/openapi/v3/")?;
        Some(self.version_3(name, hash, accept, known, stored))
    }

    // upstream: vendor/k8s.io/kube-openapi/pkg/handler/handler.go RegisterOpenAPIVersionedService
    fn version_2(&self, accept: &str, known: &str, stored: DefinitionLookup<'_>) -> HttpResponse {
        let accept = if accept.is_empty() { "*/*" } else { accept };
        for range in ranges(accept) {
            let served = if range.takes(JSON) {
                Some((&self.json, JSON, document::version_2 as DocumentBuilder))
            } else if range.takes(PROTOBUF) || range.takes(PROTOBUF_SPELLED) {
                Some((
                    &self.protobuf,
                    PROTOBUF,
                    document::version_2_protobuf as DocumentBuilder,
                ))
            } else {
                None
            };
            if let Some((path, media, build)) = served {
                let kept = path.get_or_init(|| {
                    let custom = self.custom.values();
                    let custom: Vec<_> = custom.flat_map(|part| part.defined(stored)).collect();
                    CachedDocument::new(&build(&custom))
                });
                return varied(serve(kept, media, known));
            }
        }
        varied(bare(StatusCode::NOT_ACCEPTABLE))
    }

    // upstream: vendor/k8s.io/kube-openapi/pkg/handler3/handler.go HandleGroupVersion
    fn version_3(
        &self,
        name: &str,
        hash: &str,
        accept: &str,
        known: &str,
        stored: DefinitionLookup<'_>,
    ) -> HttpResponse {
        let Some(kept) = self.part(name, stored) else {
            return bare(StatusCode::NOT_FOUND);
        };
        let accept = if accept.is_empty() { "*/*" } else { accept };
        if !ranges(accept).iter().any(|range| range.takes(JSON)) {
            return varied(bare(StatusCode::NOT_ACCEPTABLE));
        }
        if !hash.is_empty() && hash != kept.hash {
            let mut moved = bare(StatusCode::MOVED_PERMANENTLY);
            let path =
                HeaderValue::from_str(&address(name, &kept.hash)).expect("names can stand in a header");
            set(&mut moved, header::LOCATION, path);
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

    fn part(&self, name: &str, stored: DefinitionLookup<'_>) -> Option<&CachedDocument> {
        if let Some(part) = self.custom.get(name) {
            let build = || CachedDocument::new(&document::custom_3(&part.defined(stored)));
            return Some(part.kept.get_or_init(build));
        }
        let path = self.parts.get(name)?;
        Some(path.get_or_init(|| CachedDocument::new(&document::version_3(name).unwrap_or_default())))
    }

    /// The index has a hash of each part, so all parts are built for it.
    // upstream: vendor/k8s.io/kube-openapi/pkg/handler3/handler.go HandleDiscovery, computeETag
    fn index(&self, stored: DefinitionLookup<'_>) -> &CachedDocument {
        self.index.get_or_init(|| {
            let mut paths = Map::new();
            let names: BTreeSet<&String> = self.parts.keys().chain(self.custom.keys()).collect();
            for name in names {
                if let Some(kept) = self.part(name, stored) {
                    paths.insert(
                        name.clone(),
                        json!({"serverRelativeURL": address(name, &kept.hash)}),
                    );
                }
            }
            CachedDocument::new(json!({"paths": paths}).to_string().as_bytes())
        })
    }
}

// --- CustomPart ---

impl CustomPart {
    /// Its kinds, each with its definition as it is stored.
    fn defined(&self, stored: DefinitionLookup<'_>) -> Vec<(Arc<Kind>, Value)> {
        let kinds = self.from.iter().zip(&self.kinds);
        kinds
            .filter_map(|((name, _), kind)| Some((Arc::clone(kind), stored(name)?)))
            .collect()
    }
}

/// The address of a part, which changes when the part does.
fn address(name: &str, hash: &str) -> String {
    format!("/openapi/v3/{name}?hash={hash}")
}

/// A document, unless it is `known` already.
fn serve(kept: &CachedDocument, media: &'static str, known: &str) -> HttpResponse {
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
fn bare(code: StatusCode) -> HttpResponse {
    let mut answer = HttpResponse::new(ResponseBody::Empty);
    *answer.status_mut() = code;
    answer
}

/// An answer that depends on what the client accepts.
fn varied(mut answer: HttpResponse) -> HttpResponse {
    set(&mut answer, header::VARY, HeaderValue::from_static("Accept"));
    answer
}

// --- CachedDocument ---

impl CachedDocument {
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
