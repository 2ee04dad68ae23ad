//! The kinds that a cluster for a test knows from the start.

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

use crate::failure::Failure;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KIND: &str = "CustomResourceDefinition";
/// How long the server may take to serve a kind.
const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

/// A definition as it is written.
#[derive(Debug)]
pub(super) struct Definition {
    file: PathBuf,
    /// YAML, of which JSON is a part.
    text: String,
}

/// What is looked at before it is sent.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: String,
}

/// The definitions in files and directories.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Definition>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        let unreadable = |error: io::Error| {
            let advice = "name a file, or a directory with *.yaml, *.yml or *.json";
            Failure::new(format!("cannot read {}", path.display()), advice).caused_by(error)
        };
        for file in files(path).map_err(unreadable)? {
            let text = fs::read_to_string(&file).map_err(unreadable)?;
            for text in documents(&text) {
                let head: Option<Head> = serde_saphyr::from_str(&text).map_err(|error| {
                    let advice = "it is to be YAML or JSON, objects with a kind";
                    Failure::new(format!("cannot understand {}", file.display()), advice).caused_by(error)
                })?;
                if head.is_some_and(|head| head.kind == KIND) {
                    let file = file.clone();
                    found.push(Definition { file, text });
                }
            }
        }
        if found.len() == before {
            let what = format!("there is no {KIND} in {}", path.display());
            return Err(Failure::usage(
                what,
                "name a file, or a directory with *.yaml, *.yml or *.json",
            ));
        }
    }
    Ok(found)
}

/// The file, or those of the directory that may hold definitions, by name.
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

/// The documents of a YAML file.
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

/// Makes the kinds known, and waits until all can be used.
pub(super) async fn install(client: &Client, definitions: Vec<Definition>) -> Result<(), Failure> {
    let mut names = Vec::new();
    for Definition { file, text } in definitions {
        let request = Request::post(PATH)
            .header("content-type", "application/yaml")
            .body(text.into_bytes())
            .expect("a path of ours makes a request");
        let made: Value = client.request(request).await.map_err(|error| {
            let advice = "correct the error in the file";
            Failure::new(format!("cannot use the {KIND} in {}", file.display()), advice).caused_by(error)
        })?;
        names.extend(made["metadata"]["name"].as_str().map(str::to_owned));
    }
    for name in names {
        let served = timeout(TIMEOUT, wait_until_established(client, &name)).await;
        served.unwrap_or_else(|_| {
            let advice = "its names may be taken by another one: see `kubectl describe crd`";
            Err(Failure::new(
                format!("{name} is not Established after {TIMEOUT:?}"),
                advice,
            ))
        })?;
    }
    Ok(())
}

async fn wait_until_established(client: &Client, name: &str) -> Result<(), Failure> {
    loop {
        let request = Request::get(format!("{PATH}/{name}"))
            .body(Vec::new())
            .expect("a name that the server gave makes a path");
        let definition: Value = client.request(request).await.map_err(|error| {
            Failure::new(format!("failed to read {name}"), "check the log of the server").caused_by(error)
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
    fn what_holds_no_definition_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "broken.yaml", "kind: [");
        write(directory.path(), "other.yaml", "kind: Pod");
        for (name, word) in [
            ("broken.yaml", "understand"),
            ("other.yaml", "there is no"),
            ("none.yaml", "read"),
        ] {
            let message = read(&[directory.path().join(name)]).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(word), "{message}");
        }
    }
}
