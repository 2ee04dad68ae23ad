//! `k3 edit`: edits objects in an editor.

use std::{env, fs, io::Write, process::Command};

use clap::Args;
use http::Method;
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use super::get::remove_managed_fields;
use crate::{
    api::{JSON, MANAGER},
    api_resource::with_query,
    connection::ConnectFlags,
    error::ClientError,
    resource_builder::{FileFlags, ResourceInfo},
    session::CommandSession,
    yaml,
};

/// How often an edit is repeated on an object that others change.
const MAX_ATTEMPTS: usize = 5;

const HEADER: &str = "\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// Edit a resource with the editor in `$KUBE_EDITOR` or `$EDITOR`
#[derive(Debug, Args)]
pub struct EditFlags {
    /// Resources to edit: `deployment web`, `svc/db`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- EditFlags ---

impl EditFlags {
    pub(crate) async fn run(&self, session: &CommandSession) -> Result<(), ClientError> {
        for info in session.resolve_named(&self.what, &self.files).await? {
            edit(session, &info).await?;
        }
        Ok(())
    }
}

async fn edit(session: &CommandSession, info: &ResourceInfo) -> Result<(), ClientError> {
    let mut object = session.api.get(&info.path()).await?;
    remove_managed_fields(&mut object);
    let original = k3_yaml::to_string(&object);
    let mut shown = format!("{HEADER}{original}");
    let file = tempfile::Builder::new()
        .prefix("k3-edit-")
        .suffix(".yaml")
        .tempfile()?;
    let path = with_query(&info.path(), &[("fieldManager", Some(MANAGER.to_owned()))]);
    loop {
        let edited = run_editor(&file, &shown)?;
        let content = uncommented(&edited);
        if content.trim().is_empty() {
            return Err(ClientError::new("Edit cancelled, saved file was empty."));
        }
        if content == uncommented(&shown) {
            if content == uncommented(&original) {
                return session.print_line("Edit cancelled, no changes made.");
            }
            // The user saved the same invalid text again: stop, and keep a copy of the text.
            let copy = file
                .into_temp_path()
                .keep()
                .map_err(|error| ClientError::new(error.error))?;
            return Err(ClientError::new(format!(
                "Edit cancelled, no valid changes were saved; a copy of them is in {}",
                copy.display()
            )));
        }
        let failed = match yaml::read(&edited) {
            Ok(changed) if changed == object => {
                return session.print_line("Edit cancelled, no changes made.");
            }
            Ok(changed) => match put(session, &path, info, &object, changed).await {
                Ok(()) => return session.print_line(format_args!("{} edited", info.title())),
                Err(failed) => failed.to_string(),
            },
            Err(error) => format!("error: {error}"),
        };
        eprintln!("{failed}");
        let comment: String = failed
            .lines()
            .fold(String::new(), |comment, line| comment + "# " + line + "\n");
        shown = format!("{HEADER}{comment}#\n{content}");
    }
}

/// Writes the edited object. When others changed it meanwhile, the edit is repeated on what they wrote, as long as they wrote
/// other fields.
// upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/editor/editoptions.go visitToPatch; kubectl sends the edit as a patch, which does not conflict
async fn put(
    session: &CommandSession,
    path: &str,
    info: &ResourceInfo,
    original: &Value,
    edited: Value,
) -> Result<(), ClientError> {
    let mut object = edited.clone();
    let mut attempts = 0;
    loop {
        let Err(failed) = session.api.write(Method::PUT, path, JSON, &object).await else {
            return Ok(());
        };
        attempts += 1;
        if failed.http_code() != Some(409) || attempts == MAX_ATTEMPTS {
            return Err(failed);
        }
        let mut current = session.api.get(&info.path()).await?;
        remove_managed_fields(&mut current);
        match rebase(original, &edited, &current) {
            Some(rebased) => object = rebased,
            None => return Err(failed),
        }
    }
}

/// Repeats the change from `original` to `edited` on `current`; `None` if that has another change of the same field or list.
fn rebase(original: &Value, edited: &Value, current: &Value) -> Option<Value> {
    if edited == original {
        return Some(current.clone());
    }
    if current == original || current == edited {
        return Some(edited.clone());
    }
    let (Value::Object(before), Value::Object(wanted), Value::Object(now)) = (original, edited, current)
    else {
        return None;
    };
    let mut rebased = Map::new();
    for name in now.keys().chain(wanted.keys()) {
        if rebased.contains_key(name) {
            continue;
        }
        // A missing field is compared as null: what the server omits has no value.
        let [before, wanted, now] =
            [before, wanted, now].map(|fields| fields.get(name).unwrap_or(&Value::Null));
        match rebase(before, wanted, now)? {
            Value::Null => {}
            value => {
                rebased.insert(name.clone(), value);
            }
        }
    }
    Some(Value::Object(rebased))
}

/// Opens `text` in the editor and returns the saved text.
fn run_editor(file: &NamedTempFile, text: &str) -> Result<String, ClientError> {
    let mut writer = fs::File::create(file.path())?;
    writer.write_all(text.as_bytes())?;
    drop(writer);
    let set = |name: &str| env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = set("KUBE_EDITOR")
        .or_else(|| set("EDITOR"))
        .unwrap_or_else(|| "vi".to_owned());
    // The variable may contain arguments, so a shell splits it, as in kubectl.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file.path())
        .status();
    match status {
        Ok(status) if status.success() => Ok(fs::read_to_string(file.path())?),
        Ok(status) => Err(ClientError::new(format!(
            "there was a problem with the editor {editor:?}: {status}"
        ))),
        Err(error) => Err(ClientError::new(format!(
            "cannot start the editor {editor:?}: {error}"
        ))),
    }
}

fn uncommented(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{CannedServer, json_answer, session};

    const OBJECT: &str = "/api/v1/namespaces/default/configmaps/a";

    fn object(version: &str, data: &Value) -> Value {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data,
            "metadata": {"name": "a", "namespace": "default", "resourceVersion": version}})
    }

    /// Writes an edit of `{"k": "old", "other": 1}` that sets `k` to `new`; the object of the server is `current` by then.
    async fn put_edit(current: &Value, attempts: &[Vec<u8>]) -> (Result<(), ClientError>, Vec<Value>) {
        let server = CannedServer::start()
            .on(&format!("GET {OBJECT}"), &[json_answer(200, current)])
            .on(&format!("PUT {OBJECT}"), attempts);
        let session = session(&server).await;
        let what = ["configmap".to_owned(), "a".to_owned()];
        let infos = session
            .resolve_named(&what, &FileFlags::default())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let original = object("1", &json!({"k": "old", "other": "1"}));
        let edited = object("1", &json!({"k": "new", "other": "1"}));
        let result = put(&session, OBJECT, &infos[0], &original, edited).await;
        let bodies = server
            .requests()
            .into_iter()
            .filter(|request| request.line.starts_with("PUT"))
            .map(|request| serde_json::from_str(&request.body).unwrap());
        (result, bodies.collect())
    }

    fn conflict() -> Vec<u8> {
        let status =
            json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "it was modified"});
        json_answer(409, &status)
    }

    #[tokio::test]
    async fn an_edit_is_repeated_on_what_others_wrote() {
        let current = object("7", &json!({"k": "old", "other": "2", "more": "3"}));
        let (result, bodies) = put_edit(&current, &[conflict(), json_answer(200, &current)]).await;
        assert!(result.is_ok());
        assert_eq!(bodies.len(), 2);
        assert_eq!(
            bodies[1],
            object("7", &json!({"k": "new", "other": "2", "more": "3"}))
        );
    }

    #[tokio::test]
    async fn an_edit_of_a_field_that_others_changed_is_a_conflict() {
        let current = object("7", &json!({"k": "third", "other": "1"}));
        let (result, bodies) = put_edit(&current, &[conflict()]).await;
        assert_eq!(result.unwrap_err().http_code(), Some(409));
        assert_eq!(bodies.len(), 1);
    }

    #[tokio::test]
    async fn an_edit_is_not_repeated_for_ever() {
        let current = object("7", &json!({"k": "old"}));
        let (result, bodies) = put_edit(&current, &[conflict()]).await;
        assert_eq!(result.unwrap_err().http_code(), Some(409));
        assert_eq!(bodies.len(), MAX_ATTEMPTS);
    }

    #[test]
    fn rebases_added_removed_and_equal_changes() {
        for (original, edited, current, expected) in [
            (
                json!({"a": 1}),
                json!({}),
                json!({"a": 1, "b": 2}),
                Some(json!({"b": 2})),
            ),
            (
                json!({}),
                json!({"a": 1}),
                json!({"b": 2}),
                Some(json!({"a": 1, "b": 2})),
            ),
            (
                json!({"a": 1}),
                json!({"a": 2}),
                json!({"a": 2}),
                Some(json!({"a": 2})),
            ),
            (json!({"a": 1}), json!({"a": 2}), json!({}), None),
            (
                json!({"a": [1]}),
                json!({"a": [1, 2]}),
                json!({"a": [0, 1]}),
                None,
            ),
            (
                json!({"a": [1], "b": 1}),
                json!({"a": [1, 2], "b": 1}),
                json!({"a": [1], "b": 5}),
                Some(json!({"a": [1, 2], "b": 5})),
            ),
        ] {
            assert_eq!(
                rebase(&original, &edited, &current),
                expected,
                "{original} {edited} {current}"
            );
        }
    }
}
