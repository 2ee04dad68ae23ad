//! Printing of objects in the format of `-o`.

use std::{fs, io::Write, str::FromStr};

use k3_jsonpath::{JsonPath, ParseError, Template};
use serde::Serialize;
use serde_json::{Value, ser::PrettyFormatter};

use crate::{
    error::ClientError,
    stdout::StdoutWriter,
    table::{Header, Table},
};

// upstream: staging/src/k8s.io/cli-runtime/pkg/genericclioptions/print_flags.go PrintFlags
/// An output format.
#[derive(Clone, Debug)]
pub(crate) enum OutputFormat {
    Wide,
    Json,
    Yaml,
    Name,
    JsonPath(Template),
    /// Headers with the JSONPath of their values.
    Columns(Vec<(String, JsonPath)>),
}

/// Why `-o` is not an output format.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputFormatError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: String, source: std::io::Error },
    #[error("template format specified but no template given: -o {0}=...")]
    MissingTemplate(String),
    #[error(
        "unable to match a printer suitable for the output format {0:?}, allowed formats are: \
         custom-columns,json,jsonpath,jsonpath-file,name,wide,yaml"
    )]
    Unknown(String),
    #[error("unexpected custom-columns spec: {0}, expected <header>:<json-path-expr>")]
    InvalidColumn(String),
    #[error(transparent)]
    InvalidPath(#[from] InvalidPath),
}

/// Why a text is not a JSONPath.
#[derive(Debug, thiserror::Error)]
#[error("error parsing jsonpath {text}: {source}")]
pub(crate) struct InvalidPath {
    text: String,
    source: ParseError,
}

impl From<InvalidPath> for ClientError {
    fn from(error: InvalidPath) -> Self {
        ClientError::usage(error)
    }
}

impl FromStr for OutputFormat {
    type Err = OutputFormatError;

    fn from_str(text: &str) -> Result<Self, OutputFormatError> {
        let (format, argument) = text
            .split_once('=')
            .map_or((text, None), |(format, argument)| (format, Some(argument)));
        match (format, argument) {
            ("wide", None) => Ok(Self::Wide),
            ("json", None) => Ok(Self::Json),
            ("yaml", None) => Ok(Self::Yaml),
            ("name", None) => Ok(Self::Name),
            ("jsonpath" | "jsonpath-as-text", Some(template)) => {
                Ok(Self::JsonPath(parse_template(template)?))
            }
            ("jsonpath-file", path) => Ok(Self::JsonPath(parse_template(&read_template(path)?)?)),
            ("custom-columns", Some(columns)) => Ok(Self::Columns(parse_columns(columns)?)),
            ("jsonpath" | "custom-columns", None) => {
                Err(OutputFormatError::MissingTemplate(format.to_owned()))
            }
            _ => Err(OutputFormatError::Unknown(text.to_owned())),
        }
    }
}

fn read_template(path: Option<&str>) -> Result<String, OutputFormatError> {
    let path = path.ok_or_else(|| OutputFormatError::MissingTemplate("jsonpath-file".to_owned()))?;
    fs::read_to_string(path).map_err(|source| OutputFormatError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/get/customcolumn.go NewCustomColumnsPrinterFromSpec
/// Parses `NAME:.metadata.name,AGE:.metadata.creationTimestamp`.
fn parse_columns(text: &str) -> Result<Vec<(String, JsonPath)>, OutputFormatError> {
    // A comma may be part of a filter, so only commas outside brackets separate columns.
    let mut depth = 0;
    let parts = text.split(|letter| {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    let column = |part: &str| {
        let (header, path) = part
            .split_once(':')
            .ok_or_else(|| OutputFormatError::InvalidColumn(part.to_owned()))?;
        Ok((header.to_owned(), parse_path(path)?))
    };
    parts.map(column).collect()
}

/// Parses the path of a column, of `--sort-by` or of `wait`.
pub(crate) fn parse_path(text: &str) -> Result<JsonPath, InvalidPath> {
    JsonPath::parse_relaxed(text).map_err(|source| invalid_path(text, source))
}

fn parse_template(text: &str) -> Result<Template, InvalidPath> {
    Template::parse(text).map_err(|source| invalid_path(text, source))
}

fn invalid_path(text: &str, source: ParseError) -> InvalidPath {
    InvalidPath {
        text: text.to_owned(),
        source,
    }
}

// --- Output ---

impl OutputFormat {
    /// Prints an object, or a `List` of objects. Only columns have a header.
    pub(crate) fn print(
        &self,
        screen: &mut StdoutWriter,
        object: &Value,
        header: Header,
    ) -> std::io::Result<()> {
        match self {
            Self::Json => {
                let mut bytes = Vec::new();
                let formatter = PrettyFormatter::with_indent(b"    ");
                object.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))?;
                bytes.push(b'\n');
                screen.write_all(&bytes)
            }
            Self::Yaml => screen.write_all(k3_yaml::to_string(object).as_bytes()),
            Self::JsonPath(template) => screen.write_all(template.evaluate(object).as_bytes()),
            Self::Name | Self::Wide => {
                for item in items(object) {
                    writeln!(screen, "{}", title(item))?;
                }
                Ok(())
            }
            Self::Columns(columns) => {
                let headers: Vec<&str> = columns.iter().map(|(header, _)| header.as_str()).collect();
                let mut table = Table::new(&headers);
                table.rows = items(object)
                    .iter()
                    .map(|item| columns.iter().map(|(_, path)| cell(path, item)).collect())
                    .collect();
                table.print(screen, header)
            }
        }
    }
}

/// Returns the items of a list, or the object itself.
fn items(object: &Value) -> &[Value] {
    match object["items"].as_array() {
        Some(items) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items,
        _ => std::slice::from_ref(object),
    }
}

fn cell(path: &JsonPath, item: &Value) -> String {
    let found = path.find_lenient(item);
    if found.is_empty() {
        return "<none>".to_owned();
    }
    found.into_iter().map(go_text).collect::<Vec<_>>().join(",")
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/get/customcolumn.go printOneObject
/// A value as Go's `fmt.Sprint` writes it: `map[a:1 b:2]`, `[a b]`, `<nil>`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            let entries = sorted
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go_text(value)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns kubectl's name of an object: `deployment.apps/web`.
pub(crate) fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let name = text(&object["metadata"]["name"]);
    match text(&object["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_output_formats() {
        assert!("jsonpath={.a[b]}".parse::<OutputFormat>().is_err());
        assert!(matches!("jsonpath={.a}=x".parse(), Ok(OutputFormat::JsonPath(_))));
        assert!(matches!("yaml".parse(), Ok(OutputFormat::Yaml)));
        let error = "xml".parse::<OutputFormat>().unwrap_err().to_string();
        assert!(error.contains("allowed formats are"), "{error}");
        assert!("jsonpath".parse::<OutputFormat>().is_err());
    }

    #[test]
    fn columns_may_have_filters_with_commas() {
        let columns = parse_columns("A:.metadata.name,B:.items[0,1].x").unwrap();
        assert_eq!(columns.len(), 2);
        assert!(parse_columns("A").is_err());
    }
}
