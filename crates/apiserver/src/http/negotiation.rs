//! Content negotiation: format (JSON, YAML, protobuf) and transformation (Table, PartialObjectMetadata) of a response.

use k3_api::status::Status;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf, in the envelope that names the kind.
    Protobuf,
}

/// What an answer shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    /// All of it.
    Whole,
    /// Its metadata.
    Metadata,
    /// The metadata of a list.
    MetadataList,
    /// What people want to see.
    Table,
}

/// How a JSON text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonLayout {
    /// Without spaces.
    Compact,
    /// For people.
    Indented,
}

/// What a client accepts, of what was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NegotiatedMediaType {
    /// How it is written.
    pub format: Format,
    /// What is shown.
    pub form: ObjectForm,
    /// The version of the group of metadata and tables that was asked for; `v1` if none was.
    pub version: &'static str,
    /// How JSON is laid out.
    pub layout: JsonLayout,
}

impl Default for NegotiatedMediaType {
    fn default() -> Self {
        NegotiatedMediaType {
            format: Format::Json,
            form: ObjectForm::Whole,
            version: "v1",
            layout: JsonLayout::Compact,
        }
    }
}

/// What a path can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaTypeOffer {
    /// An object, in all formats and forms.
    Object,
    /// A list or a watch.
    Collection,
    /// A custom object: whole it is never written as protobuf.
    CustomObject,
    /// A list or a watch of custom objects.
    CustomCollection,
    /// Documents of the server: all formats, but as they are.
    Plain,
}

/// One clause of an Accept header.
struct AcceptClause<'h> {
    kind: &'h str,
    subtype: &'h str,
    parameters: Vec<(&'h str, &'h str)>,
    quality: f32,
}

const FORMATS: [Format; 3] = [Format::Json, Format::Yaml, Format::Protobuf];

/// Finds the first form in the Accept header that is on offer. `layout` is what query and user agent ask for.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go MediaTypeOptions
pub(crate) fn negotiate(
    accept: &str,
    offer: MediaTypeOffer,
    layout: JsonLayout,
) -> Result<NegotiatedMediaType, Status> {
    if accept.is_empty() {
        return Ok(NegotiatedMediaType {
            layout,
            ..NegotiatedMediaType::default()
        });
    }
    let mut clauses: Vec<_> = accept.split(',').filter_map(AcceptClause::parse).collect();
    clauses.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
    let mut known = false;
    for clause in &clauses {
        for format in FORMATS.into_iter().filter(|format| clause.takes(*format)) {
            known = true;
            if let Some((form, version)) = clause.form(offer)
                // There is no such message for tables.
                && !(form == ObjectForm::Table && format == Format::Protobuf)
                && !(form == ObjectForm::Whole && format == Format::Protobuf && offer.is_custom())
            {
                let layout = match clause.parameter("pretty") {
                    Some("1") => JsonLayout::Indented,
                    _ => layout,
                };
                return Ok(NegotiatedMediaType {
                    format,
                    form,
                    version,
                    layout,
                });
            }
        }
    }
    if known {
        let types: Vec<_> = FORMATS.iter().map(|format| format.media()).collect();
        let message = format!(
            "only the following media types are accepted: {}",
            types.join(", ")
        );
        return Err(Status::not_acceptable(message));
    }
    Err(refuse(offer))
}

fn refuse(offer: MediaTypeOffer) -> Status {
    let mut types = FORMATS.map(Format::media).to_vec();
    if matches!(
        offer,
        MediaTypeOffer::Collection | MediaTypeOffer::CustomCollection
    ) {
        types.extend([
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ]);
    }
    refused(&types)
}

/// 406 Not Acceptable: the Accept header names no served media type.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/errors.go NewNotAcceptableError
pub(crate) fn refused(types: &[&str]) -> Status {
    let mut status = Status::not_acceptable(format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        types.join(", ")
    ));
    status.details = Some(Box::default());
    status
}

// --- MediaTypeOffer ---

impl MediaTypeOffer {
    fn is_custom(self) -> bool {
        matches!(
            self,
            MediaTypeOffer::CustomObject | MediaTypeOffer::CustomCollection
        )
    }
}

// --- Format ---

impl Format {
    /// Its media type.
    pub(crate) fn media(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The format with a media type, parameters aside; JSON if none is named.
    pub(crate) fn of_media(media: &str) -> Option<Self> {
        let media = media.split(';').next().unwrap_or_default().trim();
        if media.is_empty() {
            return Some(Format::Json);
        }
        FORMATS
            .into_iter()
            .find(|format| format.media().eq_ignore_ascii_case(media))
    }
}

// --- AcceptClause ---

impl<'h> AcceptClause<'h> {
    fn parse(text: &'h str) -> Option<Self> {
        let mut parts = text.trim_matches(' ').split(';');
        let media = parts.next()?;
        let (kind, subtype) = match media.split_once('/') {
            Some((kind, subtype)) if !subtype.contains('/') => (kind.trim(), subtype.trim()),
            None if media.trim() == "*" => ("*", "*"),
            _ => return None,
        };
        let mut clause = AcceptClause {
            kind,
            subtype,
            parameters: Vec::new(),
            quality: 1.0,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => clause.quality = value.parse().unwrap_or_default(),
                name => clause.parameters.push((name, value.trim())),
            }
        }
        Some(clause)
    }

    /// Preferred clauses first, and for equal quality the more specific.
    fn rank(&self) -> f32 {
        let exact = f32::from(self.kind != "*") + f32::from(self.subtype != "*");
        self.quality * 10.0 + exact
    }

    fn takes(&self, format: Format) -> bool {
        let (kind, subtype) = format
            .media()
            .split_once('/')
            .expect("media types have two parts");
        (self.kind == kind && (self.subtype == subtype || self.subtype == "*"))
            || (self.kind == "*" && self.subtype == "*")
    }

    fn parameter(&self, name: &str) -> Option<&'h str> {
        let mut found = self.parameters.iter().filter(|(parameter, _)| *parameter == name);
        found.next_back().map(|(_, value)| *value)
    }

    /// What the clause wants to see, if that is on offer.
    fn form(&self, offer: MediaTypeOffer) -> Option<(ObjectForm, &'static str)> {
        let [kind, group, version] = ["as", "g", "v"].map(|name| self.parameter(name));
        if kind.is_none() && group.is_none() && version.is_none() {
            return Some((ObjectForm::Whole, "v1"));
        }
        if offer == MediaTypeOffer::Plain || group != Some("meta.k8s.io") {
            return None;
        }
        let version = match version {
            Some("v1") => "v1",
            Some("v1beta1") => "v1beta1",
            _ => return None,
        };
        let form = match kind? {
            "PartialObjectMetadata" => ObjectForm::Metadata,
            "PartialObjectMetadataList" => ObjectForm::MetadataList,
            "Table" => ObjectForm::Table,
            _ => return None,
        };
        Some((form, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> (Format, ObjectForm, &'static str) {
        let accepted = negotiate(accept, MediaTypeOffer::Object, JsonLayout::Compact).unwrap();
        (accepted.format, accepted.form, accepted.version)
    }

    #[test]
    fn picks_first_offered_media_type() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(form(""), (Format::Json, ObjectForm::Whole, "v1"));
        assert_eq!(form("*/*"), (Format::Json, ObjectForm::Whole, "v1"));
        assert_eq!(
            form(&format!("{table},application/json")),
            (Format::Json, ObjectForm::Table, "v1")
        );
        assert_eq!(
            form("application/json;as=Bogus;v=v1;g=meta.k8s.io,application/json"),
            (Format::Json, ObjectForm::Whole, "v1")
        );
        assert_eq!(
            form("application/vnd.kubernetes.protobuf,application/json"),
            (Format::Protobuf, ObjectForm::Whole, "v1")
        );
        assert_eq!(
            form("application/json;q=0.5, application/yaml;q=0.9"),
            (Format::Yaml, ObjectForm::Whole, "v1")
        );
        assert_eq!(
            form("application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"),
            (Format::Json, ObjectForm::Metadata, "v1beta1")
        );
    }

    #[test]
    fn not_acceptable_lists_offered_media_types() {
        let refused = negotiate("text/html", MediaTypeOffer::Object, JsonLayout::Compact).unwrap_err();
        assert_eq!(refused.code, 406);
        assert!(
            refused.message.ends_with("application/vnd.kubernetes.protobuf"),
            "{}",
            refused.message
        );
        let refused = negotiate(
            "application/cbor",
            MediaTypeOffer::Collection,
            JsonLayout::Compact,
        )
        .unwrap_err();
        assert!(
            refused.message.ends_with("protobuf;stream=watch"),
            "{}",
            refused.message
        );
        let unknown = negotiate(
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            MediaTypeOffer::Object,
            JsonLayout::Compact,
        )
        .unwrap_err();
        assert_eq!(unknown.code, 406);
    }
}
