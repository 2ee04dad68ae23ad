//! The audit policy: which requests are audited, and at which level.

use std::{
    fs, io,
    path::{Path as FilePath, PathBuf},
};

use k3_api::{
    decode,
    field::{Error, Path, aggregate},
    name,
    strategy::Tree,
};
use serde_json::Value;

use super::context::AuditAttributes;

/// The level of a rule: how much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AuditLevel {
    /// No event is written.
    None,
    /// User, verb, object and status code.
    Metadata,
    /// Also the request body.
    Request,
    /// Also the response body.
    RequestResponse,
}

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditStage {
    /// The request was received and not handled yet.
    RequestReceived,
    /// The response headers were sent; only long-running requests have this stage.
    ResponseStarted,
    /// The response was sent.
    ResponseComplete,
    /// The handler panicked.
    Panic,
}

/// Which requests are audited, and at which level: the first matching rule decides.
#[derive(Debug)]
pub struct AuditPolicy {
    rules: Vec<AuditRule>,
}

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditPolicyError {
    /// The file cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a policy.
    #[error("{}: {why}", file.display())]
    Content {
        /// Which file.
        file: PathBuf,
        /// Which rule, which field, and what is wrong with it.
        why: AuditPolicyContentError,
    },
}

/// Why a text is not a policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditPolicyContentError {
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] decode::DecodeError),
    /// It is something else.
    #[error("apiVersion and kind must be audit.k8s.io/v1 and Policy, not {version:?} and {kind:?}")]
    Kind {
        /// Its apiVersion.
        version: String,
        /// Its kind.
        kind: String,
    },
    /// Fields are invalid: all of them, with their paths.
    #[error("{0}")]
    Fields(String),
    /// No request would be audited.
    #[error("rules: there must be at least one")]
    NoRules,
}

/// The audit configuration of a request: that of the first matching rule.
// upstream: staging/src/k8s.io/apiserver/pkg/audit/evaluator.go RequestAuditConfig; OmitStages
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestAuditConfig {
    pub level: AuditLevel,
    pub omit_stages: AuditStages,
    pub managed_fields: ManagedFieldsPolicy,
}

/// Whether events have the managed fields of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFieldsPolicy {
    Keep,
    Omit,
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditStages(u8);

#[derive(Debug)]
struct AuditRule {
    audit_config: RequestAuditConfig,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    namespaces: Vec<String>,
    resources: Vec<GroupResources>,
    paths: Vec<String>,
}

#[derive(Debug)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

const LEVELS: [(&str, AuditLevel); 4] = [
    ("None", AuditLevel::None),
    ("Metadata", AuditLevel::Metadata),
    ("Request", AuditLevel::Request),
    ("RequestResponse", AuditLevel::RequestResponse),
];
const STAGES: [(&str, AuditStage); 4] = [
    ("RequestReceived", AuditStage::RequestReceived),
    ("ResponseStarted", AuditStage::ResponseStarted),
    ("ResponseComplete", AuditStage::ResponseComplete),
    ("Panic", AuditStage::Panic),
];
/// The fields of a policy, of a rule, and of the resources in a rule.
const FIELDS: [&str; 6] = [
    "apiVersion",
    "kind",
    "metadata",
    "omitManagedFields",
    "omitStages",
    "rules",
];
const RULE_FIELDS: [&str; 9] = [
    "level",
    "namespaces",
    "nonResourceURLs",
    "omitManagedFields",
    "omitStages",
    "resources",
    "userGroups",
    "users",
    "verbs",
];
const RESOURCE_FIELDS: [&str; 3] = ["group", "resourceNames", "resources"];

// --- AuditPolicy ---

impl AuditPolicy {
    /// Reads the file of a policy: YAML or JSON.
    pub fn read(file: &FilePath) -> Result<Self, AuditPolicyError> {
        let text = fs::read(file).map_err(|source| AuditPolicyError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|why| AuditPolicyError::Content {
            file: file.to_owned(),
            why,
        })
    }

    /// Reads the text of a policy.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, AuditPolicyContentError> {
        let tree = decode::yaml_to_json(text)?.value;
        match (tree.text("apiVersion"), tree.text("kind")) {
            ("audit.k8s.io/v1", "Policy") => {}
            (version, kind) => {
                return Err(AuditPolicyContentError::Kind {
                    version: version.to_owned(),
                    kind: kind.to_owned(),
                });
            }
        }
        let mut errors = Vec::new();
        unknown_fields(&tree, &FIELDS, "");
        let omit_stages = stages(&tree, &Path::new("omitStages"), &mut errors);
        let managed_fields = if tree.flag("omitManagedFields") {
            ManagedFieldsPolicy::Omit
        } else {
            ManagedFieldsPolicy::Keep
        };
        let at = Path::new("rules");
        let rules: Vec<_> = tree
            .items("rules")
            .iter()
            .enumerate()
            .map(|(number, rule)| {
                AuditRule::read(rule, &at.index(number), omit_stages, managed_fields, &mut errors)
            })
            .collect();
        if let Some(errors) = aggregate(&errors) {
            return Err(AuditPolicyContentError::Fields(errors));
        }
        if rules.is_empty() {
            return Err(AuditPolicyContentError::NoRules);
        }
        Ok(AuditPolicy { rules })
    }

    /// What is done with a request. One that meets no rule is not written down.
    // upstream: staging/src/k8s.io/apiserver/pkg/audit/policy/checker.go EvaluatePolicyRule
    pub(super) fn evaluate(&self, attributes: &AuditAttributes<'_>) -> Option<RequestAuditConfig> {
        let rule = self.rules.iter().find(|rule| rule.matches(attributes))?;
        (rule.audit_config.level > AuditLevel::None).then_some(rule.audit_config)
    }
}

/// Unknown fields are ignored as upstream does, but they are probably mistakes: warn.
fn unknown_fields(tree: &Value, known: &[&str], location: &str) {
    for field in tree.as_object().into_iter().flatten().map(|(field, _)| field) {
        if !known.contains(&field.as_str()) {
            tracing::warn!("the audit policy has a field that does not exist: {location}{field}");
        }
    }
}

fn stages(tree: &Value, at: &Path<'_>, errors: &mut Vec<Error>) -> AuditStages {
    let mut found = AuditStages::default();
    for (number, name) in tree.texts("omitStages").enumerate() {
        if let Some((_, stage)) = STAGES.iter().find(|(known, _)| *known == name) {
            found.add(*stage);
            continue;
        }
        let allowed = STAGES.map(|(known, _)| known).join(",");
        errors.push(Error::invalid(
            &at.index(number),
            name,
            format!("allowed stages are {allowed}"),
        ));
    }
    found
}

// --- AuditRule ---

impl AuditRule {
    fn read(
        tree: &Value,
        at: &Path<'_>,
        omit_stages: AuditStages,
        managed_fields: ManagedFieldsPolicy,
        errors: &mut Vec<Error>,
    ) -> Self {
        unknown_fields(tree, &RULE_FIELDS, &format!("{at}."));
        let texts = |name: &str| tree.texts(name).map(str::to_owned).collect::<Vec<_>>();
        let level = match tree.text("level") {
            "" => {
                errors.push(Error::required(&at.child("level"), ""));
                AuditLevel::None
            }
            name => LEVELS.iter().find(|(known, _)| *known == name).map_or_else(
                || {
                    errors.push(Error::not_supported(
                        &at.child("level"),
                        name,
                        LEVELS.map(|(known, _)| known),
                    ));
                    AuditLevel::None
                },
                |(_, level)| *level,
            ),
        };
        let rule = AuditRule {
            audit_config: RequestAuditConfig {
                level,
                omit_stages: omit_stages.and(stages(tree, &at.child("omitStages"), errors)),
                managed_fields: match tree.at("omitManagedFields").as_bool() {
                    Some(true) => ManagedFieldsPolicy::Omit,
                    Some(false) => ManagedFieldsPolicy::Keep,
                    None => managed_fields,
                },
            },
            users: texts("users"),
            groups: texts("userGroups"),
            verbs: texts("verbs"),
            namespaces: texts("namespaces"),
            resources: tree
                .items("resources")
                .iter()
                .map(|tree| GroupResources::read(tree, &at.child("resources"), errors))
                .collect(),
            paths: texts("nonResourceURLs"),
        };
        rule.check_paths(&at.child("nonResourceURLs"), errors);
        rule
    }

    fn check_paths(&self, at: &Path<'_>, errors: &mut Vec<Error>) {
        for (number, path) in self.paths.iter().enumerate().filter(|(_, path)| *path != "*") {
            if !path.starts_with('/') {
                let why = "non-resource URL rules must begin with a '/' character";
                errors.push(Error::invalid(&at.index(number), path.as_str(), why));
            }
            if path.find('*').is_some_and(|star| star + 1 < path.len()) {
                let why = "non-resource URL wildcards '*' must be the final character of the rule";
                errors.push(Error::invalid(&at.index(number), path.as_str(), why));
            }
        }
        let names_objects = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.paths.is_empty() && names_objects {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(at, self.paths.join(","), why));
        }
    }

    fn matches(&self, attributes: &AuditAttributes<'_>) -> bool {
        let among = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
        if !self.users.is_empty() && !attributes.user.is_some_and(|user| among(&self.users, &user.name)) {
            return false;
        }
        let in_group =
            |user: &k3_api::strategy::User| user.groups.iter().any(|group| self.groups.contains(group));
        if !self.groups.is_empty() && !attributes.user.is_some_and(in_group) {
            return false;
        }
        if !among(&self.verbs, attributes.verb) {
            return false;
        }
        match &attributes.object {
            Some(object) if !self.namespaces.is_empty() || !self.resources.is_empty() => {
                among(&self.namespaces, &object.namespace)
                    && (self.resources.is_empty() || self.resources.iter().any(|one| one.matches(object)))
            }
            None if !self.namespaces.is_empty() || !self.resources.is_empty() => false,
            Some(_) => self.paths.is_empty(),
            None => {
                self.paths.is_empty() || self.paths.iter().any(|path| path_matches(path, attributes.path))
            }
        }
    }
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == path
        || rule
            .strip_suffix('*')
            .is_some_and(|beginning| path.starts_with(beginning))
}

// --- GroupResources ---

impl GroupResources {
    fn read(tree: &Value, at: &Path<'_>, errors: &mut Vec<Error>) -> Self {
        unknown_fields(tree, &RESOURCE_FIELDS, &format!("{at}."));
        let texts = |name: &str| tree.texts(name).map(str::to_owned).collect::<Vec<_>>();
        let found = GroupResources {
            group: tree.text("group").to_owned(),
            resources: texts("resources"),
            names: texts("resourceNames"),
        };
        if !matches!(found.group.as_str(), "" | "*") {
            let wrong = name::validate_dns1123_subdomain(&found.group);
            if !wrong.is_empty() {
                errors.push(Error::invalid(
                    &at.child("group"),
                    found.group.as_str(),
                    wrong.join(","),
                ));
            }
        }
        if !found.names.is_empty() && found.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            errors.push(Error::invalid(
                &at.child("resourceNames"),
                found.names.join(","),
                why,
            ));
        }
        found
    }

    fn matches(&self, object: &super::ObjectRef) -> bool {
        if self.group != object.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.names.is_empty() && !self.names.contains(&object.name) {
            return false;
        }
        self.resources.iter().any(|rule| match rule.split_once('/') {
            None => rule == "*" || (*rule == object.resource && object.subresource.is_empty()),
            Some(("*", part)) => !object.subresource.is_empty() && part == object.subresource,
            Some((resource, "*")) => resource == object.resource,
            Some((resource, part)) => resource == object.resource && part == object.subresource,
        })
    }
}

// --- AuditLevel ---

impl AuditLevel {
    /// Its name in policies and events.
    pub(crate) fn word(self) -> &'static str {
        LEVELS[self as usize].0
    }
}

// --- AuditStage ---

impl AuditStage {
    /// Its name in policies and events.
    pub(crate) fn word(self) -> &'static str {
        STAGES[self as usize].0
    }
}

// --- AuditStages ---

impl AuditStages {
    fn add(&mut self, stage: AuditStage) {
        self.0 |= 1 << stage as u8;
    }

    fn and(self, other: Self) -> Self {
        AuditStages(self.0 | other.0)
    }

    /// Whether a stage is among them.
    pub(crate) fn has(self, stage: AuditStage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use k3_api::strategy::User;

    use super::{super::ObjectRef, *};

    fn policy(rules: &str) -> AuditPolicy {
        let text = format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n{rules}"
        );
        AuditPolicy::parse(text.as_bytes()).unwrap()
    }

    fn attributes<'a>() -> AuditAttributes<'a> {
        AuditAttributes {
            id: "",
            received: k3_api::time::Time::from_unix(0, 0),
            user: None,
            verb: "",
            path: "",
            uri: "",
            agent: "",
            sources: Vec::new(),
            object: None,
        }
    }

    fn level(
        policy: &AuditPolicy,
        user: &User,
        verb: &str,
        path: &str,
        object: Option<[&str; 5]>,
    ) -> AuditLevel {
        let attributes = AuditAttributes {
            user: Some(user),
            verb,
            path,
            object: object.map(|[group, resource, subresource, namespace, name]| ObjectRef {
                group: group.into(),
                version: "v1".into(),
                resource: resource.into(),
                subresource: subresource.into(),
                namespace: namespace.into(),
                name: name.into(),
            }),
            ..attributes()
        };
        policy
            .evaluate(&attributes)
            .map_or(AuditLevel::None, |audit_config| audit_config.level)
    }

    #[test]
    fn first_matching_rule_sets_level() {
        let policy = policy(
            r#"
- {level: None, users: ["system:kube-proxy"], verbs: [watch], resources: [{group: "", resources: [endpoints, services/*]}]}
- {level: Metadata, resources: [{group: "", resources: [secrets], resourceNames: [one]}]}
- {level: Request, userGroups: [devs], namespaces: [a, ""]}
- {level: Request, resources: [{group: apps, resources: ["*/scale"]}]}
- {level: None, nonResourceURLs: ["/healthz*", /version]}
- {level: RequestResponse, resources: [{group: "*", resources: [pods/log]}]}
"#,
        );
        let proxy = User {
            name: "system:kube-proxy".into(),
            ..User::default()
        };
        let dev = User {
            name: "alice".into(),
            groups: vec!["devs".into()],
            ..User::default()
        };
        let none = User::default();
        let at =
            |user: &User, verb: &str, object: [&str; 5]| level(&policy, user, verb, "/api", Some(object));
        assert_eq!(
            at(&proxy, "watch", ["", "endpoints", "", "a", ""]),
            AuditLevel::None
        );
        assert_eq!(
            at(&dev, "watch", ["", "endpoints", "", "a", ""]),
            AuditLevel::Request
        );
        assert_eq!(
            at(&none, "get", ["", "secrets", "", "b", "one"]),
            AuditLevel::Metadata
        );
        assert_eq!(
            at(&none, "get", ["", "secrets", "", "b", "two"]),
            AuditLevel::None
        );
        assert_eq!(at(&dev, "get", ["", "nodes", "", "", "n"]), AuditLevel::Request);
        assert_eq!(at(&dev, "get", ["", "pods", "", "b", "n"]), AuditLevel::None);
        assert_eq!(
            at(&none, "update", ["apps", "deployments", "scale", "b", "n"]),
            AuditLevel::Request
        );
        assert_eq!(
            at(&none, "update", ["apps", "deployments", "", "b", "n"]),
            AuditLevel::None
        );
        assert_eq!(
            at(&none, "get", ["", "pods", "log", "b", "n"]),
            AuditLevel::RequestResponse
        );
        assert_eq!(
            level(&policy, &none, "get", "/healthz/ping", None),
            AuditLevel::None
        );
    }

    #[test]
    fn empty_rule_matches_everything_and_stages_accumulate() {
        let policy = policy("- {level: Metadata, omitStages: [ResponseStarted], omitManagedFields: true}");
        let attributes = AuditAttributes {
            path: "/healthz",
            ..attributes()
        };
        let audit_config = policy.evaluate(&attributes).unwrap();
        assert!(
            audit_config.omit_stages.has(AuditStage::RequestReceived)
                && audit_config.omit_stages.has(AuditStage::ResponseStarted)
        );
        assert!(
            !audit_config.omit_stages.has(AuditStage::ResponseComplete)
                && audit_config.managed_fields == ManagedFieldsPolicy::Omit
        );
    }

    #[test]
    fn errors_name_rule_and_field() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, named) in [
            ("kind: Policy\n".to_owned(), "apiVersion"),
            (format!("{head}rules: []"), "rules: there must be at least one"),
            (
                format!("{head}rules: [{{level: None}}, {{}}]"),
                "rules[1].level: Required value",
            ),
            (
                format!("{head}rules: [{{level: All}}]"),
                "rules[0].level: Unsupported value: \"All\"",
            ),
            (
                format!("{head}rules: [{{level: None, omitStages: [End]}}]"),
                "rules[0].omitStages[0]: Invalid value: \"End\"",
            ),
            (
                format!("{head}rules: [{{level: None, nonResourceURLs: [a]}}]"),
                "rules[0].nonResourceURLs[0]",
            ),
            (
                format!("{head}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [b]}}]"),
                "rules cannot apply to both",
            ),
            (
                format!("{head}rules: [{{level: None, resources: [{{group: a/v1}}]}}]"),
                "rules[0].resources.group",
            ),
            (
                format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]"),
                "requires at least one resource",
            ),
        ] {
            let why = AuditPolicy::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(why.contains(named), "{text}: {why}");
        }
    }
}
