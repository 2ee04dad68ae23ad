//! `k3 kubeconfig`: which clusters there are, and which one is meant.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::{
    connection::{ADMIN, own_kubeconfig},
    failed::Failed,
    screen::Screen,
    session::Surroundings,
    table::Table,
    yaml,
};

/// Print, merge and switch kubeconfigs
#[derive(Debug, Args)]
pub struct KubeconfigFlags {
    #[command(subcommand)]
    command: Kubeconfig,
}

#[derive(Debug, Subcommand)]
enum Kubeconfig {
    /// Print the kubeconfig in force, without its secrets
    Print {
        #[command(flatten)]
        place: Place,

        /// With its secrets: what is printed opens the cluster to whoever reads it
        #[arg(long)]
        raw: bool,

        /// Only what the current context needs
        #[arg(long)]
        minify: bool,
    },
    /// Add clusters, users and contexts of other files
    Merge {
        /// Files to add [default: the admin's of the data folder]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,

        /// File to add to [default: the first that `$KUBECONFIG` names, or `~/.kube/config`]
        #[arg(long, value_name = "FILE")]
        into: Option<PathBuf>,

        /// Data folder whose admin is added
        #[arg(long, value_name = "DIR", conflicts_with = "files")]
        data_dir: Option<PathBuf>,

        /// Name for what is added, if its own is taken
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        /// Put it in the place of what has the same name
        #[arg(long)]
        overwrite: bool,

        /// Do not make it the current context
        #[arg(long)]
        keep_context: bool,
    },
    /// Make a context the current one
    Use {
        /// The context
        context: String,

        #[command(flatten)]
        place: Place,
    },
    /// Print the contexts
    Contexts {
        #[command(flatten)]
        place: Place,
    },
    /// Print the name of the current context
    Current {
        #[command(flatten)]
        place: Place,
    },
    /// Set the namespace that the current context works in
    Namespace {
        /// The namespace
        name: String,

        #[command(flatten)]
        place: Place,
    },
}

/// Which file is meant.
#[derive(Debug, Args)]
struct Place {
    /// The file [default: the first that `$KUBECONFIG` names, or `~/.kube/config`, or the admin's in the data folder]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Data folder whose admin's kubeconfig is meant
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
}

/// The lists of a kubeconfig.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];

/// Fields that are nobody else's business, and what is shown in their place.
const SECRETS: [(&str, &str); 5] = [
    ("client-certificate-data", "DATA+OMITTED"),
    ("client-key-data", "DATA+OMITTED"),
    ("certificate-authority-data", "DATA+OMITTED"),
    ("token", "REDACTED"),
    ("password", "REDACTED"),
];

// --- Place ---

impl Place {
    fn path(&self, surroundings: &Surroundings) -> Result<PathBuf, Failed> {
        if let Some(file) = &self.kubeconfig {
            return Ok(file.clone());
        }
        if let Some(folder) = &self.data_dir {
            return Ok(folder.join(ADMIN));
        }
        match usual() {
            Some(path) if path.exists() => Ok(path),
            _ if surroundings.admin_kubeconfig.exists() => Ok(surroundings.admin_kubeconfig.clone()),
            Some(path) => Err(Failed::new(format!(
                "there is no kubeconfig: {} does not exist",
                path.display()
            ))),
            None => Err(Failed::new("there is no kubeconfig: name one with --kubeconfig")),
        }
    }
}

/// The file that is meant if nobody says otherwise.
fn usual() -> Option<PathBuf> {
    let named = env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    let first = named.and_then(|files| env::split_paths(&files).find(|path| !path.as_os_str().is_empty()));
    first.or_else(own_kubeconfig)
}

// --- KubeconfigFlags ---

impl KubeconfigFlags {
    pub(crate) fn run(&self, surroundings: &Surroundings) -> Result<(), Failed> {
        match &self.command {
            Kubeconfig::Print { place, raw, minify } => {
                let mut config = read(&place.path(surroundings)?)?;
                if *minify {
                    config = minified(&config)?;
                }
                if !raw {
                    redact(&mut config);
                }
                say(yaml::write(&config).trim_end())
            }
            Kubeconfig::Merge {
                files,
                into,
                data_dir,
                name,
                overwrite,
                keep_context,
            } => {
                let admin = data_dir.as_ref().map(|folder| folder.join(ADMIN));
                let admin = admin.unwrap_or_else(|| surroundings.admin_kubeconfig.clone());
                let files = if files.is_empty() {
                    std::slice::from_ref(&admin)
                } else {
                    files
                };
                let into = into.clone().or_else(usual);
                let into = into.ok_or_else(|| Failed::usage("name the file to add to with --into"))?;
                let mut config = if into.exists() { read(&into)? } else { empty() };
                for file in files {
                    let mut added = read(file)?;
                    if let Some(name) = name {
                        added = renamed(&minified(&added)?, name);
                    }
                    merge(&mut config, &added, *overwrite, *keep_context)?;
                }
                write(&into, &config)?;
                let current = config["current-context"].as_str().unwrap_or_default();
                say(&format!(
                    "{} written; the current context is {current:?}",
                    into.display()
                ))
            }
            Kubeconfig::Use { context, place } => {
                let path = place.path(surroundings)?;
                let mut config = read(&path)?;
                if find(&config, "contexts", context).is_none() {
                    return Err(Failed::new(format!(
                        "no context exists with the name: {context:?}"
                    )));
                }
                config["current-context"] = context.clone().into();
                write(&path, &config)?;
                say(&format!("Switched to context {context:?}."))
            }
            Kubeconfig::Contexts { place } => contexts(&read(&place.path(surroundings)?)?),
            Kubeconfig::Current { place } => {
                let config = read(&place.path(surroundings)?)?;
                say(current(&config)?)
            }
            Kubeconfig::Namespace { name, place } => {
                let path = place.path(surroundings)?;
                let mut config = read(&path)?;
                let context = current(&config)?.to_owned();
                let lists = config["contexts"].as_array_mut().into_iter().flatten();
                for entry in lists.filter(|entry| entry["name"] == *context) {
                    entry["context"]["namespace"] = name.clone().into();
                }
                write(&path, &config)?;
                say(&format!("Context {context:?} modified."))
            }
        }
    }
}

fn say(text: &str) -> Result<(), Failed> {
    let mut screen = Screen::open();
    writeln!(screen, "{text}")?;
    Ok(screen.flush()?)
}

fn contexts(config: &Value) -> Result<(), Failed> {
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
    let mut screen = Screen::open();
    table.print(&mut screen, true)?;
    Ok(screen.flush()?)
}

fn empty() -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "preferences": {}, "clusters": [], "users": [], "contexts": []})
}

fn read(path: &Path) -> Result<Value, Failed> {
    let text =
        fs::read_to_string(path).map_err(|error| Failed::new(format!("{}: {error}", path.display())))?;
    let config = yaml::read(&text).map_err(|error| Failed::new(format!("{}: {error}", path.display())))?;
    match config {
        Value::Null => Ok(empty()),
        Value::Object(_) => Ok(config),
        _ => Err(Failed::new(format!("{}: this is no kubeconfig", path.display()))),
    }
}

/// Writes a file that is nobody else's, so that it is there whole or as it was.
fn write(path: &Path, config: &Value) -> Result<(), Failed> {
    let failed = |error: std::io::Error| Failed::new(format!("cannot write {}: {error}", path.display()));
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    k3_files::create_directory(folder).map_err(failed)?;
    // A link stays one.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = k3_files::open(&beside, &mut options).map_err(failed)?;
    let written = file
        .write_all(yaml::write(config).as_bytes())
        .and_then(|()| file.sync_all());
    written
        .and_then(|()| fs::rename(&beside, &path))
        .map_err(|error| {
            // Best effort: the failure is told below.
            let _ = fs::remove_file(&beside);
            failed(error)
        })
}

fn find<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config[list]
        .as_array()?
        .iter()
        .find(|entry| entry["name"] == name)
}

fn current(config: &Value) -> Result<&str, Failed> {
    let current = config["current-context"].as_str().filter(|name| !name.is_empty());
    current.ok_or_else(|| Failed::new("current-context is not set"))
}

/// What the current context needs, and nothing else.
fn minified(config: &Value) -> Result<Value, Failed> {
    let name = current(config)?;
    let context = find(config, "contexts", name)
        .ok_or_else(|| Failed::new(format!("no context exists with the name: {name:?}")))?;
    let kept = |list: &str, name: &Value| {
        let found = name.as_str().and_then(|name| find(config, list, name));
        Value::Array(found.cloned().into_iter().collect())
    };
    let mut small = empty();
    small["contexts"] = json!([context]);
    small["clusters"] = kept("clusters", &context["context"]["cluster"]);
    small["users"] = kept("users", &context["context"]["user"]);
    small["current-context"] = name.into();
    Ok(small)
}

/// The same cluster, user and context under another name.
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

/// Adds one kubeconfig to another.
fn merge(config: &mut Value, added: &Value, is_overwriting: bool, keeps_context: bool) -> Result<(), Failed> {
    for list in LISTS {
        if !config[list].is_array() {
            config[list] = json!([]);
        }
        let Some(known) = config[list].as_array_mut() else {
            continue;
        };
        for entry in added[list].as_array().into_iter().flatten() {
            match known.iter_mut().find(|other| other["name"] == entry["name"]) {
                None => known.push(entry.clone()),
                Some(same) if same == entry => {}
                Some(other) if is_overwriting => *other = entry.clone(),
                Some(_) => {
                    return Err(Failed::new(format!(
                        "another of the {list} is called {} already: give --name for a new name, or --overwrite to replace it",
                        entry["name"]
                    )));
                }
            }
        }
    }
    let has_none = config["current-context"].as_str().unwrap_or_default().is_empty();
    if (has_none || !keeps_context) && added["current-context"].is_string() {
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
    fn a_name_that_is_taken_is_not_taken_over() {
        let mut config = empty();
        merge(&mut config, &sample("https://a"), false, false).unwrap();
        merge(&mut config, &sample("https://a"), false, false).unwrap();
        assert_eq!(config["clusters"].as_array().unwrap().len(), 1);
        let refused = merge(&mut config, &sample("https://b"), false, false)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("another of the clusters is called \"k3\""),
            "{refused}"
        );
        merge(&mut config, &renamed(&sample("https://b"), "other"), false, true).unwrap();
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
    fn secrets_are_not_shown() {
        let mut config = sample("https://a");
        redact(&mut config);
        assert!(!config.to_string().contains("secret"), "{config}");
    }
}
