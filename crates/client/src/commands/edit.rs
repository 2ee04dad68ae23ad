//! `k3 edit`: an object in the editor, and back.

use std::{env, fs, io::Write, process::Command};

use clap::Args;
use http::Method;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::get::strip;
use crate::{
    api::{JSON, MANAGER},
    connection::ConnectFlags,
    failed::Failed,
    pick::{FileFlags, Pick},
    resource::with_query,
    session::Session,
    yaml,
};

const HEADER: &str = "\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// Edit an object in the editor that `$KUBE_EDITOR` or `$EDITOR` names
#[derive(Debug, Args)]
pub struct EditFlags {
    /// What to edit: `deployment web`, `svc/db`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectFlags,
}

// --- EditFlags ---

impl EditFlags {
    pub(crate) async fn run(&self, session: &Session) -> Result<(), Failed> {
        for pick in session.pick_named(&self.what, &self.files).await? {
            edit(session, &pick).await?;
        }
        Ok(())
    }
}

async fn edit(session: &Session, pick: &Pick) -> Result<(), Failed> {
    let mut object = session.api.get(&pick.path()).await?;
    strip(&mut object);
    let original = yaml::write(&object);
    let mut shown = format!("{HEADER}{original}");
    let file = tempfile::Builder::new()
        .prefix("k3-edit-")
        .suffix(".yaml")
        .tempfile()?;
    let path = with_query(&pick.path(), &[("fieldManager", Some(MANAGER.to_owned()))]);
    loop {
        let edited = open(&file, &shown)?;
        let content = uncommented(&edited);
        if content.trim().is_empty() {
            return Err(Failed::new("Edit cancelled, saved file was empty."));
        }
        if content == uncommented(&shown) {
            if content == uncommented(&original) {
                return session.say("Edit cancelled, no changes made.");
            }
            // The same mistake twice: what was written is not lost.
            let kept = file
                .into_temp_path()
                .keep()
                .map_err(|error| Failed::new(error.error))?;
            return Err(Failed::new(format!(
                "Edit cancelled, no valid changes were saved; a copy of them is in {}",
                kept.display()
            )));
        }
        let failed = match yaml::read(&edited) {
            Ok(changed) if changed == object => return session.say("Edit cancelled, no changes made."),
            Ok(changed) => match put(session, &path, &changed).await {
                Ok(()) => return session.say(format_args!("{} edited", pick.title())),
                Err(failed) => failed.to_string(),
            },
            Err(error) => format!("error: {error}"),
        };
        eprintln!("{failed}");
        let told: String = failed
            .lines()
            .fold(String::new(), |told, line| told + "# " + line + "\n");
        shown = format!("{HEADER}{told}#\n{content}");
    }
}

async fn put(session: &Session, path: &str, object: &Value) -> Result<(), Failed> {
    session.api.write(Method::PUT, path, JSON, object).await.map(drop)
}

/// Lets the user change a text.
fn open(file: &NamedTempFile, text: &str) -> Result<String, Failed> {
    let mut writer = fs::File::create(file.path())?;
    writer.write_all(text.as_bytes())?;
    drop(writer);
    let set = |name: &str| env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = set("KUBE_EDITOR")
        .or_else(|| set("EDITOR"))
        .unwrap_or_else(|| "vi".to_owned());
    // An editor may come with arguments, so a shell reads the line, as kubectl has it.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file.path())
        .status();
    match status {
        Ok(status) if status.success() => Ok(fs::read_to_string(file.path())?),
        Ok(status) => Err(Failed::new(format!(
            "there was a problem with the editor {editor:?}: {status}"
        ))),
        Err(error) => Err(Failed::new(format!(
            "cannot start the editor {editor:?}: {error}"
        ))),
    }
}

fn uncommented(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.fold(String::new(), |kept, line| kept + line + "\n")
}
