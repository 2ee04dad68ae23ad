//! `k3 kubeconfig`: views and changes kubeconfig files.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::{
    connection::{ADMIN, home_kubeconfig},
    error::ClientError,
    session::ClientDefaults,
    stdout::StdoutWriter,
    table::{Header, Table},
    yaml,
};

/// View, merge and modify kubeconfig files
#[derive(Debug, Args)]
pub struct KubeconfigFlags {
    #[command(subcommand)]
    command: KubeconfigCommand,
}

#[derive(Debug, Subcommand)]
enum KubeconfigCommand {
    /// Print the effective kubeconfig with secrets redacted
    Print {
        #[command(flatten)]
        location: KubeconfigLocation,

        /// Print secrets too. The output grants access to the cluster
        #[arg(long)]
        raw: bool,

        /// Print only what the current context uses
        #[arg(long)]
        minify: bool,
    },
    /// Add the clusters, users and contexts of other kubeconfigs
    Merge {
        /// Kubeconfigs to add [default: admin.kubeconfig of the data directory]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,

        /// Kubeconfig to add to [default: the first file in `$KUBECONFIG`, or `~/.kube/config`]
        #[arg(long, value_name = "FILE")]
        into: Option<PathBuf>,

        /// Data directory whose admin.kubeconfig is added
        #[arg(long, value_name = "DIR", conflicts_with = "files")]
        data_dir: Option<PathBuf>,

        /// New name for the added cluster, user and context
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        /// Replace entries with the same name
        #[arg(long)]
        overwrite: bool,

        /// Do not change the current context
        #[arg(long)]
        keep_context: bool,
    },
    /// Set the current context
    Use {
        /// Name of the context
        context: String,

        #[command(flatten)]
        location: KubeconfigLocation,
    },
    /// Print the contexts
    Contexts {
        #[command(flatten)]
        location: KubeconfigLocation,
    },
    /// Print the name of the current context
    Current {
        #[command(flatten)]
        location: KubeconfigLocation,
    },
    /// Set the namespace of the current context
    Namespace {
        /// Name of the namespace
        name: String,

        #[command(flatten)]
        location: KubeconfigLocation,
    },
}

/// Flags that select a kubeconfig.
#[derive(Debug, Args)]
struct KubeconfigLocation {
    /// Path to the kubeconfig [default: the first file in `$KUBECONFIG`, `~/.kube/config`, or admin.kubeconfig of the data
    /// directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Data directory whose admin.kubeconfig is used
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
}

/// The lists of a kubeconfig.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];

/// Secret fields and their redacted value, as in `kubectl config view`.
const SECRETS: [(&str, &str); 5] = [
    ("client-certificate-data", "DATA+OMITTED"),
    ("client-key-data", "DATA+OMITTED"),
    ("certificate-authority-data", "DATA+OMITTED"),
    ("token", "REDACTED"),
    ("password", "REDACTED"),
];

// --- KubeconfigLocation ---

impl KubeconfigLocation {
    fn path(&self, defaults: &ClientDefaults) -> Result<PathBuf, ClientError> {
        if let Some(file) = &self.kubeconfig {
            return Ok(file.clone());
        }
        if let Some(directory) = &self.data_dir {
            return Ok(directory.join(ADMIN));
        }
        match default_kubeconfig() {
            Some(path) if path.exists() => Ok(path),
            _ if defaults.admin_kubeconfig.exists() => Ok(defaults.admin_kubeconfig.clone()),
            Some(path) => Err(ClientError::new(format!(
                "no kubeconfig found: {} does not exist; use --kubeconfig",
                path.display()
            ))),
            None => Err(ClientError::new("no kubeconfig found; use --kubeconfig")),
        }
    }
}

/// Returns the first file in `$KUBECONFIG`, or `~/.kube/config`.
fn default_kubeconfig() -> Option<PathBuf> {
    let variable = env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    let first = variable.and_then(|files| env::split_paths(&files).find(|path| !path.as_os_str().is_empty()));
    first.or_else(home_kubeconfig)
}

// --- KubeconfigFlags ---

impl KubeconfigFlags {
    pub(crate) fn run(&self, defaults: &ClientDefaults) -> Result<(), ClientError> {
        match &self.command {
            KubeconfigCommand::Print {
                location,
                raw,
                minify,
            } => {
                let mut config = read(&location.path(defaults)?)?;
                if *minify {
                    config = minified(&config)?;
                }
                if !raw {
                    redact(&mut config);
                }
                print_line(k3_yaml::to_string(&config).trim_end())
            }
            KubeconfigCommand::Merge {
                files,
                into,
                data_dir,
                name,
                overwrite,
                keep_context,
            } => {
                let admin = data_dir.as_ref().map(|directory| directory.join(ADMIN));
                let admin = admin.unwrap_or_else(|| defaults.admin_kubeconfig.clone());
                let files = if files.is_empty() {
                    std::slice::from_ref(&admin)
                } else {
                    files
                };
                let into = into.clone().or_else(default_kubeconfig);
                let into = into.ok_or_else(|| ClientError::usage("$HOME is not set; use --into"))?;
                let mut config = if into.exists() { read(&into)? } else { empty() };
                for file in files {
                    let mut added = read(file)?;
                    if file.parent() != into.parent() {
                        resolve_paths(&mut added, file)?;
                    }
                    if let Some(name) = name {
                        added = renamed(&minified(&added)?, name);
                    }
                    let same_name = if *overwrite {
                        SameName::Overwrite
                    } else {
                        SameName::Reject
                    };
                    let current = if *keep_context {
                        CurrentContext::Keep
                    } else {
                        CurrentContext::Replace
                    };
                    merge(&mut config, &added, same_name, current)?;
                }
                write(&into, &config)?;
                let current = config["current-context"].as_str().unwrap_or_default();
                print_line(&format!("wrote {}; current context: {current:?}", into.display()))
            }
            KubeconfigCommand::Use { context, location } => {
                let path = location.path(defaults)?;
                let mut config = read(&path)?;
                if find(&config, "contexts", context).is_none() {
                    return Err(ClientError::new(format!(
                        "no context exists with the name: {context:?}"
                    )));
                }
                config["current-context"] = context.clone().into();
                write(&path, &config)?;
                print_line(&format!("Switched to context {context:?}."))
            }
            KubeconfigCommand::Contexts { location } => contexts(&read(&location.path(defaults)?)?),
            KubeconfigCommand::Current { location } => {
                let config = read(&location.path(defaults)?)?;
                print_line(current(&config)?)
            }
            KubeconfigCommand::Namespace { name, location } => {
                let path = location.path(defaults)?;
                let mut config = read(&path)?;
                let context = current(&config)?.to_owned();
                let lists = config["contexts"].as_array_mut().into_iter().flatten();
                for entry in lists.filter(|entry| entry["name"] == *context) {
                    entry["context"]["namespace"] = name.clone().into();
                }
                write(&path, &config)?;
                print_line(&format!("Context {context:?} modified."))
            }
        }
    }
}

fn print_line(text: &str) -> Result<(), ClientError> {
    let mut screen = StdoutWriter::open();
    writeln!(screen, "{text}")?;
    Ok(screen.flush()?)
}

fn contexts(config: &Value) -> Result<(), ClientError> {
    let mut table = Table::new(&["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for entry in config["contexts"].as_array().into_iter().flatten() {
        let mark = if entry["name"] == config["current-context"] {
            "*"
        } else {
            ""
        };
        let context = &entry["context"];
        table.rows.push(vec![
            mark.to_owned(),
            text(&entry["name"]),
            text(&context["cluster"]),
            text(&context["user"]),
            text(&context["namespace"]),
        ]);
    }
    let mut screen = StdoutWriter::open();
    table.print(&mut screen, Header::Shown)?;
    Ok(screen.flush()?)
}

fn empty() -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "preferences": {}, "clusters": [], "users": [], "contexts": []})
}

fn read(path: &Path) -> Result<Value, ClientError> {
    let text =
        fs::read_to_string(path).map_err(|error| ClientError::new(format!("{}: {error}", path.display())))?;
    let config =
        yaml::read(&text).map_err(|error| ClientError::new(format!("{}: {error}", path.display())))?;
    match config {
        Value::Null => Ok(empty()),
        Value::Object(_) => Ok(config),
        _ => Err(ClientError::new(format!("{}: not a kubeconfig", path.display()))),
    }
}

/// Writes a kubeconfig atomically, readable by its owner only.
fn write(path: &Path, config: &Value) -> Result<(), ClientError> {
    let failed =
        |error: std::io::Error| ClientError::new(format!("cannot write {}: {error}", path.display()));
    let directory = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    k3_files::create_directory(directory).map_err(failed)?;
    // Replace the target of a symbolic link, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Some(name) = path.file_name() else {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    };
    let mut name = name.to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = k3_files::open(&temporary, &mut options).map_err(failed)?;
    let result = file
        .write_all(k3_yaml::to_string(config).as_bytes())
        .and_then(|()| file.sync_all());
    result
        .and_then(|()| fs::rename(&temporary, &path))
        .map_err(|error| {
            // Best effort: the error of the write is returned.
            let _ = fs::remove_file(&temporary);
            failed(error)
        })
}

fn find<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config[list]
        .as_array()?
        .iter()
        .find(|entry| entry["name"] == name)
}

fn current(config: &Value) -> Result<&str, ClientError> {
    let current = config["current-context"].as_str().filter(|name| !name.is_empty());
    current.ok_or_else(|| ClientError::new("current-context is not set"))
}

/// Returns the kubeconfig with only the entries that the current context uses.
fn minified(config: &Value) -> Result<Value, ClientError> {
    let name = current(config)?;
    let context = find(config, "contexts", name)
        .ok_or_else(|| ClientError::new(format!("no context exists with the name: {name:?}")))?;
    let select = |list: &str, name: &Value| {
        let found = name.as_str().and_then(|name| find(config, list, name));
        Value::Array(found.cloned().into_iter().collect())
    };
    let mut small = empty();
    small["contexts"] = json!([context]);
    small["clusters"] = select("clusters", &context["context"]["cluster"]);
    small["users"] = select("users", &context["context"]["user"]);
    small["current-context"] = name.into();
    Ok(small)
}

/// Renames the cluster, user and context.
fn renamed(config: &Value, name: &str) -> Value {
    let mut config = config.clone();
    let user = format!("{name}-admin");
    let entry = |list: &mut Value, name: &str| {
        if let Some(entry) = list.get_mut(0) {
            entry["name"] = name.into();
        }
    };
    entry(&mut config["clusters"], name);
    entry(&mut config["users"], &user);
    entry(&mut config["contexts"], name);
    if let Some(context) = config["contexts"].get_mut(0) {
        context["context"]["cluster"] = name.into();
        context["context"]["user"] = user.into();
    }
    config["current-context"] = name.into();
    config
}

/// Fields with paths of files, which are relative to the kubeconfig.
const PATHS: [(&str, &str, &str); 4] = [
    ("clusters", "cluster", "certificate-authority"),
    ("users", "user", "client-certificate"),
    ("users", "user", "client-key"),
    ("users", "user", "tokenFile"),
];

// upstream: staging/src/k8s.io/client-go/tools/clientcmd/loader.go ResolveLocalPaths
/// Makes the paths in a kubeconfig absolute: in a file elsewhere they would lead elsewhere.
fn resolve_paths(config: &mut Value, file: &Path) -> Result<(), ClientError> {
    let file = std::path::absolute(file)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    let resolve = |value: &mut Value| {
        if let Some(path) = value.as_str().filter(|path| !path.is_empty()) {
            *value = directory.join(path).display().to_string().into();
        }
    };
    for (list, inner, field) in PATHS {
        for entry in config[list].as_array_mut().into_iter().flatten() {
            if let Some(value) = entry.get_mut(inner).and_then(|inner| inner.get_mut(field)) {
                resolve(value);
            }
        }
    }
    for entry in config["users"].as_array_mut().into_iter().flatten() {
        // A command without a slash is looked for in $PATH.
        if let Some(command) = entry.pointer_mut("/user/exec/command")
            && command.as_str().is_some_and(|command| command.contains('/'))
        {
            resolve(command);
        }
    }
    Ok(())
}

/// What happens to an entry when one with its name and other content is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SameName {
    Reject,
    Overwrite,
}

/// Whether the current context becomes that of the merged kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CurrentContext {
    Replace,
    Keep,
}

/// Merges one kubeconfig into another.
fn merge(
    config: &mut Value,
    added: &Value,
    same_name: SameName,
    current: CurrentContext,
) -> Result<(), ClientError> {
    for list in LISTS {
        if !config[list].is_array() {
            config[list] = json!([]);
        }
        let Some(entries) = config[list].as_array_mut() else {
            continue;
        };
        for entry in added[list].as_array().into_iter().flatten() {
            match entries.iter_mut().find(|other| other["name"] == entry["name"]) {
                None => entries.push(entry.clone()),
                Some(same) if same == entry => {}
                Some(other) if same_name == SameName::Overwrite => *other = entry.clone(),
                Some(_) => {
                    return Err(ClientError::new(format!(
                        "the {list} entry {} already exists with other content; use --name to rename it or --overwrite to replace it",
                        entry["name"]
                    )));
                }
            }
        }
    }
    let has_none = config["current-context"].as_str().unwrap_or_default().is_empty();
    if (has_none || current == CurrentContext::Replace) && added["current-context"].is_string() {
        config["current-context"] = added["current-context"].clone();
    }
    Ok(())
}

fn redact(config: &mut Value) {
    let hide = |fields: &mut Map<String, Value>| {
        for (name, shown) in SECRETS {
            if let Some(value) = fields.get_mut(name) {
                *value = shown.into();
            }
        }
    };
    for (list, inner) in [("clusters", "cluster"), ("users", "user")] {
        for entry in config[list].as_array_mut().into_iter().flatten() {
            if let Some(fields) = entry[inner].as_object_mut() {
                hide(fields);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(server: &str) -> Value {
        json!({"current-context": "k3", "contexts": [{"name": "k3", "context": {"cluster": "k3", "user": "admin"}}],
            "clusters": [{"name": "k3", "cluster": {"server": server}}],
            "users": [{"name": "admin", "user": {"token": "secret", "client-key-data": "secret"}}]})
    }

    #[test]
    fn merge_rejects_a_different_entry_with_the_same_name() {
        let mut config = empty();
        merge(
            &mut config,
            &sample("https://a"),
            SameName::Reject,
            CurrentContext::Replace,
        )
        .unwrap();
        merge(
            &mut config,
            &sample("https://a"),
            SameName::Reject,
            CurrentContext::Replace,
        )
        .unwrap();
        assert_eq!(config["clusters"].as_array().unwrap().len(), 1);
        let error = merge(
            &mut config,
            &sample("https://b"),
            SameName::Reject,
            CurrentContext::Replace,
        )
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("the clusters entry \"k3\" already exists"),
            "{error}"
        );
        merge(
            &mut config,
            &renamed(&sample("https://b"), "other"),
            SameName::Reject,
            CurrentContext::Keep,
        )
        .unwrap();
        assert_eq!(config["current-context"], "k3");
        assert_eq!(
            find(&config, "contexts", "other").unwrap()["context"],
            json!({"cluster": "other", "user": "other-admin"})
        );
        assert_eq!(
            minified(&config).unwrap()["clusters"],
            sample("https://a")["clusters"]
        );
    }

    #[test]
    fn merged_paths_lead_to_the_same_files() {
        let mut config = json!({
            "clusters": [{"name": "c", "cluster": {"certificate-authority": "ca.crt"}}],
            "users": [
                {"name": "a", "user": {"client-certificate": "../a.crt", "client-key": "/keys/a.key", "tokenFile": ""}},
                {"name": "b", "user": {"exec": {"command": "bin/login"}}},
                {"name": "c", "user": {"exec": {"command": "login"}}},
                {"name": "d"},
            ],
        });
        resolve_paths(&mut config, Path::new("/clusters/one/config")).unwrap();
        assert_eq!(
            config["clusters"][0]["cluster"]["certificate-authority"],
            "/clusters/one/ca.crt"
        );
        assert_eq!(
            config["users"],
            json!([
                {"name": "a", "user": {"client-certificate": "/clusters/one/../a.crt", "client-key": "/keys/a.key", "tokenFile": ""}},
                {"name": "b", "user": {"exec": {"command": "/clusters/one/bin/login"}}},
                {"name": "c", "user": {"exec": {"command": "login"}}},
                {"name": "d"},
            ])
        );
    }

    #[test]
    fn overwriting_replaces_entries_and_keeps_the_rest() {
        let mut config = sample("https://a");
        merge(
            &mut config,
            &renamed(&sample("https://c"), "other"),
            SameName::Reject,
            CurrentContext::Keep,
        )
        .unwrap();
        merge(
            &mut config,
            &sample("https://b"),
            SameName::Overwrite,
            CurrentContext::Keep,
        )
        .unwrap();
        assert_eq!(
            find(&config, "clusters", "k3").unwrap()["cluster"]["server"],
            "https://b"
        );
        assert_eq!(
            find(&config, "clusters", "other").unwrap()["cluster"]["server"],
            "https://c"
        );
        assert_eq!(config["current-context"], "k3");
    }

    #[test]
    fn minify_requires_a_context_that_exists() {
        let mut config = sample("https://a");
        config["current-context"] = "none".into();
        assert!(
            minified(&config)
                .unwrap_err()
                .to_string()
                .contains("no context exists with the name: \"none\"")
        );
        config["current-context"] = "".into();
        assert!(
            minified(&config)
                .unwrap_err()
                .to_string()
                .contains("current-context is not set")
        );
    }

    #[test]
    fn written_files_are_for_their_owner_and_replace_the_target_of_a_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let link = directory.path().join("link");
        fs::write(&target, "old").unwrap();
        symlink(&target, &link).unwrap();
        write(&link, &sample("https://a")).unwrap();
        assert_eq!(read(&target).unwrap(), sample("https://a"));
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 2, "the temporary file stays");
    }

    #[test]
    fn redacts_secrets() {
        let mut config = sample("https://a");
        redact(&mut config);
        assert!(!config.to_string().contains("secret"), "{config}");
    }
}
