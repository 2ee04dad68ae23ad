//! ListOptions, CreateOptions, UpdateOptions, PatchOptions and DeleteOptions: parsing and validation.

use k3_api::{
    field::{Error, Path},
    go,
    selector::{field, label},
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use super::Query;

const META: &str = "meta.k8s.io";
const LONGEST_MANAGER: usize = 128;

/// How unknown and duplicate fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so.
    Warn,
    /// Refuse the object.
    Strict,
}

/// Which verb options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    Create,
    Update,
    Patch,
    Apply,
}

/// What list options are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListVerb {
    List,
    Watch,
}

/// Whether a write is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommitMode {
    #[default]
    Commit,
    /// All but the commit is done.
    DryRun,
}

/// The options of a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub mode: CommitMode,
    /// Who is to own the fields.
    pub manager: String,
    /// How unknown and duplicate fields are handled.
    pub validation: FieldValidation,
    /// Whether an apply takes what others own.
    pub force: bool,
}

/// What a list or a watch is to give.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub labels: label::Selector,
    pub fields: field::Selector,
    pub watch: bool,
    pub bookmarks: bool,
    /// As it was written; empty if it was not.
    pub resource_version: String,
    pub matching: Option<ResourceVersionMatch>,
    pub timeout: Option<i64>,
    pub limit: i64,
    pub continuation: String,
    pub initial_events: Option<bool>,
}

/// How a resource version is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceVersionMatch {
    Exact,
    NotOlderThan,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionPropagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub mode: CommitMode,
    pub grace: Option<i64>,
    pub propagation: Option<DeletionPropagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

fn refuse(kind: &str, errors: &[Error]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(GroupResource::new(META, kind), "", errors))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateDryRun
fn check_dry_run(values: &[&str], errors: &mut Vec<Error>) {
    if values.iter().any(|value| *value != "All") {
        let shown = Value::from(values.to_vec());
        errors.push(Error::not_supported(&Path::new("dryRun"), shown, ["All"]));
    }
}

fn commit_mode(dry_run: &[&str]) -> CommitMode {
    if dry_run.is_empty() {
        CommitMode::Commit
    } else {
        CommitMode::DryRun
    }
}

// --- WriteOptions ---

impl WriteOptions {
    /// Reads and validates the options of a write. Without fieldManager, the field manager is the program in the user agent.
    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go ValidateCreateOptions, ValidateUpdateOptions, ValidatePatchOptions, ValidateFieldManager
    pub(crate) fn read(query: &Query, writing: WriteVerb, agent: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.text("fieldManager");
        if writing == WriteVerb::Apply && manager.is_empty() {
            errors.push(Error::required(
                &Path::new("fieldManager"),
                "is required for apply patch",
            ));
        }
        if writing == WriteVerb::Patch && query.has("force") {
            errors.push(Error::forbidden(
                &Path::new("force"),
                "may not be specified for non-apply patch",
            ));
        }
        if manager.len() > LONGEST_MANAGER {
            errors.push(Error::too_long(&Path::new("fieldManager"), LONGEST_MANAGER));
        }
        for (position, letter) in manager.char_indices() {
            if !go::is_print(letter) {
                let detail = format!(
                    "invalid character U+{:04X} (at position {position})",
                    u32::from(letter)
                );
                errors.push(Error::invalid(&Path::new("fieldManager"), manager, detail));
            }
        }
        let dry_run: Vec<_> = query.all("dryRun").collect();
        check_dry_run(&dry_run, &mut errors);
        let validation = match query.text("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let field = Path::new("fieldValidation");
                errors.push(Error::not_supported(
                    &field,
                    other,
                    ["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        let kind = match writing {
            WriteVerb::Create => "CreateOptions",
            WriteVerb::Update => "UpdateOptions",
            WriteVerb::Patch | WriteVerb::Apply => "PatchOptions",
        };
        refuse(kind, &errors)?;
        Ok(WriteOptions {
            mode: commit_mode(&dry_run),
            manager: if manager.is_empty() {
                agent_name(agent)
            } else {
                manager.to_owned()
            },
            validation,
            force: query.flag("force").unwrap_or_default(),
        })
    }
}

/// The field manager from a user agent: the program, without its version.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go managerOrUserAgent, prefixFromUserAgent
fn agent_name(agent: &str) -> String {
    let name = agent.split('/').next().unwrap_or_default();
    let printable: String = name.chars().filter(|letter| go::is_print(*letter)).collect();
    let mut end = printable.len().min(LONGEST_MANAGER);
    while !printable.is_char_boundary(end) {
        end -= 1;
    }
    printable[..end].to_owned()
}

// --- ListOptions ---

impl ListOptions {
    /// Reads and checks what a list or a watch is to give.
    pub(crate) fn read(query: &Query, verb: ListVerb) -> Result<Self, Status> {
        let bad = |text: String| Status::bad_request(text);
        let labels = label::parse(query.text("labelSelector")).map_err(|error| bad(error.to_string()))?;
        let fields =
            field::Selector::parse(query.text("fieldSelector")).map_err(|error| bad(error.to_string()))?;
        let options = ListOptions {
            labels,
            fields,
            watch: verb == ListVerb::Watch || query.flag("watch").unwrap_or_default(),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            resource_version: query.text("resourceVersion").to_owned(),
            matching: match query.text("resourceVersionMatch") {
                "Exact" => Some(ResourceVersionMatch::Exact),
                "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
                _ => None,
            },
            timeout: query.int("timeoutSeconds")?,
            limit: query.int("limit")?.unwrap_or_default(),
            continuation: query.text("continue").to_owned(),
            initial_events: query.flag("sendInitialEvents"),
        };
        refuse(
            "ListOptions",
            &options.validate(query.text("resourceVersionMatch")),
        )?;
        Ok(options)
    }

    // upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go ValidateListOptions
    fn validate(&self, matching: &str) -> Vec<Error> {
        let field = Path::new("resourceVersionMatch");
        let mut errors = Vec::new();
        let mut forbid = |detail: &str| errors.push(Error::forbidden(&field, detail));
        if self.watch {
            if self.initial_events.is_some() && self.matching != Some(ResourceVersionMatch::NotOlderThan) {
                forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            // A watch from no version begins with what is there, which is the same as asking for initial events.
            let implied = self.initial_events.is_none() && matches!(self.resource_version.as_str(), "" | "0");
            if implied && matching.is_empty() && !self.continuation.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if !matching.is_empty() {
                if self.initial_events.is_none() {
                    forbid(
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                    );
                }
                if self.matching != Some(ResourceVersionMatch::NotOlderThan) {
                    errors.push(Error::not_supported(&field, matching, ["NotOlderThan"]));
                }
                if !self.continuation.is_empty() {
                    let detail = "resourceVersionMatch is forbidden when continue is provided";
                    errors.push(Error::forbidden(&field, detail));
                }
            }
            return errors;
        }
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continuation.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.matching.is_none() {
                errors.push(Error::not_supported(
                    &field,
                    matching,
                    ["Exact", "NotOlderThan", ""],
                ));
            }
            if self.matching == Some(ResourceVersionMatch::Exact) && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(Error::forbidden(&field, detail));
            }
        }
        if self.initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(Error::forbidden(&Path::new("sendInitialEvents"), detail));
        }
        errors
    }
}

// --- DeleteOptions ---

impl DeleteOptions {
    /// Reads the options from the body if there is one, else from the query, and checks them.
    pub(crate) fn read(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let empty = Value::Null;
        let from_query = body.is_none();
        let body = body.unwrap_or(&empty);
        let text = |name: &str| -> Option<String> {
            let said = if from_query {
                query.all(name).next()
            } else {
                body.at(name).as_str()
            };
            said.map(str::to_owned)
        };
        let grace = if from_query {
            query.int("gracePeriodSeconds")?
        } else {
            body.int("gracePeriodSeconds")
        };
        let orphan = if from_query {
            query.flag("orphanDependents")
        } else {
            body.at("orphanDependents").as_bool()
        };
        let policy = text("propagationPolicy");
        let mut errors = Vec::new();
        let field = Path::new("propagationPolicy");
        if let (Some(_), Some(policy)) = (orphan, &policy) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid(&field, policy.as_str(), detail));
        }
        let propagation = match policy.as_deref() {
            None => orphan.map(|orphan| {
                if orphan {
                    DeletionPropagation::Orphan
                } else {
                    DeletionPropagation::Background
                }
            }),
            Some("Foreground") => Some(DeletionPropagation::Foreground),
            Some("Background") => Some(DeletionPropagation::Background),
            Some("Orphan") => Some(DeletionPropagation::Orphan),
            Some(other) => {
                errors.push(Error::not_supported(
                    &field,
                    other,
                    ["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        let dry_run: Vec<_> = if from_query {
            query.all("dryRun").collect()
        } else {
            body.texts("dryRun").collect()
        };
        check_dry_run(&dry_run, &mut errors);
        refuse("DeleteOptions", &errors)?;
        let preconditions = body.at("preconditions");
        Ok(DeleteOptions {
            mode: commit_mode(&dry_run),
            grace,
            propagation,
            uid: preconditions.at("uid").as_str().map(str::to_owned),
            resource_version: preconditions.at("resourceVersion").as_str().map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unprintable_field_manager() {
        let manager_of = |query: &str| {
            let read = WriteOptions::read(&Query::parse(query), WriteVerb::Create, "agent/1");
            read.map(|options| options.manager)
                .map_err(|status| status.message)
        };
        assert_eq!(manager_of("").as_deref(), Ok("agent"));
        assert_eq!(manager_of("fieldManager=me").as_deref(), Ok("me"));
        assert_eq!(
            manager_of("fieldManager=a%0Ab%C2%A0").unwrap_err(),
            "CreateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Invalid value: \"a\\nb\\u00a0\": invalid \
             character U+000A (at position 1), fieldManager: Invalid value: \"a\\nb\\u00a0\": invalid character U+00A0 \
             (at position 3)]"
        );
    }
}
