//! Printing of objects in the format of `-o`.

use std::{fs, io::Write, str::FromStr};

use k3_jsonpath::{JsonPath, ParseError, Template};
use serde::Serialize;
use serde_json::{Value, ser::PrettyFormatter};

use crate::{error::ClientError, stdout::StdoutWriter, table::Table};

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

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map_err(|failed| failed.to_string().trim_start_matches("error: ").to_owned())
    }
}

fn parse(text: &str) -> Result<OutputFormat, ClientError> {
    let (format, argument) = text
        .split_once('=')
        .map_or((text, None), |(format, argument)| (format, Some(argument)));
    let from_file = |path: Option<&str>| {
        let path = path.unwrap_or_default();
        fs::read_to_string(path).map_err(|error| ClientError::usage(format!("cannot read {path}: {error}")))
    };
    match (format, argument) {
        ("wide", None) => Ok(OutputFormat::Wide),
        ("json", None) => Ok(OutputFormat::Json),
        ("yaml", None) => Ok(OutputFormat::Yaml),
        ("name", None) => Ok(OutputFormat::Name),
        ("jsonpath" | "jsonpath-as-text", Some(template)) => {
            Ok(OutputFormat::JsonPath(parse_template(template)?))
        }
        ("jsonpath-file", path) => Ok(OutputFormat::JsonPath(parse_template(&from_file(path)?)?)),
        ("custom-columns", Some(columns)) => Ok(OutputFormat::Columns(parse_columns(columns)?)),
        ("jsonpath" | "custom-columns", None) => Err(ClientError::usage(format!(
            "template format specified but no template given: -o {format}=..."
        ))),
        _ => Err(ClientError::usage(format!(
            "unable to match a printer suitable for the output format {text:?}, allowed formats are: \
             custom-columns,json,jsonpath,jsonpath-file,name,wide,yaml"
        ))),
    }
}

// upstream: staging/src/k8s.io/kubectl/pkg/cmd/get/customcolumn.go NewCustomColumnsPrinterFromSpec
/// Parses `NAME:.metadata.name,AGE:.metadata.creationTimestamp`.
fn parse_columns(text: &str) -> Result<Vec<(String, JsonPath)>, ClientError> {
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
        let (header, path) = part.split_once(':').ok_or_else(|| {
            ClientError::usage(format!(
                "unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"
            ))
        })?;
        Ok((header.to_owned(), parse_path(path)?))
    };
    parts.map(column).collect()
}

/// Parses the path of a column, of `--sort-by` or of `wait`.
pub(crate) fn parse_path(text: &str) -> Result<JsonPath, ClientError> {
    JsonPath::parse_relaxed(text).map_err(|error| invalid_path(text, &error))
}

fn parse_template(text: &str) -> Result<Template, ClientError> {
    Template::parse(text).map_err(|error| invalid_path(text, &error))
}

fn invalid_path(text: &str, error: &ParseError) -> ClientError {
    ClientError::usage(format!("error parsing jsonpath {text}: {error}"))
}

// --- Output ---

impl OutputFormat {
    /// Prints an object, or a `List` of objects. `has_header` applies to columns only.
    pub(crate) fn print(
        &self,
        screen: &mut StdoutWriter,
        object: &Value,
        has_header: bool,
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
                table.print(screen, has_header)
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
    let shown = found.into_iter().map(|value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    });
    shown.collect::<Vec<_>>().join(",")
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
        let error = "xml".parse::<OutputFormat>().unwrap_err();
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
