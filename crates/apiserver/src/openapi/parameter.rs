//! OpenAPI parameters of query and path.

use super::definition::OpenApiVersion;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenApiParameter {
    name: &'static str,
    location: ParameterLocation,
    /// `string`, `integer` or `boolean`.
    kind: &'static str,
    description: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParameterLocation {
    Path,
    Query,
}

/// Query parameters: name, type, description.
type Row = (&'static str, &'static str, &'static str);

/// How answers are written.
const PRETTY: [Row; 1] = [(
    "pretty",
    "string",
    "If 'true', the answer is indented for people. Defaults to 'false', unless the user agent is a browser, curl or \
     wget.",
)];

/// Which objects of a collection.
const SELECT: [Row; 8] = [
    (
        "continue",
        "string",
        "The place to go on from: what the last page of a list had in metadata.continue. All other parameters must \
         be as they were. A place that is too old is answered with 410 and one from which an inconsistent list can \
         be continued.",
    ),
    (
        "fieldSelector",
        "string",
        "Narrows a list or watch to objects by their fields. Defaults to everything.",
    ),
    (
        "labelSelector",
        "string",
        "Narrows a list or watch to objects by their labels. Defaults to everything.",
    ),
    (
        "limit",
        "integer",
        "How many objects a page of a list has at most. If there are more, metadata.continue of the list is the \
         token of the next page; all pages show the state at the time of the first request.",
    ),
    (
        "resourceVersion",
        "string",
        "The resource version a request is answered from, or begins after. Defaults to unset.",
    ),
    (
        "resourceVersionMatch",
        "string",
        "How resourceVersion is meant in a list: Exact or NotOlderThan. Defaults to unset.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "With watch: begins with the objects there are as events, followed by a bookmark with the annotation \
         k8s.io/initial-events-end. Wants resourceVersionMatch=NotOlderThan.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "How long a list or watch may take, whatever happens meanwhile.",
    ),
];

/// Whether a collection is listed or watched.
const WATCH: [Row; 2] = [
    (
        "allowWatchBookmarks",
        "boolean",
        "Requests events of type BOOKMARK, which contain the resource version that a watch has reached. The server decides when to send them.",
    ),
    (
        "watch",
        "boolean",
        "Watches the objects: the response is a stream of ADDED, MODIFIED and DELETED events.",
    ),
];

const DRY_RUN: [Row; 1] = [(
    "dryRun",
    "string",
    "When present, nothing is stored. The only valid value is All: the request passes all stages.",
)];

const WRITE: [Row; 2] = [
    (
        "fieldManager",
        "string",
        "The name of who makes the changes: at most 128 printable characters. Required for apply.",
    ),
    (
        "fieldValidation",
        "string",
        "What is done about unknown and duplicate fields: Ignore drops them, Warn (the default) also sends a warning \
         for each, Strict refuses the request.",
    ),
];

const FORCE: [Row; 1] = [(
    "force",
    "boolean",
    "With apply: takes over fields that others own and that are set to other values. Must be unset otherwise.",
)];

const DELETE: [Row; 3] = [
    (
        "gracePeriodSeconds",
        "integer",
        "How long the object may take to end, in seconds. Zero deletes it at once. Defaults to what its kind has.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated, use propagationPolicy. Whether dependents of the object stay behind.",
    ),
    (
        "propagationPolicy",
        "string",
        "What becomes of dependents: Orphan leaves them, Background deletes them after the object, Foreground before \
         it. Not together with orphanDependents.",
    ),
];

const CONTAINER: Row = (
    "container",
    "string",
    "Which container of the pod. Defaults to the only one, if there is one.",
);
const STREAMS: [Row; 5] = [
    CONTAINER,
    (
        "stderr",
        "boolean",
        "Whether the standard error stream is connected.",
    ),
    (
        "stdin",
        "boolean",
        "Whether the standard input stream is connected. Defaults to false.",
    ),
    (
        "stdout",
        "boolean",
        "Whether the standard output stream is connected.",
    ),
    (
        "tty",
        "boolean",
        "Whether a terminal is allocated. Defaults to false.",
    ),
];
const COMMAND: [Row; 1] = [(
    "command",
    "string",
    "The command to run and its arguments. There is no shell around it.",
)];
const PORTS: [Row; 1] = [(
    "ports",
    "integer",
    "The ports to forward. Required with WebSockets.",
)];
const PROXY: [Row; 1] = [("path", "string", "The path of the request that is passed on.")];
const LOG: [Row; 9] = [
    CONTAINER,
    (
        "follow",
        "boolean",
        "Whether to stream new lines of the log. Defaults to false.",
    ),
    (
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "Whether the certificate of the node is taken as it is. The log may then come from anybody.",
    ),
    ("limitBytes", "integer", "About how many bytes are read at most."),
    (
        "previous",
        "boolean",
        "Whether the log is that of the container that ended before. Defaults to false.",
    ),
    (
        "sinceSeconds",
        "integer",
        "Begins with lines that are this many seconds old.",
    ),
    (
        "stream",
        "string",
        "Which stream is shown: All (the default), Stdout or Stderr.",
    ),
    (
        "tailLines",
        "integer",
        "How many lines from the end are shown. Defaults to all.",
    ),
    (
        "timestamps",
        "boolean",
        "Whether each line begins with its time. Defaults to false.",
    ),
];

/// The parameters that requests of one sort take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// A read of one object.
    Read,
    /// A list or watch.
    List,
    /// A create or update.
    Write,
    Patch,
    /// A delete of one object.
    Delete,
    /// A delete of many.
    DeleteMany,
    /// A connection to a part of an object, or a read of a log, by the name of the part.
    Connect(&'static str),
}

/// The parameters of the query.
pub(super) fn of(sort: OperationKind) -> Vec<OpenApiParameter> {
    let tables: &[&[Row]] = match sort {
        OperationKind::Read => &[&PRETTY],
        OperationKind::List => &[&PRETTY, &SELECT, &WATCH],
        OperationKind::Write => &[&PRETTY, &DRY_RUN, &WRITE],
        OperationKind::Patch => &[&PRETTY, &DRY_RUN, &WRITE, &FORCE],
        OperationKind::Delete => &[&PRETTY, &DRY_RUN, &DELETE],
        OperationKind::DeleteMany => &[&PRETTY, &SELECT, &DRY_RUN, &DELETE],
        OperationKind::Connect("attach") => &[&STREAMS],
        OperationKind::Connect("exec") => &[&STREAMS, &COMMAND],
        OperationKind::Connect("portforward") => &[&PORTS],
        OperationKind::Connect("log") => &[&PRETTY, &LOG],
        OperationKind::Connect(_) => &[&PROXY],
    };
    tables
        .iter()
        .flat_map(|table| table.iter())
        .map(OpenApiParameter::query)
        .collect()
}

/// The parameters of a path: what stands in braces in it. `kind` is what it leads to.
pub(super) fn of_path(path: &str, kind: &str) -> Vec<OpenApiParameter> {
    let known = [
        ("name", format!("name of the {kind}")),
        (
            "namespace",
            "object name and auth scope, such as for teams and projects".to_owned(),
        ),
        ("path", "path to the resource".to_owned()),
    ];
    let mut found = Vec::new();
    for (name, description) in known {
        if path.contains(&format!("{{{name}}}")) {
            found.push(OpenApiParameter {
                name,
                location: ParameterLocation::Path,
                kind: "string",
                description,
            });
        }
    }
    found
}

// --- OpenApiParameter ---

impl OpenApiParameter {
    fn query(&(name, kind, description): &Row) -> Self {
        Self {
            name,
            location: ParameterLocation::Query,
            kind,
            description: description.to_owned(),
        }
    }

    /// As documents write it.
    pub(super) fn render(&self, dialect: OpenApiVersion) -> Value {
        let location = match self.location {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
        };
        let mut value = json!({"name": self.name, "in": location, "description": self.description});
        if self.location == ParameterLocation::Path {
            value["required"] = json!(true);
        }
        match dialect {
            OpenApiVersion::V2 => {
                value["type"] = json!(self.kind);
                value["uniqueItems"] = json!(true);
            }
            OpenApiVersion::V3 => value["schema"] = json!({"type": self.kind, "uniqueItems": true}),
        }
        value
    }

    /// Documents list parameters by name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}
