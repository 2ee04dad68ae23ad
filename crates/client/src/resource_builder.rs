//! Resolution of resource arguments and files to objects: `pods`, `pod web`, `deploy/web svc/db`, `pods,svc`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    api_resource::{ApiResource, with_query},
    error::ClientError,
    manifests::{self, Directories, ManifestDocument},
    session::CommandSession,
};

/// How often the list is requested while no object matches yet.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Flags for manifest files.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FileFlags {
    /// File, directory or `-` (stdin) with resources in YAML or JSON; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Process the directory in -f recursively
    #[arg(short = 'R', long, requires = "files")]
    pub(crate) recursive: bool,
}

/// Selector flags of list requests.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectFlags {
    /// Label selector, such as `app=web,tier!=db`
    #[arg(short = 'l', long, value_name = "LABELS", allow_hyphen_values = true)]
    pub(crate) selector: Option<String>,

    /// Field selector, such as `status.phase=Running`
    #[arg(long, value_name = "FIELDS")]
    pub(crate) field_selector: Option<String>,
}

/// Arguments and flags that select objects.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObjectFlags {
    /// Resources: `pods`, `pod web`, `deploy/web svc/db`, `pods,services`, `all`
    #[arg(value_name = "TYPE[/NAME]")]
    what: Vec<String>,

    #[command(flatten)]
    files: FileFlags,

    #[command(flatten)]
    pub(crate) select: SelectFlags,

    /// Use all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// Like `ObjectFlags`, for commands that need names, a selector or `--all`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectionFlags {
    #[command(flatten)]
    objects: ObjectFlags,

    /// Select all resources of the type in the namespace
    #[arg(long)]
    all: bool,
}

// upstream: staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go Info
/// An object, or all objects of a resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceInfo {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) name: Option<String>,
    /// `None` for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: Option<String>,
    /// The file that contains the object.
    pub(crate) source: Option<String>,
}

/// A resource type argument with an optional name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourceArg {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
}

// --- FileFlags ---

impl FileFlags {
    pub(crate) fn read(&self) -> Result<Vec<ManifestDocument>, ClientError> {
        let directories = if self.recursive {
            Directories::Recursive
        } else {
            Directories::Flat
        };
        manifests::read(&self.files, directories)
    }
}

// --- SelectFlags ---

impl SelectFlags {
    /// Returns the selectors as query parameters of a list request.
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
    /// Returns the selected objects; a type without a name stands for all its objects.
    pub(crate) async fn resolve(&self, session: &CommandSession) -> Result<Vec<ResourceInfo>, ClientError> {
        let mut infos = session.resolve_resources(&self.what, &self.files).await?;
        for info in infos
            .iter_mut()
            .filter(|info| self.all_namespaces && info.name.is_none())
        {
            info.namespace = None;
        }
        Ok(infos)
    }
}

// --- SelectionFlags ---

impl SelectionFlags {
    /// Returns the selected objects by name. While a type has no objects, it is listed again until `deadline`.
    pub(crate) async fn resolve(
        &self,
        session: &CommandSession,
        deadline: Option<Instant>,
    ) -> Result<Vec<ResourceInfo>, ClientError> {
        let select = &self.objects.select;
        let mut named = Vec::new();
        for info in self.objects.resolve(session).await? {
            if info.name.is_some() {
                if !select.is_empty() || self.all {
                    return Err(ClientError::usage(
                        "names and a selector (-l or --all) are mutually exclusive",
                    ));
                }
                named.push(info);
                continue;
            }
            if select.is_empty() && !self.all {
                return Err(ClientError::usage(
                    "resource(s) were provided, but no name was specified; select several with -l or --all",
                ));
            }
            let path = with_query(&info.collection(), &select.query());
            let mut found;
            loop {
                found = session.api.get(&path).await?["items"].take();
                let is_empty = found.as_array().is_none_or(Vec::is_empty);
                if !is_empty || deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                    break;
                }
                sleep(POLL_INTERVAL).await;
            }
            for object in found.as_array().into_iter().flatten() {
                let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
                named.push(ResourceInfo {
                    name: text("name"),
                    namespace: text("namespace"),
                    ..info.clone()
                });
            }
        }
        Ok(named)
    }
}

// --- ResourceInfo ---

impl ResourceInfo {
    pub(crate) fn collection(&self) -> String {
        self.resource.collection(self.namespace.as_deref())
    }

    /// The path of the object.
    pub(crate) fn path(&self) -> String {
        self.resource.object(self.namespace.as_deref(), self.name())
    }

    /// The name of the object; empty when it has none.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// `deployment.apps/web`.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.resource.noun(), self.name())
    }

    /// Adds `error when doing "a.yaml"` when the object was read from a file.
    pub(crate) fn add_source(&self, failed: ClientError, doing: &str) -> ClientError {
        match &self.source {
            Some(source) => failed.with_context(&format!("error when {doing} {source:?}")),
            None => failed,
        }
    }
}

impl CommandSession {
    // upstream: staging/src/k8s.io/cli-runtime/pkg/resource/builder.go Do
    /// Resolves arguments or files to objects.
    pub(crate) async fn resolve_resources(
        &self,
        arguments: &[String],
        files: &FileFlags,
    ) -> Result<Vec<ResourceInfo>, ClientError> {
        if !files.files.is_empty() {
            if !arguments.is_empty() {
                return Err(ClientError::usage(
                    "resource arguments and -f are mutually exclusive",
                ));
            }
            return self.resolve_documents(&files.read()?).await;
        }
        let mut infos = Vec::new();
        for word in parse_resource_args(arguments)? {
            for resource in self.discovery.lock().await.find(&self.api, &word.kind).await? {
                infos.push(ResourceInfo {
                    namespace: resource.is_namespaced.then(|| self.namespace.clone()),
                    name: word.name.clone(),
                    resource,
                    source: None,
                });
            }
        }
        Ok(infos)
    }

    /// Like `resolve_resources`, but requires names.
    pub(crate) async fn resolve_named(
        &self,
        arguments: &[String],
        files: &FileFlags,
    ) -> Result<Vec<ResourceInfo>, ClientError> {
        let infos = self.resolve_resources(arguments, files).await?;
        match infos.iter().find(|info| info.name.is_none()) {
            Some(_) => Err(ClientError::usage(
                "resource(s) were provided, but no name was specified",
            )),
            None => Ok(infos),
        }
    }

    /// Like `resolve_named`, but requires exactly one object.
    pub(crate) async fn resolve_one(&self, arguments: &[String]) -> Result<ResourceInfo, ClientError> {
        let mut infos = self.resolve_named(arguments, &FileFlags::default()).await?;
        match (infos.pop(), infos.is_empty()) {
            (Some(info), true) => Ok(info),
            _ => Err(ClientError::usage(
                "expected exactly one resource, such as deployment/web",
            )),
        }
    }

    async fn resolve_documents(
        &self,
        documents: &[ManifestDocument],
    ) -> Result<Vec<ResourceInfo>, ClientError> {
        let mut infos = Vec::new();
        for document in documents {
            let (api_version, kind) = document.type_meta()?;
            let found = self
                .discovery
                .lock()
                .await
                .find_kind(&self.api, api_version, kind)
                .await?;
            let resource = found.ok_or_else(|| document.no_match_error())?;
            infos.push(self.resolve_document(document, resource)?);
        }
        Ok(infos)
    }

    /// Returns the reference to the object of a document.
    pub(crate) fn resolve_document(
        &self,
        document: &ManifestDocument,
        resource: Arc<ApiResource>,
    ) -> Result<ResourceInfo, ClientError> {
        let metadata = &document.object["metadata"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let name = text(&metadata["name"])
            .ok_or_else(|| ClientError::new(format!("{}: metadata.name: Required value", document.source)))?;
        let namespace = match text(&metadata["namespace"]) {
            _ if !resource.is_namespaced => None,
            None => Some(self.namespace.clone()),
            Some(namespace) => {
                require_namespace(&namespace, self.required_namespace.as_deref())?;
                Some(namespace)
            }
        };
        Ok(ResourceInfo {
            name: Some(name),
            namespace,
            resource,
            source: Some(document.source.clone()),
        })
    }
}

// upstream: staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go RequireNamespace
/// Refuses an object of another namespace than `--namespace`: it would be changed there, unexpectedly.
fn require_namespace(namespace: &str, required: Option<&str>) -> Result<(), ClientError> {
    match required {
        Some(required) if required != namespace => Err(ClientError::new(format!(
            "the namespace from the provided object {namespace:?} does not match the namespace {required:?}. You must pass \
             '--namespace={namespace}' to perform this operation."
        ))),
        _ => Ok(()),
    }
}

// upstream: staging/src/k8s.io/cli-runtime/pkg/resource/builder.go ResourceTypeOrNameArgs
/// Parses resource arguments.
pub(crate) fn parse_resource_args(arguments: &[String]) -> Result<Vec<ResourceArg>, ClientError> {
    let Some(first) = arguments.first() else {
        return Err(ClientError::usage(
            "You must specify the type of resource to get; `k3 api-resources` lists them",
        ));
    };
    let word = |kind: &str, name: Option<&str>| ResourceArg {
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
    };
    if first.contains('/') {
        let pairs = arguments.iter().map(|pair| match pair.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(word(kind, Some(name)))
            }
            _ => Err(ClientError::usage(format!(
                "arguments in resource/name form must have a single resource and name, not {pair:?}"
            ))),
        });
        return pairs.collect();
    }
    if let Some(pair) = arguments.iter().find(|pair| pair.contains('/')) {
        return Err(ClientError::usage(format!(
            "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form \
             (e.g. `k3 get {pair}` instead of `k3 get {first} {pair}`)"
        )));
    }
    let kinds: Vec<&str> = first.split(',').filter(|kind| !kind.is_empty()).collect();
    if kinds.is_empty() {
        return Err(ClientError::usage(format!("{first:?} contains no resource type")));
    }
    let names = &arguments[1..];
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
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let arguments = parse_resource_args(&arguments).map_err(|failed| failed.to_string())?;
        Ok(arguments.into_iter().map(|word| (word.kind, word.name)).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, Option<String>)>, String> {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Ok(pairs
            .iter()
            .map(|(kind, name)| ((*kind).to_owned(), named(name)))
            .collect())
    }

    #[test]
    fn parses_kinds_names_and_pairs() {
        assert_eq!(parsed("pods"), pairs(&[("pods", "")]));
        assert_eq!(parsed("pods,svc"), pairs(&[("pods", ""), ("svc", "")]));
        assert_eq!(parsed("pod a b"), pairs(&[("pod", "a"), ("pod", "b")]));
        assert_eq!(parsed("pod/a svc/b"), pairs(&[("pod", "a"), ("svc", "b")]));
        assert_eq!(parsed("pod,svc a"), pairs(&[("pod", "a"), ("svc", "a")]));
    }

    #[test]
    fn objects_of_other_namespaces_than_the_flag_are_refused() {
        assert!(require_namespace("a", None).is_ok());
        assert!(require_namespace("a", Some("a")).is_ok());
        let error = require_namespace("a", Some("b")).unwrap_err().to_string();
        assert!(
            error.contains("\"a\" does not match the namespace \"b\""),
            "{error}"
        );
        assert!(error.contains("'--namespace=a'"), "{error}");
    }

    #[test]
    fn rejects_ambiguous_arguments() {
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
