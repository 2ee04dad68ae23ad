//! The CustomResourceDefinitions of a test cluster.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::command_error::CommandError;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KIND: &str = "CustomResourceDefinition";
/// Timeout until the server serves a kind.
const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

/// A definition as text.
#[derive(Debug)]
pub(super) struct DefinitionManifest {
    file: PathBuf,
    /// YAML or JSON.
    text: String,
}

/// The field that identifies definitions.
#[derive(Deserialize)]
struct ManifestHead {
    #[serde(default)]
    kind: String,
}

/// Reads the definitions in files and directories.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<DefinitionManifest>, CommandError> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        let unreadable = |error: io::Error| {
            let advice = "name a file, or a directory with *.yaml, *.yml or *.json";
            CommandError::new(format!("cannot read {}", path.display()), advice).caused_by(error)
        };
        for file in files(path).map_err(unreadable)? {
            let text = fs::read_to_string(&file).map_err(unreadable)?;
            for text in documents(&text) {
                let head: Option<ManifestHead> = serde_saphyr::from_str(&text).map_err(|error| {
                    let advice = "use YAML or JSON documents with a kind";
                    CommandError::new(format!("cannot parse {}", file.display()), advice).caused_by(error)
                })?;
                if head.is_some_and(|head| head.kind == KIND) {
                    let file = file.clone();
                    found.push(DefinitionManifest { file, text });
                }
            }
        }
        if found.len() == before {
            let what = format!("no {KIND} found in {}", path.display());
            return Err(CommandError::usage(
                what,
                "name a file, or a directory with *.yaml, *.yml or *.json",
            ));
        }
    }
    Ok(found)
}

/// The file, or the YAML and JSON files of a directory sorted by name.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("yaml" | "yml" | "json")) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Splits a YAML file into documents.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match documents.last_mut() {
            Some(last) if !line.starts_with("---") => {
                last.push_str(line);
                last.push('\n');
            }
            _ => documents.push(String::new()),
        }
    }
    documents
}

/// Creates the definitions, and waits until all are established.
pub(super) async fn install(
    client: &Client,
    definitions: Vec<DefinitionManifest>,
) -> Result<(), CommandError> {
    let mut names = Vec::new();
    for DefinitionManifest { file, text } in definitions {
        let request = Request::post(PATH)
            .header("content-type", "application/yaml")
            .body(text.into_bytes())
            .expect("the path is valid");
        let made: Value = client.request(request).await.map_err(|error| {
            let advice = "correct the error in the file";
            CommandError::new(
                format!("failed to create the {KIND} in {}", file.display()),
                advice,
            )
            .caused_by(error)
        })?;
        names.extend(made["metadata"]["name"].as_str().map(str::to_owned));
    }
    for name in names {
        let served = timeout(TIMEOUT, wait_until_established(client, &name)).await;
        served.unwrap_or_else(|_| {
            let advice = "its names may conflict with another one: check `kubectl describe crd`";
            Err(CommandError::new(
                format!("{name} is not Established after {TIMEOUT:?}"),
                advice,
            ))
        })?;
    }
    Ok(())
}

async fn wait_until_established(client: &Client, name: &str) -> Result<(), CommandError> {
    loop {
        let request = Request::get(format!("{PATH}/{name}"))
            .body(Vec::new())
            .expect("a name from the server is a valid path segment");
        let definition: Value = client.request(request).await.map_err(|error| {
            CommandError::new(format!("failed to read {name}"), "check the log of the server")
                .caused_by(error)
        })?;
        let conditions = definition["status"]["conditions"].as_array();
        let is_served = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        if is_served {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str, text: &str) {
        fs::write(directory.join(name), text).unwrap();
    }

    #[test]
    fn finds_definitions_among_other_documents() {
        let directory = tempfile::tempdir().unwrap();
        write(
            directory.path(),
            "b.yaml",
            "# first\n---\nkind: CustomResourceDefinition\nmetadata: {name: b}\n---\nkind: ConfigMap\n---\n",
        );
        write(
            directory.path(),
            "a.json",
            r#"{"kind": "CustomResourceDefinition", "metadata": {"name": "a"}}"#,
        );
        write(directory.path(), "README.md", "kind: CustomResourceDefinition");
        let found = read(&[directory.path().to_owned()]).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|found| found.file.file_name().unwrap())
            .collect();
        assert_eq!(names, ["a.json", "b.yaml"]);
        assert!(found[1].text.contains("{name: b}") && !found[1].text.contains("ConfigMap"));
    }

    #[test]
    fn a_file_without_definitions_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "broken.yaml", "kind: [");
        write(directory.path(), "other.yaml", "kind: Pod");
        for (name, word) in [
            ("broken.yaml", "parse"),
            ("other.yaml", "no CustomResourceDefinition found"),
            ("none.yaml", "read"),
        ] {
            let message = read(&[directory.path().join(name)]).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(word), "{message}");
        }
    }
}
