//! Which objects are meant: `pods`, `pod web`, `deploy/web svc/db`, `pods,svc`, or those of files.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    documents::{self, Document},
    failed::Failed,
    resource::{Resource, with_query},
    session::Session,
};

/// How often it is looked for what is waited for.
const LOOK: Duration = Duration::from_millis(200);

/// Files that name objects.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FileFlags {
    /// File, folder or `-` (standard input) with objects in YAML or JSON; may be given several times
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Read folders within folders too
    #[arg(short = 'R', long, requires = "files")]
    pub(crate) recursive: bool,
}

/// Selectors of lists.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectFlags {
    /// Only objects with these labels, such as `app=web,tier!=db`
    #[arg(short = 'l', long, value_name = "LABELS", allow_hyphen_values = true)]
    pub(crate) selector: Option<String>,

    /// Only objects with these fields, such as `status.phase=Running`
    #[arg(long, value_name = "FIELDS")]
    pub(crate) field_selector: Option<String>,
}

/// Which objects a command is about.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObjectFlags {
    /// Which objects: `pods`, `pod web`, `deploy/web svc/db`, `pods,services`, `all`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    #[command(flatten)]
    pub(crate) select: SelectFlags,

    /// Those of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// The same for commands that ask for more than a type: names, or that several are wanted.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChosenFlags {
    #[command(flatten)]
    objects: ObjectFlags,

    /// All of the type in the namespace
    #[arg(long)]
    all: bool,
}

/// An object that is meant, or all of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) resource: Arc<Resource>,
    pub(crate) name: Option<String>,
    /// Nothing for what has none.
    pub(crate) namespace: Option<String>,
    /// The file that names it.
    pub(crate) source: Option<String>,
}

/// A word for kinds, and a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
}

// --- FileFlags ---

impl FileFlags {
    pub(crate) fn read(&self) -> Result<Vec<Document>, Failed> {
        documents::read(&self.files, self.recursive)
    }
}

// --- SelectFlags ---

impl SelectFlags {
    /// What is added to the query of a list.
    pub(crate) fn query(&self) -> Vec<(&'static str, Option<String>)> {
        vec![
            ("labelSelector", self.selector.clone()),
            ("fieldSelector", self.field_selector.clone()),
        ]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.selector.is_none() && self.field_selector.is_none()
    }
}

// --- ObjectFlags ---

impl ObjectFlags {
    /// What is meant: objects by name, and types of which all are.
    pub(crate) async fn picks(&self, session: &Session) -> Result<Vec<Pick>, Failed> {
        let mut picks = session.pick(&self.what, &self.files).await?;
        for pick in picks
            .iter_mut()
            .filter(|pick| self.all_namespaces && pick.name.is_none())
        {
            pick.namespace = None;
        }
        Ok(picks)
    }
}

// --- ChosenFlags ---

impl ChosenFlags {
    /// The objects that are meant, each by its name. If none of a type is there, it is waited for the first until `deadline`.
    pub(crate) async fn picks(
        &self,
        session: &Session,
        deadline: Option<Instant>,
    ) -> Result<Vec<Pick>, Failed> {
        let select = &self.objects.select;
        let mut named = Vec::new();
        for pick in self.objects.picks(session).await? {
            if pick.name.is_some() {
                if !select.is_empty() || self.all {
                    return Err(Failed::usage(
                        "name objects, or choose them with -l or --all, not both",
                    ));
                }
                named.push(pick);
                continue;
            }
            if select.is_empty() && !self.all {
                return Err(Failed::usage(
                    "resource(s) were provided, but no name was specified; -l or --all chooses several",
                ));
            }
            let path = with_query(&pick.collection(), &select.query());
            let mut found;
            loop {
                found = session.api.get(&path).await?["items"].take();
                let is_empty = found.as_array().is_none_or(Vec::is_empty);
                if !is_empty || deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                    break;
                }
                sleep(LOOK).await;
            }
            for object in found.as_array().into_iter().flatten() {
                let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
                named.push(Pick {
                    name: text("name"),
                    namespace: text("namespace"),
                    ..pick.clone()
                });
            }
        }
        Ok(named)
    }
}

// --- Pick ---

impl Pick {
    pub(crate) fn collection(&self) -> String {
        self.resource.collection(self.namespace.as_deref())
    }

    /// The path of the one object.
    pub(crate) fn path(&self) -> String {
        self.resource.object(self.namespace.as_deref(), self.name())
    }

    /// The name of the one object.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// `deployment.apps/web`.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.resource.noun(), self.name())
    }

    /// `error when doing "a.yaml"`, if it came from a file.
    pub(crate) fn told(&self, failed: Failed, doing: &str) -> Failed {
        match &self.source {
            Some(source) => failed.while_doing(&format!("error when {doing} {source:?}")),
            None => failed,
        }
    }
}

impl Session {
    /// What words and files name.
    pub(crate) async fn pick(&self, words: &[String], files: &FileFlags) -> Result<Vec<Pick>, Failed> {
        if !files.files.is_empty() {
            if !words.is_empty() {
                return Err(Failed::usage("name objects or files, not both"));
            }
            return self.pick_from(&files.read()?).await;
        }
        let mut picks = Vec::new();
        for word in parse(words)? {
            for resource in self.discovery.lock().await.find(&self.api, &word.kind).await? {
                picks.push(Pick {
                    namespace: resource.is_namespaced.then(|| self.namespace.clone()),
                    name: word.name.clone(),
                    resource,
                    source: None,
                });
            }
        }
        Ok(picks)
    }

    /// The same, with names.
    pub(crate) async fn pick_named(&self, words: &[String], files: &FileFlags) -> Result<Vec<Pick>, Failed> {
        let picks = self.pick(words, files).await?;
        match picks.iter().find(|pick| pick.name.is_none()) {
            Some(_) => Err(Failed::usage(
                "resource(s) were provided, but no name was specified",
            )),
            None => Ok(picks),
        }
    }

    /// One object.
    pub(crate) async fn pick_one(&self, words: &[String]) -> Result<Pick, Failed> {
        let mut picks = self.pick_named(words, &FileFlags::default()).await?;
        match (picks.pop(), picks.is_empty()) {
            (Some(pick), true) => Ok(pick),
            _ => Err(Failed::usage("name one object, such as deployment/web")),
        }
    }

    async fn pick_from(&self, documents: &[Document]) -> Result<Vec<Pick>, Failed> {
        let mut picks = Vec::new();
        for document in documents {
            let (api_version, kind) = document.kind()?;
            let found = self
                .discovery
                .lock()
                .await
                .of_kind(&self.api, api_version, kind)
                .await?;
            let resource = found.ok_or_else(|| document.unknown())?;
            picks.push(self.pick_of(document, resource)?);
        }
        Ok(picks)
    }

    /// Where the object of a document is.
    pub(crate) fn pick_of(&self, document: &Document, resource: Arc<Resource>) -> Result<Pick, Failed> {
        let metadata = &document.object["metadata"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let name = text(&metadata["name"])
            .ok_or_else(|| Failed::new(format!("{}: an object without a name", document.source)))?;
        let own = text(&metadata["namespace"]);
        let namespace = resource
            .is_namespaced
            .then(|| own.unwrap_or_else(|| self.namespace.clone()));
        Ok(Pick {
            name: Some(name),
            namespace,
            resource,
            source: Some(document.source.clone()),
        })
    }
}

/// What words mean.
pub(crate) fn parse(words: &[String]) -> Result<Vec<Word>, Failed> {
    let Some(first) = words.first() else {
        return Err(Failed::usage(
            "You must specify the type of resource to get; `k3 api-resources` lists them",
        ));
    };
    let word = |kind: &str, name: Option<&str>| Word {
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
    };
    if first.contains('/') {
        let pairs = words.iter().map(|pair| match pair.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(word(kind, Some(name)))
            }
            _ => Err(Failed::usage(format!(
                "arguments in resource/name form must have a single resource and name, not {pair:?}"
            ))),
        });
        return pairs.collect();
    }
    if let Some(pair) = words.iter().find(|pair| pair.contains('/')) {
        return Err(Failed::usage(format!(
            "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form \
             (e.g. `k3 get {pair}` instead of `k3 get {first} {pair}`)"
        )));
    }
    let kinds: Vec<&str> = first.split(',').filter(|kind| !kind.is_empty()).collect();
    if kinds.is_empty() {
        return Err(Failed::usage(format!("{first:?} names no resource type")));
    }
    let names = &words[1..];
    let picked = kinds.iter().flat_map(|kind| match names {
        [] => vec![word(kind, None)],
        names => names.iter().map(|name| word(kind, Some(name))).collect(),
    });
    Ok(picked.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(String, Option<String>)>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words = parse(&words).map_err(|failed| failed.to_string())?;
        Ok(words.into_iter().map(|word| (word.kind, word.name)).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, Option<String>)>, String> {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Ok(pairs
            .iter()
            .map(|(kind, name)| ((*kind).to_owned(), named(name)))
            .collect())
    }

    #[test]
    fn kinds_names_and_pairs_are_told_apart() {
        assert_eq!(parsed("pods"), pairs(&[("pods", "")]));
        assert_eq!(parsed("pods,svc"), pairs(&[("pods", ""), ("svc", "")]));
        assert_eq!(parsed("pod a b"), pairs(&[("pod", "a"), ("pod", "b")]));
        assert_eq!(parsed("pod/a svc/b"), pairs(&[("pod", "a"), ("svc", "b")]));
        assert_eq!(parsed("pod,svc a"), pairs(&[("pod", "a"), ("svc", "a")]));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        assert!(
            parsed("")
                .unwrap_err()
                .contains("You must specify the type of resource")
        );
        assert!(
            parsed("pod/a/b")
                .unwrap_err()
                .contains("single resource and name")
        );
        assert!(parsed("pod pod/a").unwrap_err().contains("there is no need"));
        assert!(parsed("pod/").unwrap_err().contains("single resource and name"));
    }
}
