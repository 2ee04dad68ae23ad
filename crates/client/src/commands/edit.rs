//! `k3 edit`: edits objects in an editor.

use std::{env, fs, io::Write, process::Command};

use clap::Args;
use http::Method;
use serde_json::Value;
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
            Ok(changed) => match put(session, &path, &changed).await {
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

async fn put(session: &CommandSession, path: &str, object: &Value) -> Result<(), ClientError> {
    session.api.write(Method::PUT, path, JSON, object).await.map(drop)
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
