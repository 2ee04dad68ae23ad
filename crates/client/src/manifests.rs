//! Manifests: files with YAML or JSON documents. Empty documents are skipped, and lists become their items.

use std::{
    fs,
    io::{Read, stdin},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{error::ClientError, yaml};

/// An object and the file it was read from.
#[derive(Clone, Debug)]
pub(crate) struct ManifestDocument {
    pub(crate) source: String,
    pub(crate) object: Value,
}

/// Which files of a directory are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directories {
    /// Those in the directory itself.
    Flat,
    /// Those in the directories inside too.
    Recursive,
}

// --- ManifestDocument ---

impl ManifestDocument {
    /// Returns `apiVersion` and `kind`.
    pub(crate) fn type_meta(&self) -> Result<(&str, &str), ClientError> {
        let field = |name: &str| {
            let text = self.object[name].as_str().filter(|text| !text.is_empty());
            text.ok_or_else(|| {
                ClientError::new(format!("error validating {:?}: {name} not set", self.source))
            })
        };
        Ok((field("apiVersion")?, field("kind")?))
    }

    /// Returns the error for a kind that the server does not have.
    pub(crate) fn no_match_error(&self) -> ClientError {
        let text = |name: &str| self.object[name].as_str().unwrap_or_default();
        ClientError::new(format!(
            "resource mapping not found for name: {:?} namespace: {:?} from {:?}: no matches for kind {:?} in version {:?}\n\
             ensure CRDs are installed first",
            self.object["metadata"]["name"].as_str().unwrap_or_default(),
            self.object["metadata"]["namespace"].as_str().unwrap_or_default(),
            self.source,
            text("kind"),
            text("apiVersion"),
        ))
    }
}

/// Reads the objects in files and directories; `-` is stdin.
pub(crate) fn read(
    paths: &[PathBuf],
    directories: Directories,
) -> Result<Vec<ManifestDocument>, ClientError> {
    let mut documents = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            stdin().read_to_string(&mut text)?;
            documents.extend(split("STDIN", &text)?);
        } else if path.is_dir() {
            let mut files = Vec::new();
            collect(path, directories, &mut files)?;
            for file in files {
                documents.extend(read_file(&file)?);
            }
        } else {
            documents.extend(read_file(path)?);
        }
    }
    if documents.is_empty() {
        return Err(ClientError::new("no objects passed to apply, delete or get"));
    }
    Ok(documents)
}

fn read_file(path: &Path) -> Result<Vec<ManifestDocument>, ClientError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    split(&path.display().to_string(), &text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> ClientError {
    if error.kind() == std::io::ErrorKind::NotFound {
        return ClientError::new(format!(
            "the path {:?} does not exist",
            path.display().to_string()
        ));
    }
    ClientError::new(format!("cannot read {}: {error}", path.display()))
}

/// Collects the files of a directory, sorted by name.
fn collect(directory: &Path, directories: Directories, files: &mut Vec<PathBuf>) -> Result<(), ClientError> {
    let entries = fs::read_dir(directory).map_err(|error| unreadable(directory, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if directories == Directories::Recursive {
                collect(&path, directories, files)?;
            }
        } else if path.extension().is_some_and(|extension| {
            ["json", "yaml", "yml"]
                .iter()
                .any(|allowed| extension == *allowed)
        }) {
            files.push(path);
        }
    }
    Ok(())
}

/// Splits a text into documents.
pub(crate) fn split(source: &str, text: &str) -> Result<Vec<ManifestDocument>, ClientError> {
    let mut documents = Vec::new();
    let unreadable = |error: String| ClientError::new(format!("error parsing {source}: {error}"));
    let mut yaml = text;
    if text.trim_start().starts_with('{') {
        match read_json(source, text, &mut documents) {
            Ok(()) => return Ok(documents),
            // A flow mapping begins as JSON does, and `---` may follow an object in JSON.
            Err((consumed, error)) => {
                yaml = &text[consumed..];
                let first = split_yaml(yaml).into_iter().next();
                if first.is_none_or(|(_, part)| yaml::read(&part).is_err()) {
                    return Err(unreadable(error.to_string()));
                }
            }
        }
    }
    let lines_before = text[..text.len() - yaml.len()].matches('\n').count();
    for (line, part) in split_yaml(yaml) {
        let line = line + lines_before;
        let value =
            yaml::read(&part).map_err(|error| unreadable(format!("document at line {line}: {error}")))?;
        match value {
            Value::Null => {}
            Value::Object(_) => flatten_list(source, value, &mut documents),
            _ => {
                return Err(unreadable(format!("document at line {line}: expected an object")));
            }
        }
    }
    Ok(documents)
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go YAMLOrJSONDecoder
/// Reads objects in JSON, one after the other. An error has the length of what was read before it.
fn read_json(
    source: &str,
    text: &str,
    documents: &mut Vec<ManifestDocument>,
) -> Result<(), (usize, serde_json::Error)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut consumed = 0;
    while let Some(value) = values.next() {
        let value = value.map_err(|error| (consumed, error))?;
        consumed = values.byte_offset();
        flatten_list(source, value, documents);
    }
    Ok(())
}

/// Splits a YAML text into documents, each with its first line number. A line that starts with `---` separates them; it may
/// hold a comment or the start of the next document.
fn split_yaml(text: &str) -> Vec<(usize, String)> {
    let mut parts = vec![(1, String::new())];
    for (number, line) in (1..).zip(text.lines()) {
        let after = line
            .strip_prefix("---")
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if let Some(after) = after {
            parts.push((number, format!("{}\n", after.trim_start())));
        } else if line == "..." {
            parts.push((number, String::new()));
        } else if let Some((_, part)) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    let is_blank = |line: &str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    };
    parts.retain(|(_, part)| !part.lines().all(is_blank));
    parts
}

/// Adds an object, or the items of a list.
fn flatten_list(source: &str, value: Value, documents: &mut Vec<ManifestDocument>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Object(mut fields) if is_list && fields.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = fields.remove("items") else {
                return;
            };
            for item in items {
                flatten_list(source, item, documents);
            }
        }
        object => documents.push(ManifestDocument {
            source: source.to_owned(),
            object,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let documents = split("a.yaml", text).unwrap();
        documents
            .iter()
            .map(|document| document.object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn skips_comments_and_empty_documents() {
        let text =
            "# first\n---\n---\nmetadata: {name: a}\n--- # next\nmetadata:\n  name: b\n---\n# nothing\n\n";
        assert_eq!(names(text), ["a", "b"]);
    }

    #[test]
    fn keeps_dashes_within_a_block_scalar() {
        let text = "metadata: {name: a}\ndata:\n  key: |\n    ---\n    more\n  other: ---x\n";
        assert_eq!(names(text), ["a"]);
    }

    #[test]
    fn splits_concatenated_json() {
        assert_eq!(
            names(r#"{"metadata": {"name": "a"}} {"metadata": {"name": "b"}}"#),
            ["a", "b"]
        );
    }

    #[test]
    fn reads_flow_mappings_and_json_between_separators() {
        assert_eq!(names("{metadata: {name: a}}\n"), ["a"]);
        assert_eq!(
            names(
                "{\"metadata\": {\"name\": \"a\"}}\n---\n{\"metadata\": {\"name\": \"b\"}}\n---\nmetadata: {name: c}\n"
            ),
            ["a", "b", "c"]
        );
        let error = split("a.json", "{\"a\": 1").unwrap_err().to_string();
        assert!(
            error.contains("error parsing a.json: EOF while parsing"),
            "{error}"
        );
    }

    #[test]
    fn reads_other_line_ends_and_a_byte_order_mark() {
        assert_eq!(
            names("metadata: {name: a}\r\n---\r\nmetadata:\r\n  name: b\r\n"),
            ["a", "b"]
        );
        assert_eq!(names("\u{feff}metadata: {name: a}\n"), ["a"]);
    }

    #[test]
    fn flattens_lists() {
        let text =
            "kind: List\nitems:\n- metadata: {name: a}\n- kind: PodList\n  items: [{metadata: {name: b}}]\n";
        assert_eq!(names(text), ["a", "b"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let failed = split("a.yaml", "a: b\n---\na: [\n").unwrap_err().to_string();
        assert!(failed.contains("a.yaml: document at line 2"), "{failed}");
        let failed = split("a.yaml", "word\n").unwrap_err().to_string();
        assert!(failed.contains("expected an object"), "{failed}");
    }
}
