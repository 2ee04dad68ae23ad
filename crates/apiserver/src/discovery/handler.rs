//! Serves discovery: chooses the document by path and Accept header.

use std::{fmt::Write, sync::OnceLock};

use http::{HeaderValue, header};
use k3_api::{encode, protobuf, schema::schema};
use ring::digest::{SHA512, digest};
use serde_json::Value;

use super::{
    accept::ranges,
    aggregated::{self, document},
    group::{DiscoveryGroup, DiscoveryVersion},
    index::index,
    legacy,
};
use crate::http::{
    Format, HttpResponse, JsonLayout, MediaTypeOffer, ResponseBody, answer, json, negotiate, set, status,
};

/// The documents of what is served. Made once; another one is made when what is served changes.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// In the order of `/apis`; the core group has no name.
    groups: Vec<DiscoveryGroup>,
    /// Where clients reach this server, as in `10.0.0.1:6443`.
    address: String,
    /// The tags of the aggregated documents of `/api` and `/apis`.
    tags: [OnceLock<HeaderValue>; 2],
}

/// Which aggregated document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AggregatedHalf {
    /// `/api`.
    Core = 0,
    /// `/apis`.
    Named = 1,
}

/// What a client takes for an aggregated document.
#[derive(Clone, Copy)]
struct AggregatedRequest {
    format: Format,
    /// What the clause asks for beside query and user agent.
    layout: JsonLayout,
}

// --- Discovery ---

impl Discovery {
    /// The documents of these groups, in this order.
    pub(crate) fn new(groups: Vec<DiscoveryGroup>, address: String) -> Self {
        Self {
            groups,
            address,
            tags: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// The answer to a GET of `/api`, `/apis`, or a group or version below; `None` if there is no such place.
    /// `accept` and `known` are the headers Accept and If-None-Match, `layout` is what query and user agent ask for.
    pub(crate) fn answer(
        &self,
        path: &str,
        accept: &str,
        known: &str,
        layout: JsonLayout,
    ) -> Option<HttpResponse> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let half = match path {
            "/api" => Some(AggregatedHalf::Core),
            "/apis" => Some(AggregatedHalf::Named),
            _ => None,
        };
        if let Some(half) = half
            && let Some(wanted) = AggregatedRequest::find(accept)
        {
            return Some(self.aggregated(half, wanted, known, layout));
        }
        let document = self.legacy(path)?;
        Some(match negotiate(accept, MediaTypeOffer::Plain, layout) {
            Ok(accepted) => write(&document, "meta", "v1", accepted.format, accepted.layout),
            Err(refused) => status(&refused, Format::Json, layout),
        })
    }

    /// The document at a path, in the old form.
    pub(crate) fn legacy(&self, path: &str) -> Option<Value> {
        match path {
            "/api" => return self.group("").map(|core| legacy::core(core, &self.address)),
            "/apis" => return Some(legacy::groups(self.named())),
            _ => {}
        }
        if let Some(version) = path.strip_prefix("/api/") {
            let group = self.group("")?;
            return Some(legacy::resources(group, find(group, version)?));
        }
        let rest = path.strip_prefix("/apis/")?;
        let (name, version) = match rest.split_once('/') {
            Some((name, version)) => (name, Some(version)),
            None => (rest, None),
        };
        let group = self.named().find(|group| group.name == name)?;
        match version {
            Some(version) => Some(legacy::resources(group, find(group, version)?)),
            None => Some(legacy::group(group)),
        }
    }

    /// The list of paths at `/`: what discovery knows, and `others`.
    pub(crate) fn index(&self, others: &[&str]) -> Value {
        index(&self.groups, others)
    }

    fn named(&self) -> impl Iterator<Item = &DiscoveryGroup> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }

    fn group(&self, name: &str) -> Option<&DiscoveryGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    fn aggregated(
        &self,
        half: AggregatedHalf,
        wanted: AggregatedRequest,
        known: &str,
        layout: JsonLayout,
    ) -> HttpResponse {
        let document = || match half {
            AggregatedHalf::Core => document(self.group("").into_iter()),
            AggregatedHalf::Named => document(self.named()),
        };
        let tag = self.tags[half as usize].get_or_init(|| tag(&encode::encode(&document())));
        let mut answer = if known.as_bytes() == tag.as_bytes() {
            let mut answer = HttpResponse::new(ResponseBody::Empty);
            *answer.status_mut() = http::StatusCode::NOT_MODIFIED;
            answer
        } else {
            let layout = match wanted.layout {
                JsonLayout::Indented => JsonLayout::Indented,
                JsonLayout::Compact => layout,
            };
            let mut answer = write(
                &document(),
                "apidiscovery",
                aggregated::VERSION,
                wanted.format,
                layout,
            );
            let media = HeaderValue::from_static(wanted.media());
            set(&mut answer, header::CONTENT_TYPE, media);
            answer
        };
        set(&mut answer, header::ETAG, tag.clone());
        set(&mut answer, header::VARY, HeaderValue::from_static("Accept"));
        set(
            &mut answer,
            header::CACHE_CONTROL,
            HeaderValue::from_static("public"),
        );
        answer
    }
}

fn find<'g>(group: &'g DiscoveryGroup, version: &str) -> Option<&'g DiscoveryVersion> {
    group.versions.iter().find(|known| known.name == version)
}

/// A document in the format that was asked for; `package` and `version` are where its type is.
fn write(document: &Value, package: &str, version: &str, format: Format, layout: JsonLayout) -> HttpResponse {
    if format == Format::Protobuf {
        let kind = document["kind"].as_str().unwrap_or_default();
        let ty = schema()
            .get(package, version, kind)
            .expect("the table has the types of discovery");
        let message = protobuf::encode(document, ty).expect("the documents fit their types");
        return answer(200, format.media(), message);
    }
    json(200, encode::encode(document), format, layout)
}

/// The tag of some content: a hash, quoted.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go calculateETag
fn tag(content: &[u8]) -> HeaderValue {
    let mut text = String::from("\"");
    for byte in digest(&SHA512, content).as_ref() {
        write!(text, "{byte:02X}").expect("text can be written to memory");
    }
    text.push('"');
    HeaderValue::from_str(&text).expect("digits can stand in a header")
}

// --- AggregatedRequest ---

impl AggregatedRequest {
    /// The aggregated form that an Accept header asks for, if any: an earlier clause without parameters asks for the legacy
    /// form.
    // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/negotiation.go AllowsMediaTypeTransform
    fn find(accept: &str) -> Option<Self> {
        for range in ranges(accept) {
            let takes = |format: &Format| range.takes(format.media());
            let Some(format) = [Format::Json, Format::Yaml, Format::Protobuf]
                .into_iter()
                .find(takes)
            else {
                continue;
            };
            let asked = ["g", "v", "as"].map(|name| range.parameter(name));
            if asked
                == [
                    Some(aggregated::GROUP),
                    Some(aggregated::VERSION),
                    Some(aggregated::KIND),
                ]
            {
                let layout = match range.parameter("pretty") {
                    Some("1") => JsonLayout::Indented,
                    _ => JsonLayout::Compact,
                };
                return Some(Self { format, layout });
            }
            if asked == [None; 3] {
                return None;
            }
        }
        None
    }

    /// The media type of the answer.
    fn media(self) -> &'static str {
        match self.format {
            Format::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Format::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Format::Protobuf => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        }
    }
}

#[cfg(test)]
mod tests;
